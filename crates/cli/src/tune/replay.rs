//! A job's own calls in two environments: launches of `busbw replay` in turns, and what the calls take in each.
//! Not the calls themselves (`options::planning::calls`), and not running them (`busbw_runner`).

mod table;
mod total;

use std::time::Instant;

use anyhow::Result;
use busbw_analysis::sweep::{Cell, Tried, compare_with};
use busbw_core::{
    Benchmark, DataType, ReduceOp,
    exit::{Exit, ExitError},
    plan::{CallClass, Calls, LeftOut, Partition},
    quantity::{count, time},
};
use busbw_stats::Comparison;
use serde::Serialize;

use crate::{
    options::TurnArguments,
    sweep::{self, Destination, Environment, Interruption, Prepared, launch::Started, say},
    within_job::Leader,
};
use total::Total;

/// Version of the JSON form.
const SCHEMA: u32 = 2;

/// What was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Replayed {
    replay_schema: u32,
    /// What the calls were read from, and whose they are.
    source: String,
    of: String,
    /// Calls of the sequence, and its length in the job, microseconds.
    calls: u64,
    recorded_us: f64,
    /// That rank's calls that are not in it.
    left_out: Vec<LeftOut>,
    /// Both environments: the default, then the recommended one.
    environments: [Tried; 2],
    /// Launches of each environment.
    launches: u32,
    /// The whole sequence, from the first call's start to the last one's end.
    sequence: Row,
    /// Its classes of calls.
    rows: Vec<Row>,
    /// What the calls of all classes with figures take, of each environment.
    totals: [Option<Total>; 2],
    /// Totals of the second environment over those of the first, by launches.
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<Comparison>,
    took_s: f64,
    interrupted: bool,
}

/// All calls, or those of a class.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    operation: &'static str,
    /// Bytes as in the size column; of the sequence those of all calls.
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    datatype: Option<DataType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redop: Option<ReduceOp>,
    /// The communicators that make the call; absent where all ranks have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<Partition>,
    calls: u64,
    /// The median time of a call in the job, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_job_us: Option<f64>,
    /// The figures of each environment.
    cells: Vec<Option<Cell>>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    waived: Option<String>,
}

/// Measures the calls in both environments: the default, then the recommended one. `turns` says where ranks run, which trace
/// it is (its benchmark's words), how many launches there are and how long all may take.
///
/// # Errors
/// The options or the trace cannot be used, or a process cannot be started.
pub(crate) fn run(
    environments: &[Environment; 2],
    turns: &TurnArguments,
    leader: Option<&Leader>,
) -> Result<Replayed> {
    let interruption = Interruption::watch()?;
    let begun = Instant::now();
    let turns = TurnArguments { benchmark: Benchmark::Replay.name().to_owned(), ..turns.clone() };
    let prepared = Prepared::new(&turns)?;
    let calls = prepared.plan().calls.clone();
    let none = || ExitError::new(Exit::Internal, "the plan of a replay has no calls");
    let calls = calls.ok_or_else(none)?;
    say(&format!(
        "replay: {} of {}, {} launches",
        count(calls.sequence.len() as u64, "call"),
        count(calls.classes.len() as u64, "kind"),
        2 * turns.launches
    ));
    let destination = Destination::find(&turns, &prepared, "replay")?;
    let job = sweep::Job {
        words: prepared.words.clone(),
        has_patience: prepared.has_patience(),
        rows: prepared.rows(),
        launches: turns.launches,
        time: turns.time,
    };
    let path = |environment: usize, launch: u32| {
        let name = environments.get(environment).map_or("", |one| one.name.as_str());
        destination.of_launch(name, launch)
    };
    let started = Started { leader, interruption: &interruption, until: None };
    let taken = sweep::take(&job, environments, &started, path, |environment, launch, over| {
        let name = environments.get(environment).map_or("", |one| one.name.as_str());
        let took = time(over.took.as_secs_f64() * 1e6);
        say(&format!("replay: launch {} of {}, {name}: {took}", launch + 1, turns.launches));
    })?;
    let tried = std::array::from_fn(|number| {
        let environment = &environments[number];
        let turns = taken.get(number);
        let of = |turns| sweep::tried(environment, turns, destination.is_kept());
        turns.map_or_else(|| sweep::untried(environment), of)
    });
    Ok(Replayed {
        launches: turns.launches,
        took_s: begun.elapsed().as_secs_f64(),
        interrupted: interruption.is_interrupted(),
        ..replayed(&calls, tried, &taken)
    })
}

