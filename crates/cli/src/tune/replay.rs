//! A job's own calls, measured without the job: each class of them in two environments, by launches in turns, and what the
//! job's calls take in all.
//! Not a replay of their order: gaps, and calls that overlap, are not measured (docs/trace.md).

mod plan;
mod table;
mod total;

use std::{ffi::OsString, time::Instant};

use anyhow::Result;
use busbw_analysis::sweep::{Cell, Tried, compare_with};
use busbw_core::{exit::Exit, quantity::bytes};
use busbw_logs::trace::{Class, Trace, TraceSource};
use busbw_stats::Comparison;
use serde::Serialize;

use crate::{
    options::TurnArguments,
    sweep::{self, Destination, Environment, Interruption, Prepared, launch::Started, say},
    within_job::Leader,
};
use plan::Planned;
use total::Total;

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// What was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Replayed {
    replay_schema: u32,
    source: TraceSource,
    /// Both environments: the default, then the recommended one.
    environments: [Tried; 2],
    /// Launches of each class in each environment.
    launches: u32,
    rows: Vec<Row>,
    /// What the calls of all classes with figures take, of each environment.
    totals: [Option<Total>; 2],
    /// Totals of the second environment over those of the first, by launches.
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<Comparison>,
    /// The share of the trace's bytes that these classes have.
    share: f64,
    took_s: f64,
    interrupted: bool,
}

/// A class of calls.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    class: Class,
    /// The size that was measured, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    row_bytes: Option<u64>,
    /// The figures of each environment.
    cells: Vec<Option<Cell>>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    waived: Option<String>,
}

/// Measures the classes of `trace` in both environments: the default, then the recommended one. `turns` says where ranks run,
/// how many launches there are and how long all may take; its benchmark is not used.
///
/// # Errors
/// The options cannot be used, or a process cannot be started.
pub(crate) fn run(
    trace: &Trace,
    environments: &[Environment; 2],
    turns: &TurnArguments,
    leader: Option<&Leader>,
) -> Result<Replayed> {
    let interruption = Interruption::watch()?;
    let begun = Instant::now();
    let mut rows: Vec<Row> = Vec::new();
    let mut tried = environments.each_ref().map(sweep::untried);
    let planned = plan::classes(trace, |class| turns_of(class, turns))?;
    let measured = planned.iter().filter(|one| one.ready.is_ok()).count();
    let mut number = 0;
    for Planned { class, ready } in planned {
        let (turns, prepared) = match ready {
            Ok(ready) => ready,
            Err(reason) => {
                rows.push(Row { class, row_bytes: None, cells: Vec::new(), waived: Some(reason) });
                continue;
            }
        };
        number += 1;
        if interruption.is_interrupted() {
            let waived = Some("interrupted before it was measured".to_owned());
            rows.push(Row { class, row_bytes: None, cells: Vec::new(), waived });
            continue;
        }
        say(&format!(
            "replay, class {number} of {measured}: {} of {}, {} launches",
            class.operation,
            bytes(class.bytes),
            2 * turns.launches
        ));
        // Each class has the same part of the time that is left.
        let rest = (measured - number + 1) as f64;
        let left = |limit: f64| ((limit - begun.elapsed().as_secs_f64()) / rest).max(1.0);
        let time = turns.time.map(left);
        let started = Started { leader, interruption: &interruption, until: None };
        let name = format!("{}-{}", class.operation, class.bytes);
        let taken = measure(&turns, &prepared, environments, &started, time, &name)?;
        rows.push(row(class, &taken, environments, &mut tried));
    }
    let mut replayed = Replayed {
        replay_schema: SCHEMA,
        source: trace.source,
        environments: tried,
        launches: turns.launches,
        rows,
        totals: [None, None],
        against: None,
        share: 0.0,
        took_s: begun.elapsed().as_secs_f64(),
        interrupted: interruption.is_interrupted(),
    };
    total::add(&mut replayed);
    Ok(replayed)
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

/// The options of a class's launches.
fn turns_of(class: &Class, turns: &TurnArguments) -> Option<TurnArguments> {
    let size = class.row_bytes()?.to_string();
    let mut words = vec!["-b".to_owned(), size.clone(), "-e".to_owned(), size];
    if let Some(datatype) = class.datatype {
        words.extend(["-d".to_owned(), datatype.name().to_owned()]);
    }
    if let Some(op) = class.op {
        words.extend(["-o".to_owned(), op.name().to_owned()]);
    }
    let mut bench = turns.bench.clone();
    bench.extend(words.into_iter().map(OsString::from));
    Some(TurnArguments { benchmark: class.operation.name().to_owned(), bench, ..turns.clone() })
}

/// The launches of a class, in turns.
fn measure(
    turns: &TurnArguments,
    prepared: &Prepared,
    environments: &[Environment; 2],
    started: &Started<'_>,
    time: Option<f64>,
    name: &str,
) -> Result<Vec<sweep::Turns>> {
    let destination = Destination::find(turns, prepared, "replay")?;
    let job = sweep::Job {
        words: prepared.words.clone(),
        has_patience: prepared.has_patience(),
        rows: prepared.rows(),
        launches: turns.launches,
        time,
    };
    let path = |environment: usize, launch: u32| {
        let environment = environments.get(environment).map_or("", |one| one.name.as_str());
        destination.of_launch(&format!("{name}-{environment}"), launch)
    };
    sweep::take(&job, environments, started, path, |_, _, _| {})
}

/// The row of a class that was measured.
fn row(
    class: Class,
    taken: &[sweep::Turns],
    environments: &[Environment; 2],
    tried: &mut [Tried; 2],
) -> Row {
    let records = taken.iter().flat_map(|turns| &turns.launches);
    let waived = records
        .filter_map(|launch| launch.record.as_ref())
        .find_map(|record| record.rows.iter().find_map(|row| row.waived.clone()));
    let mut failures = Vec::new();
    for ((turns, environment), tried) in taken.iter().zip(environments).zip(tried) {
        let now = sweep::tried(environment, turns, false);
        if let Some(failed) = &now.failed {
            failures.push(format!("{} failed: {}", environment.name, failed.reason));
        }
        tried.launches += now.launches;
        tried.cut |= now.cut;
        tried.failed = tried.failed.take().or(now.failed);
    }
    let mut cells = sweep::rows(taken, None).into_iter().next().map_or(Vec::new(), |row| row.cells);
    compare_with(Some(0), &mut cells);
    let complete = cells.iter().filter(|cell| cell.is_some()).count() == 2;
    let reason = waived.or_else(|| (!failures.is_empty()).then(|| failures.join("; ")));
    let waived = match complete {
        true => None,
        false => Some(reason.unwrap_or_else(|| "it was not measured to its end".to_owned())),
    };
    Row { row_bytes: class.row_bytes(), class, cells, waived }
}
