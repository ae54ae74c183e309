//! Variants of calls before NCCL 2.31: busbw's tuner is told what the next calls are to have.
//! Not the tuner, and not the configuration that calls take later (`variants`).

use std::path::Path;

use anyhow::Result;
use busbw_core::{Collective, environment as environment_names, plan::Variant};
use busbw_ffi::{environment, nccl::CallTuner};
use busbw_tuner_file::{Algorithm, Protocol};

use super::{Libraries, operations::is_tuned, tuner::NCCL_TUNER_PLUGIN};
use crate::{
    backend::Reason,
    embedded::{self, Plugin},
};

/// The first release whose tuners are asked with a table of costs, which says what it can run: 2.22.
pub(super) const FIRST_RELEASE: u32 = 22200;
/// The first release whose calls take a configuration: 2.31.
pub(super) const CONFIGURED_SINCE: u32 = 23100;

/// Algorithms whose channels NCCL keeps within the communicator's: Tree and Ring.
const BOUNDED: [usize; 2] = [0, 1];

/// Has NCCL load busbw's tuner into this process, which has one thread, where calls of this NCCL take no configuration.
///
/// # Errors
/// The tuner's library cannot be written out.
pub(super) fn load(libraries: &Libraries) -> Result<()> {
    if libraries.amd || named().is_some() {
        return Ok(());
    }
    // Whoever needs the libraries says why they cannot be opened.
    let version = libraries.open().map(|opened| opened.nccl.version().0);
    if version.is_ok_and(|version| (FIRST_RELEASE..CONFIGURED_SINCE).contains(&version)) {
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
        let why = match named() {
            Some(name) => format!("unset {name} to have busbw's tuner ask for it"),
            None => "name a newer one with --nccl".to_owned(),
        };
        return Err(why);
    };
    CallTuner::open(Path::new(&file)).map_err(|error| {
        format!("unset {NCCL_TUNER_PLUGIN}, another tuner ({error}), to have busbw's ask for it")
    })
}

/// The variable by which the user has named a tuner, or what it chooses by.
fn named() -> Option<&'static str> {
    let names = [NCCL_TUNER_PLUGIN, environment_names::TUNER, environment_names::TUNER_BEFORE];
    names.into_iter().find(|name| std::env::var_os(name).is_some())
}

/// What the tuner is told for a variant: the pair by NCCL's numbers, and the most channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) pair: Option<(usize, usize)>,
    pub(super) channels: Option<u32>,
}

impl Next {
    /// Whether anything is left to the tuner.
    pub(super) fn is_any(self) -> bool {
        self.pair.is_some() || self.channels.is_some()
    }

    /// That of a variant of a collective.
    ///
    /// # Errors
    /// No tuner can be told so.
    pub(super) fn of(variant: &Variant, collective: Collective) -> Result<Next, Reason> {
        let refused =
            |why: &str| Reason(format!("{variant} needs NCCL 2.31 or later: a tuner {why}"));
        if *variant != Variant::default() && !is_tuned(collective) {
            return Err(refused(&format!("is not asked for {}", collective.name())));
        }
        let pair = match &variant.algorithm {
            None => None,
            Some(name) => Some(pair(name).ok_or_else(|| refused("chooses no such kernel"))?),
        };
        if variant.cta_policy.is_some() {
            return Err(refused("chooses no CTA policy"));
        }
        if variant.min_ctas.is_some() {
            // Its number is a bound: small calls take fewer (scheduleCollTasksToPlan, src/enqueue.cc of 2.28.9).
            return Err(refused("gives the most channels, not the least"));
        }
        if variant.max_ctas.is_some() && !pair.is_some_and(|pair| BOUNDED.contains(&pair.0)) {
            // NVLS and CollNet take it beyond the communicator's own number, and NCCL's choice may be one of them.
            return Err(refused("gives channels to Ring and Tree alone"));
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
        let of = |variant: &Variant, of| Next::of(variant, of).map_err(|Reason(why)| why);
        let next = |variant: &Variant| of(variant, Collective::AllReduce);
        assert!(of(&ring, Collective::AllToAll).unwrap_err().contains("is not asked for alltoall"));
        assert!(of(&Variant::default(), Collective::AllToAll).is_ok());
        assert_eq!(next(&ring), Ok(Next { pair: Some((1, 0)), channels: None }));
        let most = Variant { max_ctas: Some(4), ..ring.clone() };
        assert_eq!(next(&most), Ok(Next { pair: Some((1, 0)), channels: Some(4) }));
        let nvls = Variant { algorithm: Some("NVLS_SIMPLE".to_owned()), ..most.clone() };
        assert_eq!(next(&Variant::default()), Ok(Next { pair: None, channels: None }));
        for (variant, why) in [
            (Variant { min_ctas: Some(4), ..most }, "the most channels"),
            (Variant { max_ctas: Some(4), ..Variant::default() }, "Ring and Tree alone"),
            (nvls, "Ring and Tree alone"),
            (Variant { cta_policy: Some(1), ..ring }, "no CTA policy"),
            (Variant { algorithm: Some("SYMK_LL".to_owned()), ..Variant::default() }, "no such"),
        ] {
            let said = next(&variant).expect_err("declined");
            assert!(said.contains(why) && said.contains("needs NCCL 2.31"), "{said}");
        }
    }
}
