//! The variants of a run: what each of its calls is given (ncclCollConfig_t, NCCL 2.31 and later; before by a tuner), measured in turns.
//! Not the configuration of a communicator ([`super::GpuOptions`]), and not how NCCL takes it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Case, Plan};
use crate::Collective;

/// The collectives whose call takes a configuration (nccl.h of 2.32.3: ncclAllReduceConfig and seven more). NCCL's callers
/// make the others of sends and receives, which take none.
pub const CONFIGURABLE: [Collective; 8] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::Broadcast,
    Collective::Reduce,
    Collective::AllToAll,
    Collective::Gather,
    Collective::Scatter,
];

/// The names of algorithms that NCCL takes (config/algorithm_registry.cc of 2.32.3, from its debug information). Those of
/// `SYMK_` are kernels for symmetric memory (`-R 2`), each of one collective.
pub const ALGORITHMS: [&str; 28] = [
    "TREE_LL",
    "TREE_LL128",
    "TREE_SIMPLE",
    "RING_LL",
    "RING_LL128",
    "RING_SIMPLE",
    "COLLNET_DIRECT_SIMPLE",
    "COLLNET_CHAIN_SIMPLE",
    "NVLS_SIMPLE",
    "NVLSTREE_SIMPLE",
    "PAT_SIMPLE",
    "SYMK_AGxLL_R",
    "SYMK_AGxLLMC_R",
    "SYMK_RSxTmaLD_AGxTmaST",
    "SYMK_RSxLD_AGxST",
    "SYMK_RSxLDMC_AGxSTMC",
    "SYMK_LL",
    "SYMK_LLMC",
    "SYMK_TmaST",
    "SYMK_ST",
    "SYMK_TmaSTMC",
    "SYMK_STMC",
    "SYMK_RailRing_LsaSTMC",
    "SYMK_TmaLD",
    "SYMK_LD",
    "SYMK_LDMC",
    "SYMK_RailA2A_LsaLD",
    "SYMK_RailA2A_LsaLDMC",
];

/// The word for NCCL's own choice among its algorithms.
pub const AUTO: &str = "auto";

/// What every call of a row is given; what is unset is left to NCCL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Variant {
    /// The algorithm and protocol that a call must use, one of [`ALGORITHMS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// The least CTAs (channels) of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ctas: Option<u32>,
    /// The most CTAs (channels) of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ctas: Option<u32>,
    /// NCCL's CTA policy of a call: 0 default, 1 efficiency, 2 zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cta_policy: Option<i32>,
}

impl fmt::Display for Variant {
    /// Its label, one word: `RING_SIMPLE`, `auto/min-ctas=4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm.as_deref().unwrap_or(AUTO))?;
        let numbers = [
            ("min-ctas", self.min_ctas.map(i64::from)),
            ("max-ctas", self.max_ctas.map(i64::from)),
            ("policy", self.cta_policy.map(i64::from)),
        ];
        for (name, value) in numbers {
            if let Some(value) = value {
                write!(f, "/{name}={value}")?;
            }
        }
        Ok(())
    }
}

/// Whether NCCL's log says that the algorithm ran which a variant asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlgorithmEvidence {
    /// NCCL's log names that algorithm.
    Proven,
    /// NCCL's log names another one.
    Conflicting,
    /// NCCL's log was not read, or names none.
    Unproven,
}

impl Plan {
    /// A case in each variant; one of plain calls where the plan has no variants.
    pub fn in_variants(&self, case: Case) -> impl Iterator<Item = Case> + use<> {
        (0..self.variants.len().max(1)).map(move |variant| Case { variant, ..case })
    }

    /// What the calls of a case are given; nothing where the plan has no variants.
    pub fn variant_of(&self, case: &Case) -> Option<&Variant> {
        self.variants.get(case.variant)
    }
}

impl AlgorithmEvidence {
    /// Its word in tables, as of transports.
    pub const fn word(self) -> &'static str {
        match self {
            AlgorithmEvidence::Proven => "proven",
            AlgorithmEvidence::Conflicting => "CONFLICTING",
            AlgorithmEvidence::Unproven => "unproven",
        }
    }
}

impl Variant {
    /// Whether `ran`, the algorithm as a row names it (`RING SIMPLE, channels 0-3`), is the one that was asked for; `None`
    /// where the choice was NCCL's.
    pub fn evidence(&self, ran: Option<&str>) -> Option<AlgorithmEvidence> {
        let asked = self.algorithm.as_deref()?;
        let Some(ran) = ran else { return Some(AlgorithmEvidence::Unproven) };
        let ran = ran.split_once(", ").map_or(ran, |(name, _)| name);
        let same = match asked.strip_prefix("SYMK_") {
            // The log's names begin with the collective: `symmetric AllReduce_RSxLD_AGxST`.
            Some(kernel) => {
                ran.split_once('_').is_some_and(|(_, name)| name.eq_ignore_ascii_case(kernel))
            }
            // The log says `NVLS_TREE SIMPLE`, the registry NVLSTREE_SIMPLE.
            None => plain(asked).eq(plain(ran)),
        };
        Some(if same { AlgorithmEvidence::Proven } else { AlgorithmEvidence::Conflicting })
    }
}

/// A name without what parts its words.
fn plain(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forced(name: &str) -> Variant {
        Variant { algorithm: Some(name.to_owned()), ..Variant::default() }
    }

    #[test]
    fn labels_are_one_word() {
        let all = Variant {
            min_ctas: Some(2),
            max_ctas: Some(4),
            cta_policy: Some(1),
            ..forced("RING_LL")
        };
        assert_eq!(all.to_string(), "RING_LL/min-ctas=2/max-ctas=4/policy=1");
        assert_eq!(Variant::default().to_string(), "auto");
    }

    #[test]
    fn the_log_proves_or_contradicts() {
        use AlgorithmEvidence::{Conflicting, Proven, Unproven};
        for (asked, ran, evidence) in [
            ("RING_SIMPLE", Some("RING SIMPLE, channels 0-3"), Proven),
            ("RING_SIMPLE", Some("RING_SIMPLE"), Proven),
            ("RING_LL", Some("RING LL128, channels 0-3"), Conflicting),
            ("NVLSTREE_SIMPLE", Some("NVLS_TREE SIMPLE, channels 0-15"), Proven),
            ("NVLS_SIMPLE", Some("NVLS_TREE SIMPLE, channels 0-15"), Conflicting),
            ("SYMK_RSxLD_AGxST", Some("symmetric AllReduce_RSxLD_AGxST, channels: 8"), Proven),
            ("SYMK_LD", Some("symmetric ReduceScatter_RailA2A_LsaLD, channels: 8"), Conflicting),
            ("TREE_LL", None, Unproven),
        ] {
            assert_eq!(forced(asked).evidence(ran), Some(evidence), "{asked} {ran:?}");
        }
        assert_eq!(Variant::default().evidence(Some("RING LL")), None);
    }
}
