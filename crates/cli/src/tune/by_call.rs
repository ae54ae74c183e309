//! How a launch is told what each call uses: several in turns in one communicator, by the calls' own configuration (NCCL 2.31 on) or
//! busbw's tuner (2.22 on), or one by the environment of a launch of its own. Not which are tried (`busbw_tune::catalogue::by_call`).

use std::ffi::OsString;

use busbw_core::{
    environment::{TUNER, TUNER_BEFORE},
    nccl_version::Version,
    plan::{AUTO, Variant},
};
use busbw_runner::backend::nccl::tuner::NCCL_TUNER_PLUGIN;
use busbw_tune::{
    Assignment, Call, Trial,
    catalogue::{ALGORITHM, CHANNELS},
};

use super::tuner_file;

/// NCCL's first release whose calls take a configuration.
const CONFIGURED_SINCE: Version = Version::new(2, 31, 2);
/// NCCL's first release whose tuner busbw tells what the next calls are to have.
const TUNER_TOLD_SINCE: Version = Version::new(2, 22, 3);
/// The most algorithms of one launch.
const MAX_TOGETHER: usize = 8;

/// How a call is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// By its own configuration.
    Configuration,
    /// By busbw's tuner, which NCCL asks.
    Tuner,
    /// By variables that its launch sets.
    Environment,
}

impl Way {
    /// That of these calls under this NCCL.
    pub(super) fn of(nccl: Option<&str>, calls: &[Call]) -> Way {
        let is_set = |names: &[&str]| names.iter().any(|name| std::env::var_os(name).is_some());
        let Some(nccl) = nccl.and_then(|text| text.parse::<Version>().ok()) else {
            return Way::Environment;
        };
        // NCCL 2.32.3 ignores what a call asks for where one of these is set, and a tuner finds its pair at -1.
        if is_set(&["NCCL_ALGO", "NCCL_PROTO"]) {
            return Way::Environment;
        }
        if nccl >= CONFIGURED_SINCE {
            return Way::Configuration;
        }
        let is_asked = calls.iter().any(|call| tuner_file::collective(&call.operation).is_some());
        let is_free = !is_set(&[NCCL_TUNER_PLUGIN, TUNER, TUNER_BEFORE]);
        match nccl >= TUNER_TOLD_SINCE && is_asked && is_free {
            true => Way::Tuner,
            false => Way::Environment,
        }
    }

    /// Whether calls can be told this way to use it. A tuner gives channels to Ring and Tree alone.
    fn tells(self, chosen: &Chosen) -> bool {
        let is_ring_or_tree =
            |name: &str| ["RING_", "TREE_"].iter().any(|one| name.starts_with(one));
        match self {
            Way::Configuration => true,
            Way::Tuner => {
                chosen.channels.is_none()
                    || chosen.algorithm.as_deref().is_some_and(is_ring_or_tree)
            }
            Way::Environment => false,
        }
    }

