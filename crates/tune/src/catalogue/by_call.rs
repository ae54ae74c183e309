//! What is chosen call by call: algorithm and protocol together, and the number of channels.
//! Not how a call is told (a configuration, a tuner, or the environment of a launch): the driver knows.

use busbw_core::nccl_version::Version;

use super::Here;
use crate::space::{Need, Scope, Space, SpaceError, Variable};

/// The variable of the algorithm with its protocol, as NCCL 2.31 names them: `RING_SIMPLE`.
pub const ALGORITHM: &str = "algorithm";
/// The variable of the number of channels.
pub const CHANNELS: &str = "channels";

/// Algorithm with protocol, NCCL's first release with it, and whether it needs NVLink switches. LL128 is left to NCCL, whose
/// table forbids it where it corrupts data (src/graph/tuning.cc).
const ALGORITHMS: [(&str, Version, bool); 6] = [
    ("RING_SIMPLE", Version::new(2, 5, 6), false),
    ("RING_LL", Version::new(2, 5, 6), false),
    ("TREE_SIMPLE", Version::new(2, 5, 6), false),
    ("TREE_LL", Version::new(2, 5, 6), false),
    ("NVLS_SIMPLE", Version::new(2, 17, 1), true),
    ("NVLSTREE_SIMPLE", Version::new(2, 19, 0), true),
];
/// Numbers of channels.
const NUMBERS: [&str; 6] = ["1", "2", "4", "8", "16", "32"];

/// The space of what is chosen by call, of algorithms that are offered for one of the job's collectives; channels are chosen for those
/// that `have_channels`.
///
/// # Errors
/// NCCL does not run here, or has none of them.
pub fn by_call(
    here: &Here,
    is_offered: impl Fn(&str) -> bool,
    have_channels: impl Fn(&str) -> bool,
) -> Result<Space, SpaceError> {
    let Some(nccl) = here.nccl else { return Err(SpaceError::Empty) };
    let known = ALGORITHMS.iter().filter(|(name, since, switches)| {
        *since <= nccl && (!switches || here.nvlink) && is_offered(name)
    });
    let variable = |name: &str, values: Vec<&str>, ordered: bool, needs: Vec<Need>| Variable {
        name: name.to_owned(),
        values: std::iter::once(None)
            .chain(values.into_iter().map(|value| Some(value.to_owned())))
            .collect(),
        default: 0,
        ordered,
        scope: Scope::Call,
        needs,
    };
    let algorithms: Vec<&str> = known.map(|(name, ..)| *name).collect();
    // A tuner's line names an algorithm: channels alone cannot be chosen by it.
    let levels = (1..).zip(&algorithms).filter(|(_, name)| have_channels(name));
    let named = Need { variable: 0, levels: levels.map(|(level, _)| level).collect() };
    Space::new(vec![
        variable(ALGORITHM, algorithms, false, Vec::new()),
        variable(CHANNELS, NUMBERS.to_vec(), true, vec![named]),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ll128_is_never_asked_for_and_switches_are_needed_for_theirs() {
        let values = |here: &Here| -> Vec<String> {
            let space = by_call(here, |_| true, |_| true).unwrap();
            space.variables()[0].values.iter().flatten().cloned().collect()
        };
        let plain = Here { nccl: Some(Version::new(2, 28, 9)), ..Here::default() };
        assert_eq!(values(&plain), ["RING_SIMPLE", "RING_LL", "TREE_SIMPLE", "TREE_LL"]);
        let switches = Here { nvlink: true, ..plain.clone() };
        assert!(values(&switches).contains(&"NVLSTREE_SIMPLE".to_owned()));
        assert!(values(&switches).iter().all(|value| !value.contains("LL128")));
        let old = Here { nccl: Some(Version::new(2, 17, 1)), ..switches };
        assert!(!values(&old).contains(&"NVLSTREE_SIMPLE".to_owned()));
        let none = by_call(&Here::default(), |_| true, |_| true);
        assert_eq!(none, Err(SpaceError::Empty));
    }

    #[test]
    fn channels_are_chosen_for_some_algorithms() {
        let here = Here { nccl: Some(Version::new(2, 28, 9)), nvlink: true, ..Here::default() };
        let space = by_call(&here, |_| true, |name| name.starts_with("RING_")).unwrap();
        let needs = &space.variables()[1].needs;
        assert_eq!(needs[0].levels, [1, 2], "{needs:?}");
    }
}