/// What was measured as a table: a row a class, one total.
pub(crate) fn table(replayed: &Replayed) -> String {
    table::table(replayed)
}

/// The exit code: that of the first environment that failed.
pub(crate) fn exit(replayed: &Replayed) -> Exit {
    if replayed.interrupted {
        return Exit::Interrupted;
    }
    let failed = replayed.environments.iter().find_map(|one| one.failed.as_ref());
    failed.map_or(Exit::Ok, |failed| sweep::exit_of(failed.exit))
}

/// What launches measured, as one result.
fn replayed(calls: &Calls, environments: [Tried; 2], taken: &[sweep::Turns]) -> Replayed {
    let mut cells: Vec<Vec<Option<Cell>>> =
        sweep::rows(taken, Benchmark::Replay, None).into_iter().map(|row| row.cells).collect();
    cells.iter_mut().for_each(|cells| compare_with(Some(0), cells));
    let measured = |index: usize, row: Row| {
        let cells = cells.get(index).cloned().unwrap_or_default();
        let complete = cells.iter().filter(|cell| cell.is_some()).count() == 2;
        let waived = (!complete).then(|| why_not(index, taken, &environments));
        Row { cells, waived, ..row }
    };
    let classes = calls.classes.iter().enumerate();
    let rows = classes
        .map(|(number, class)| measured(number + 1, of_class(class, calls.of_class(number))));
    let mut replayed = Replayed {
        replay_schema: SCHEMA,
        source: calls.source.clone(),
        of: calls.of.clone(),
        calls: calls.sequence.len() as u64,
        recorded_us: calls.recorded_us(),
        left_out: calls.left_out.clone(),
        launches: 0,
        sequence: measured(0, of_all(calls)),
        rows: rows.collect(),
        totals: [None, None],
        against: None,
        environments,
        took_s: 0.0,
        interrupted: false,
    };
    total::add(&mut replayed);
    replayed
}

fn of_all(calls: &Calls) -> Row {
    Row {
        operation: "the sequence",
        bytes: calls.bytes(),
        datatype: None,
        redop: None,
        partition: None,
        calls: calls.sequence.len() as u64,
        in_job_us: None,
        cells: Vec::new(),
        waived: None,
    }
}

fn of_class(class: &CallClass, calls: u64) -> Row {
    Row {
        operation: class.collective.name(),
        bytes: class.bytes,
        datatype: Some(class.datatype),
        redop: class.collective.reduces().then_some(class.op),
        partition: class.partition,
        calls,
        in_job_us: class.in_job_us,
        cells: Vec::new(),
        waived: None,
    }
}

/// Why a row has no figures of both environments.
fn why_not(index: usize, taken: &[sweep::Turns], environments: &[Tried; 2]) -> String {
    let records = taken.iter().flat_map(|turns| &turns.launches);
    let mut rows = records.filter_map(|launch| launch.record.as_ref()).flat_map(|one| &one.rows);
    if let Some(reason) =
        rows.find(|row| row.index == index as u64).and_then(|row| row.waived.clone())
    {
        return reason;
    }
    let failed = environments
        .iter()
        .filter_map(|one| Some(format!("{} failed: {}", one.name, one.failed.as_ref()?.reason)));
    let failed: Vec<String> = failed.collect();
    match failed.is_empty() {
        true => "it was not measured to its end".to_owned(),
        false => failed.join("; "),
    }
}
