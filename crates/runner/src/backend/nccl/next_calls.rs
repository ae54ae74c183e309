//! Variants of calls before NCCL 2.31: busbw's tuner is told what the next calls are to have.
//! Not the tuner, and not the configuration that calls take later (`variants`).

use std::path::Path;

use anyhow::Result;
use busbw_core::plan::Variant;
use busbw_ffi::{environment, nccl::CallTuner};
use busbw_tuner_file::{Algorithm, Protocol};

use super::{Libraries, tuner::NCCL_TUNER_PLUGIN};
use crate::{
    backend::Reason,
    embedded::{self, Plugin},
};

/// The first release whose tuners are asked with a table of costs, which says what it can run: 2.22.
pub(super) const FIRST_RELEASE: u32 = 22200;
/// The first release whose calls take a configuration: 2.31.
pub(super) const LAST_RELEASE: u32 = 23100;

/// Has NCCL load busbw's tuner into this process, which has one thread, where calls of this NCCL take no configuration.
///
/// # Errors
/// The tuner's library cannot be written out.
pub(super) fn load(libraries: &Libraries) -> Result<()> {
    // Whoever needs the libraries says why they cannot be opened.
    let version = libraries.open().map(|opened| opened.nccl.version().0);
    if version.is_ok_and(|version| (FIRST_RELEASE..LAST_RELEASE).contains(&version)) {
        let file = embedded::path(Plugin::Tuner)?;
        environment::set(NCCL_TUNER_PLUGIN, file.to_string_lossy().into_owned());
    }
    Ok(())
}

/// The tuner that NCCL loads into this process.
///
/// # Errors
/// NCCL loads none, or another one: what to do, as half a sentence.
pub(super) fn tuner() -> Result<CallTuner, String> {
    let Some(file) = std::env::var_os(NCCL_TUNER_PLUGIN) else {
        return Err("by busbw's tuner, which this program does not bring".to_owned());
    };
    CallTuner::open(Path::new(&file)).map_err(|error| {
        format!("by busbw's tuner, and {NCCL_TUNER_PLUGIN} names another one ({error}): unset it")
    })
}

/// What the tuner is told for a variant: the pair by NCCL's numbers, and the most channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) pair: Option<(usize, usize)>,
    pub(super) channels: Option<u32>,
}

impl Next {
    /// That of a variant.
    ///
    /// # Errors
    /// No tuner can be told so.
    pub(super) fn of(variant: &Variant) -> Result<Next, Reason> {
        let refused =
            |why: &str| Reason(format!("{variant} needs NCCL 2.31 or later: a tuner {why}"));
        let pair = match &variant.algorithm {
            None => None,
            Some(name) => Some(pair(name).ok_or_else(|| refused("chooses no such kernel"))?),
        };
        if variant.cta_policy.is_some() {
            return Err(refused("chooses no CTA policy"));
        }
        if variant.min_ctas.is_some() && variant.min_ctas != variant.max_ctas {
            return Err(refused("chooses one number of channels: give --max-ctas the same"));
        }
        Ok(Next { pair, channels: variant.max_ctas })
    }
}

/// NCCL's numbers of `RING_SIMPLE`.
fn pair(name: &str) -> Option<(usize, usize)> {
    let (algorithm, protocol) = name.rsplit_once('_')?;
    // NVLSTREE in one place is NVLS_TREE in another.
    let same = |one: &&Algorithm| one.name().replace('_', "") == algorithm.replace('_', "");
    let algorithm = Algorithm::ALL.iter().find(same)?;
    let protocol = Protocol::ALL.iter().find(|one| one.name() == protocol)?;
    Some((algorithm.number(), protocol.number()))
}

#[cfg(test)]
mod tests {
    use busbw_core::plan::ALGORITHMS;

    use super::*;

    #[test]
    fn every_name_but_those_of_symmetric_kernels_has_its_numbers() {
        let found = |name: &&&str| pair(name).is_some();
        let (pairs, others): (Vec<&str>, Vec<&str>) = ALGORITHMS.iter().partition(found);
        assert_eq!(pairs.len(), 11, "{pairs:?}");
        assert!(others.iter().all(|name| name.starts_with("SYMK_")), "{others:?}");
        assert_eq!([pair("RING_LL128"), pair("NVLSTREE_SIMPLE")], [Some((1, 1)), Some((5, 2))]);
    }

    #[test]
    fn what_no_tuner_can_be_told_is_declined() {
        let ring = Variant { algorithm: Some("RING_LL".to_owned()), ..Variant::default() };
        let next = |variant: &Variant| Next::of(variant).map_err(|Reason(why)| why);
        assert_eq!(next(&ring), Ok(Next { pair: Some((1, 0)), channels: None }));
        let both = Variant { min_ctas: Some(4), max_ctas: Some(4), ..ring.clone() };
        assert_eq!(next(&both), Ok(Next { pair: Some((1, 0)), channels: Some(4) }));
        assert_eq!(next(&Variant::default()), Ok(Next { pair: None, channels: None }));
        for (variant, why) in [
            (Variant { min_ctas: Some(4), ..ring.clone() }, "one number of channels"),
            (Variant { cta_policy: Some(1), ..ring }, "no CTA policy"),
            (Variant { algorithm: Some("SYMK_LL".to_owned()), ..Variant::default() }, "no such"),
        ] {
            let said = next(&variant).expect_err("declined");
            assert!(said.contains(why) && said.contains("needs NCCL 2.31"), "{said}");
        }
    }
}
