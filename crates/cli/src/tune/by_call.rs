//! How a launch is told what each call uses: by the calls' own configuration, several in turns in one communicator
//! (NCCL 2.31 on), or by the environment of a launch of its own. Not which are tried (`busbw_tune::catalogue::by_call`).

use std::ffi::OsString;

use busbw_core::{
    nccl_version::Version,
    plan::{AUTO, Variant},
};
use busbw_tune::{
    Assignment, Trial,
    catalogue::{ALGORITHM, CHANNELS},
};

/// NCCL's first release whose calls take a configuration.
const CONFIGURED_SINCE: Version = Version::new(2, 31, 2);
/// The most algorithms of one launch.
const MAX_TOGETHER: usize = 8;

/// What a call uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Such as `RING_SIMPLE`; `None` leaves it to NCCL.
    pub(super) algorithm: Option<String>,
    pub(super) channels: Option<u32>,
}

impl Chosen {
    /// What a trial of the search by call sets.
    pub(super) fn of(sets: &[Assignment]) -> Chosen {
        let value =
            |name: &str| sets.iter().find(|one| one.name == name).and_then(|one| one.value.clone());
        Chosen {
            algorithm: value(ALGORITHM),
            channels: value(CHANNELS).and_then(|value| value.parse().ok()),
        }
    }

    /// The environment in which every call uses it.
    pub(super) fn environment(&self) -> Vec<Assignment> {
        let set =
            |name: &str, value: String| Assignment { name: name.to_owned(), value: Some(value) };
        let mut all = Vec::new();
        if let Some((algorithm, protocol)) =
            self.algorithm.as_deref().and_then(|one| one.rsplit_once('_'))
        {
            all.push(set("NCCL_ALGO", spelled(algorithm)));
            all.push(set("NCCL_PROTO", spelled(protocol)));
        }
        if let Some(channels) = self.channels {
            all.push(set("NCCL_MIN_NCHANNELS", channels.to_string()));
            all.push(set("NCCL_MAX_NCHANNELS", channels.to_string()));
        }
        all
    }

    /// The variant of a benchmark whose calls use it.
    pub(super) fn variant(&self) -> Variant {
        Variant {
            algorithm: self.algorithm.clone(),
            min_ctas: self.channels,
            max_ctas: self.channels,
            cta_policy: None,
        }
    }
}

/// A name as NCCL_ALGO and NCCL_PROTO have it in NCCL's manual.
fn spelled(name: &str) -> String {
    match name {
        "RING" => "Ring",
        "TREE" => "Tree",
        "NVLSTREE" => "NVLSTree",
        "SIMPLE" => "Simple",
        other => other,
    }
    .to_owned()
}

/// The options of a benchmark that measures these in turns; all have the same number of channels.
pub(super) fn options(chosen: &[Chosen]) -> Vec<OsString> {
    let names: Vec<&str> =
        chosen.iter().map(|one| one.algorithm.as_deref().unwrap_or(AUTO)).collect();
    let mut words: Vec<OsString> = vec!["--algorithm".into(), names.join(",").into()];
    if let Some(channels) = chosen.first().and_then(|one| one.channels) {
        let channels = channels.to_string();
        words.extend(["--min-ctas", &channels, "--max-ctas", &channels].map(OsString::from));
    }
    words
}

/// Whether calls of this NCCL take a configuration. Where NCCL_ALGO or NCCL_PROTO is set, NCCL 2.32.3 ignores it.
pub(super) fn is_configured(nccl: Option<&str>) -> bool {
    let nccl = nccl.and_then(|text| text.parse::<Version>().ok());
    let is_free = ["NCCL_ALGO", "NCCL_PROTO"].iter().all(|name| std::env::var_os(name).is_none());
    nccl.is_some_and(|nccl| nccl >= CONFIGURED_SINCE) && is_free
}

/// The pending trials that one launch measures: those before the first that must be a launch of its own, with the first one's
/// number of channels, each algorithm once.
pub(super) fn together(pending: &[Trial]) -> Vec<Trial> {
    let Some(first) = pending.first() else { return Vec::new() };
    let channels = Chosen::of(&first.environment).channels;
    let mut all: Vec<Trial> = vec![first.clone()];
    if first.fresh {
        return all;
    }
    for trial in pending.iter().skip(1).take_while(|trial| !trial.fresh) {
        let chosen = Chosen::of(&trial.environment);
        let is_new = all.iter().all(|one| Chosen::of(&one.environment) != chosen);
        if chosen.channels == channels && is_new && all.len() < MAX_TOGETHER {
            all.push(trial.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use busbw_tune::Purpose;

    use super::*;

    fn trial(id: u64, algorithm: Option<&str>, channels: Option<&str>, fresh: bool) -> Trial {
        let set = |name: &str, value: Option<&str>| {
            let value = value.map(str::to_owned)?;
            Some(Assignment { name: name.to_owned(), value: Some(value) })
        };
        let environment = [set(ALGORITHM, algorithm), set(CHANNELS, channels)];
        Trial {
            id,
            environment: environment.into_iter().flatten().collect(),
            point: Vec::new(),
            batches: 5,
            fresh,
            purpose: Purpose::Explore,
        }
    }

    #[test]
    fn one_launch_has_what_differs_by_algorithm_alone() {
        let pending = [
            trial(0, None, None, false),
            trial(1, Some("RING_LL"), None, false),
            trial(2, Some("RING_LL"), Some("4"), false),
            trial(3, None, None, false),
            trial(4, Some("TREE_LL"), None, true),
        ];
        let ids = |pending: &[Trial]| -> Vec<u64> {
            together(pending).into_iter().map(|one| one.id).collect()
        };
        assert_eq!(ids(&pending), [0, 1]);
        assert_eq!(ids(&pending[2..]), [2]);
        assert_eq!(ids(&pending[4..]), [4]);
        let chosen: Vec<Chosen> =
            together(&pending).iter().map(|one| Chosen::of(&one.environment)).collect();
        assert_eq!(options(&chosen), ["--algorithm", "auto,RING_LL"]);
    }

    #[test]
    fn an_environment_sets_what_the_calls_would() {
        let chosen = Chosen::of(&trial(0, Some("NVLSTREE_SIMPLE"), Some("8"), false).environment);
        let set: Vec<String> = chosen.environment().iter().map(ToString::to_string).collect();
        assert_eq!(
            set,
            [
                "NCCL_ALGO=NVLSTree",
                "NCCL_PROTO=Simple",
                "NCCL_MIN_NCHANNELS=8",
                "NCCL_MAX_NCHANNELS=8"
            ]
        );
        assert_eq!(chosen.variant().to_string(), "NVLSTREE_SIMPLE/min-ctas=8/max-ctas=8");
    }
}