    /// This way, or the environment where it cannot tell calls to use it.
    pub(super) fn or_environment(self, trial: &Trial) -> Way {
        match self.tells(&Chosen::of(&trial.environment)) {
            true => self,
            false => Way::Environment,
        }
    }
}

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

    /// The variant of a benchmark whose calls use it; none where the environment sets it.
    pub(super) fn variant(&self, way: Way) -> Option<Variant> {
        let least = match way {
            Way::Configuration => self.channels,
            // A tuner gives the most; so does the file that is made of what was found.
            Way::Tuner => None,
            Way::Environment => return None,
        };
        Some(Variant {
            algorithm: self.algorithm.clone(),
            min_ctas: least,
            max_ctas: self.channels,
            cta_policy: None,
        })
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
pub(super) fn options(chosen: &[Chosen], way: Way) -> Vec<OsString> {
    let names: Vec<&str> =
        chosen.iter().map(|one| one.algorithm.as_deref().unwrap_or(AUTO)).collect();
    let mut words: Vec<OsString> = vec!["--algorithm".into(), names.join(",").into()];
    let variant = chosen.first().and_then(|one| one.variant(way)).unwrap_or_default();
    for (option, count) in [("--min-ctas", variant.min_ctas), ("--max-ctas", variant.max_ctas)] {
        if let Some(count) = count {
            words.extend([option.into(), count.to_string().into()]);
        }
    }
    words
}

/// The pending trials that one launch measures: those before the first that must be a launch of its own, with the first one's
/// number of channels, each algorithm once.
pub(super) fn together(pending: &[Trial], way: Way) -> Vec<Trial> {
    let Some(first) = pending.first() else { return Vec::new() };
    let channels = Chosen::of(&first.environment).channels;
    let mut all: Vec<Trial> = vec![first.clone()];
    if first.fresh || way.or_environment(first) == Way::Environment {
        return all;
    }
    for trial in pending.iter().skip(1).take_while(|trial| !trial.fresh) {
        let chosen = Chosen::of(&trial.environment);
        let is_new = all.iter().all(|one| Chosen::of(&one.environment) != chosen);
        let fits = chosen.channels == channels && way.tells(&chosen);
        if fits && is_new && all.len() < MAX_TOGETHER {
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
        let ids = |pending: &[Trial], way: Way| -> Vec<u64> {
            together(pending, way).into_iter().map(|one| one.id).collect()
        };
        for way in [Way::Configuration, Way::Tuner] {
            assert_eq!(ids(&pending, way), [0, 1]);
            assert_eq!(ids(&pending[2..], way), [2]);
            assert_eq!(ids(&pending[4..], way), [4]);
            let chosen: Vec<Chosen> =
                together(&pending, way).iter().map(|one| Chosen::of(&one.environment)).collect();
            assert_eq!(options(&chosen, way), ["--algorithm", "auto,RING_LL"]);
        }
        assert_eq!(ids(&pending, Way::Environment), [0]);
    }

    #[test]
    fn a_tuner_gives_channels_to_ring_and_tree_alone() {
        let pending = [
            trial(0, Some("RING_LL"), Some("4"), false),
            trial(1, Some("NVLS_SIMPLE"), Some("4"), false),
            trial(2, Some("TREE_LL"), Some("4"), false),
        ];
        let of = |way: Way| {
            let ids = |all: Vec<Trial>| -> Vec<u64> { all.into_iter().map(|one| one.id).collect() };
            (ids(together(&pending, way)), ids(together(&pending[1..], way)))
        };
        assert_eq!(of(Way::Configuration), (vec![0, 1, 2], vec![1, 2]));
        assert_eq!(of(Way::Tuner), (vec![0, 2], vec![1]));
        assert_eq!(Way::Tuner.or_environment(&pending[1]), Way::Environment);
        let ring = Chosen::of(&pending[0].environment);
        assert_eq!(
            options(std::slice::from_ref(&ring), Way::Tuner),
            ["--algorithm", "RING_LL", "--max-ctas", "4"]
        );
        let both = ["--algorithm", "RING_LL", "--min-ctas", "4", "--max-ctas", "4"];
        assert_eq!(options(&[ring], Way::Configuration), both);
    }

    #[test]
    fn the_way_follows_from_the_release_and_the_calls() {
        let call = |operation: &str| Call { operation: operation.to_owned(), size: 8 };
        let tuned = [call("all_reduce"), call("all_gather")];
        let of = |nccl: &str| Way::of(Some(nccl), &tuned);
        assert_eq!(
            [of("2.32.3"), of("2.28.9"), of("2.21.5")],
            [Way::Configuration, Way::Tuner, Way::Environment]
        );
        assert_eq!(Way::of(Some("2.28.9"), &[call("alltoall")]), Way::Environment);
        assert_eq!(Way::of(Some("2.28.9"), &[call("alltoall"), call("all_reduce")]), Way::Tuner);
        assert_eq!(Way::of(Some("2.32.3"), &[call("alltoall")]), Way::Configuration);
        assert_eq!(Way::of(None, &tuned), Way::Environment);
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
        let variant = |way: Way| chosen.variant(way).map(|one| one.to_string());
        assert_eq!(variant(Way::Environment), None);
        assert_eq!(variant(Way::Configuration).unwrap(), "NVLSTREE_SIMPLE/min-ctas=8/max-ctas=8");
    }
}
