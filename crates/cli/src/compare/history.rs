//! The noise between launches of the same point on this machine, from records of earlier runs.
//! Not a side of the comparison.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use busbw_analysis::comparison::{Point, Side};
use busbw_core::record::{Folded, Status};
use busbw_logs::measurement::Measurement;
use busbw_stats::median;

use super::sides::Source;
use busbw_store as store;

/// Maximum of records that are read, the newest ones.
const MAX_RUNS_READ: usize = 400;
/// Minimum of launches in one state of the machine before its usual time is known.
const MIN_LAUNCHES_PER_STATE: usize = 5;

/// The history of the machine that all sides ran on. Records are read on first use.
pub(super) struct History {
    machine: Option<Machine>,
    compared: BTreeSet<PathBuf>,
    read: Option<BTreeMap<Point, Vec<f64>>>,
}

/// What must be equal for runs to be of one machine.
type Machine = BTreeSet<(String, String)>;

impl History {
    /// The history of the machine of all sides; empty where the machines differ.
    pub(super) fn new(baseline: &Source, candidates: &[Source]) -> History {
        let runs = || [baseline].into_iter().chain(candidates).flat_map(|side| &side.runs);
        let mut machines = runs().map(machine);
        let first = machines.next().flatten();
        let same = machines.all(|other| other == first);
        let path = |run: &Measurement| fs::canonicalize(&run.source.name).ok();
        History {
            machine: first.filter(|_| same),
            compared: runs().filter_map(path).collect(),
            read: None,
        }
    }

    /// Times of earlier launches of a point, as multiples of the median in their state of the machine
    /// (the same plan, version of NCCL and environment).
    pub(super) fn of(&mut self, point: &Point) -> Vec<f64> {
        let Some(machine) = &self.machine else { return Vec::new() };
        let compared = &self.compared;
        let read = self.read.get_or_insert_with(|| read(machine, compared));
        read.get(point).cloned().unwrap_or_default()
    }
}

/// Plan, NCCL's version and environment: what changes the usual time of a point on a machine.
type State = (String, Option<String>, Vec<(String, String)>);

/// Whether a run shows the usual time: complete, with correct data, and without injected faults.
fn is_sound(record: &Folded) -> bool {
    record.run.plan.fault.is_none()
        && record
            .end
            .as_ref()
            .is_some_and(|end| end.status == Status::Complete && end.out_of_bounds == 0)
}

/// The parts of a plan that change times: backend, layout, iterations and how they run.
fn plan(record: &Folded) -> String {
    let plan = &record.run.plan;
    format!(
        "{:?} {} {} {} {} {} {:?} {:?} {}",
        plan.backend,
        plan.threads,
        plan.devices,
        plan.iterations,
        plan.aggregated,
        plan.warmup,
        plan.blocking,
        plan.average,
        plan.graph
    )
}

/// Hosts and devices; none where they are not listed.
fn machine(run: &Measurement) -> Option<Machine> {
    let devices = run.devices.iter().map(|one| (one.host.clone(), one.name.clone()));
    Some(devices.collect()).filter(|devices: &Machine| !devices.is_empty())
}

fn read(wanted: &Machine, compared: &BTreeSet<PathBuf>) -> BTreeMap<Point, Vec<f64>> {
    let is_compared = |path: &Path| fs::canonicalize(path).is_ok_and(|p| compared.contains(&p));
    let paths = store::last(MAX_RUNS_READ).unwrap_or_default();
    let runs = paths
        .iter()
        .filter(|path| !is_compared(path))
        .filter_map(|path| store::read(path).ok())
        .filter(is_sound)
        .map(|record| (plan(&record), Measurement::from_record(record, "")))
        .filter(|(_, run)| machine(run).as_ref() == Some(wanted));
    let mut states: BTreeMap<State, Vec<Measurement>> = BTreeMap::new();
    for (plan, run) in runs {
        let environment = run.environment.clone().into_iter().collect();
        states.entry((plan, run.nccl.clone(), environment)).or_default().push(run);
    }
    let mut found: BTreeMap<Point, Vec<f64>> = BTreeMap::new();
    for runs in states.values() {
        for (point, times) in Side::of("", runs).points {
            let launches = &times.launches_us;
            if let Some(usual) =
                median(launches).filter(|_| launches.len() >= MIN_LAUNCHES_PER_STATE)
            {
                found.entry(point).or_default().extend(launches.iter().map(|time| time / usual));
            }
        }
    }
    found
}
