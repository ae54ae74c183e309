//! How a launch is told what each call uses: several in turns in one communicator, by the calls' own configuration (NCCL 2.31 on) or
//! busbw's tuner (2.22 on), or one by the environment of a launch of its own. Not which are tried (`busbw_tune::catalogue::by_call`).

use std::ffi::OsString;

use busbw_core::{
    Benchmark,
    environment::{TUNER, TUNER_BEFORE},
    nccl_version::Version,
    plan::{AUTO, CONFIGURABLE, Variant},
    record::Folded,
};
use busbw_library_logs::nccl::{NcclFacts, PluginState};
use busbw_runner::backend::nccl::tuner::NCCL_TUNER_PLUGIN;
use busbw_tune::{
    Assignment, Trial,
    catalogue::{ALGORITHM, CHANNELS},
};
use serde::{Deserialize, Serialize};

use super::tuner_file;

/// NCCL's first release whose calls take a configuration.
const CONFIGURED_SINCE: Version = Version::new(2, 31, 2);
/// NCCL's first release whose tuner busbw tells what the next calls are to have.
const TUNER_TOLD_SINCE: Version = Version::new(2, 22, 3);
/// The most algorithms of one launch.
const MAX_TOGETHER: usize = 8;

/// How a call is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Way {
    /// By its own configuration.
    Configuration,
    /// By busbw's tuner, which NCCL asks.
    Tuner,
    /// By variables that its launch sets.
    Environment,
}

impl Way {
    /// That of what these records of a launch in the user's own environment have measured.
    pub(super) fn of(records: &[Folded], nccl: Option<Version>, is_amd: bool) -> Way {
        let plans = || records.iter().map(|one| &one.run.plan);
        let Some(nccl) = nccl.filter(|_| plans().all(|plan| plan.backend.name() == "nccl")) else {
            return Way::Environment;
        };
        // The job's own tuner chooses by default: busbw's would take its place there, too. Where the user captures NCCL's log,
        // nothing says whether there is one.
        let has_tuner = is_set(&[NCCL_TUNER_PLUGIN, TUNER, TUNER_BEFORE])
            || records
                .iter()
                .any(|one| one.library.is_empty() || one.library.iter().any(has_tuner));
        let benchmarks: Vec<Benchmark> = plans().map(|plan| plan.benchmark).collect();
        Way::under(nccl, &benchmarks, !is_amd && !has_tuner)
    }

    fn under(nccl: Version, benchmarks: &[Benchmark], is_tuner_free: bool) -> Way {
        // NCCL 2.32.3 ignores what a call asks for where one of these is set, and a tuner finds its pair at -1.
        if is_set(&["NCCL_ALGO", "NCCL_PROTO"]) || !all_take_one(benchmarks) {
            return Way::Environment;
        }
        let is_asked = benchmarks.iter().any(|one| tuner_file::collective(one.name()).is_some());
        match nccl {
            nccl if nccl >= CONFIGURED_SINCE => Way::Configuration,
            nccl if nccl >= TUNER_TOLD_SINCE && is_tuner_free && is_asked => Way::Tuner,
            _ => Way::Environment,
        }
    }

    /// That of a tuning which an earlier busbw began.
    pub(super) fn before_it_was_kept(nccl: Option<&str>) -> Way {
        let nccl = nccl.and_then(|text| text.parse::<Version>().ok());
        let is_free = !is_set(&["NCCL_ALGO", "NCCL_PROTO"]);
        match is_free && nccl.is_some_and(|nccl| nccl >= CONFIGURED_SINCE) {
            true => Way::Configuration,
            false => Way::Environment,
        }
    }

    /// Whether it can set channels of this algorithm, such as `RING_SIMPLE`. A tuner sets those of Ring and Tree alone.
    pub(super) fn sets_channels(self, algorithm: &str) -> bool {
        self != Way::Tuner || ["RING_", "TREE_"].iter().any(|one| algorithm.starts_with(one))
    }
}

fn is_set(names: &[&str]) -> bool {
    names.iter().any(|name| std::env::var_os(name).is_some())
}

/// Whether a variant can be asked of each of them.
fn all_take_one(benchmarks: &[Benchmark]) -> bool {
    benchmarks.iter().all(|benchmark| match benchmark {
        Benchmark::Collective(collective) => CONFIGURABLE.contains(collective),
        Benchmark::Messages(_) | Benchmark::Pairs | Benchmark::Replay => false,
    })
}

/// Whether NCCL has loaded a tuner.
fn has_tuner(facts: &NcclFacts) -> bool {
    let is_there = |state: PluginState| state >= PluginState::Loaded;
    facts.plugins.iter().any(|one| one.what.kind == "tuner" && is_there(one.what.state))
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
    if first.fresh || way == Way::Environment {
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
    use busbw_core::Collective;
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
    fn a_tuner_gives_the_most_channels_and_those_of_ring_and_tree_alone() {
        let ring = Chosen::of(&trial(0, Some("RING_LL"), Some("4"), false).environment);
        let words = |way: Way| options(std::slice::from_ref(&ring), way);
        assert_eq!(words(Way::Tuner), ["--algorithm", "RING_LL", "--max-ctas", "4"]);
        let both = ["--algorithm", "RING_LL", "--min-ctas", "4", "--max-ctas", "4"];
        assert_eq!(words(Way::Configuration), both);
        let sets =
            |way: Way| ["RING_LL", "TREE_SIMPLE", "NVLS_SIMPLE"].map(|one| way.sets_channels(one));
        assert_eq!(sets(Way::Tuner), [true, true, false]);
        assert_eq!([sets(Way::Configuration), sets(Way::Environment)], [[true; 3]; 2]);
    }

    #[test]
    fn the_way_follows_from_the_release_and_what_is_measured() {
        use Collective::{AllGather, AllReduce, AllToAll, SendRecv};
        let under = |nccl: &str, collectives: &[Collective], is_tuner_free: bool| {
            let all: Vec<Benchmark> =
                collectives.iter().copied().map(Benchmark::Collective).collect();
            Way::under(nccl.parse().unwrap(), &all, is_tuner_free)
        };
        let both = [AllReduce, AllGather];
        let ways = [Way::Configuration, Way::Tuner, Way::Environment];
        assert_eq!(["2.32.3", "2.28.9", "2.21.5"].map(|nccl| under(nccl, &both, true)), ways);
        assert_eq!(under("2.28.9", &both, false), Way::Environment);
        assert_eq!(under("2.28.9", &[AllToAll], true), Way::Environment);
        assert_eq!(under("2.28.9", &[AllToAll, AllReduce], true), Way::Tuner);
        assert_eq!(under("2.32.3", &[AllToAll], false), Way::Configuration);
        let mixed = [SendRecv, AllReduce];
        assert_eq!(
            ["2.32.3", "2.28.9"].map(|nccl| under(nccl, &mixed, true)),
            [Way::Environment; 2]
        );
        let facts = busbw_library_logs::nccl::parse;
        assert!(has_tuner(&facts("vm:1:2 [0] NCCL INFO TUNER/Plugin: Using nccl_ofi_tuner (v3)")));
        assert!(!has_tuner(&facts(
            "vm:1:2 [0] NCCL INFO TUNER/Plugin: Could not find: libnccl-tuner.so"
        )));
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
