//! From what launches measured to the rows of a sweep's result.
//! Not the result (`busbw_analysis::sweep`), and not its printed form.

use std::collections::BTreeMap;

use busbw_analysis::sweep::{Cell, Failed, SizeRow, Tried, compare_with};
use busbw_core::{
    Benchmark,
    plan::Plan,
    record::{Half, Row},
};
use busbw_stats::{median, median_interval};
use busbw_store as store;

use super::{Environment, turns::Turns};

/// Combines the launches' results. Those of another benchmark than `benchmark` stand beside its own, row by row.
pub fn rows(turns: &[Turns], benchmark: Benchmark, baseline: Option<usize>) -> Vec<SizeRow> {
    let mut found: BTreeMap<u64, Vec<Vec<Measured<'_>>>> = BTreeMap::new();
    for (number, turn) in turns.iter().enumerate() {
        for record in turn.launches.iter().filter_map(|launch| launch.record.as_ref()) {
            let plan = &record.run.plan;
            for row in record.rows.iter().filter(|row| row.group == plan.colour(0)) {
                let columns =
                    found.entry(row.index).or_insert_with(|| vec![Vec::new(); turns.len()]);
                if let Some(column) = columns.get_mut(number) {
                    column.push(Measured { row, plan });
                }
            }
        }
    }
    let mut rows: Vec<SizeRow> = Vec::new();
    for columns in found.values() {
        let is_own = |one: &&Measured<'_>| one.plan.benchmark == benchmark;
        let mut all = columns.iter().flatten();
        let Some(Measured { row: first, plan }) = all.clone().find(is_own).or(all.next()) else {
            continue;
        };
        let mut cells: Vec<Option<Cell>> = columns.iter().map(|launches| cell(launches)).collect();
        for (cell, launches) in cells.iter_mut().zip(columns) {
            if let Some(cell) = cell {
                cell.is_beside = !launches.iter().all(|one| is_own(&one));
            }
        }
        compare_with(baseline, &mut cells);
        let mut case = match first.benchmark {
            Benchmark::Replay => Vec::new(),
            _ => vec![first.datatype.name().to_owned()],
        };
        if first.benchmark.collective().is_some() {
            case.extend([first.redop.clone(), first.root.to_string()]);
        }
        if let Some(calls) = &plan.calls {
            // Its rows are of several collectives.
            case.insert(0, first.benchmark.name().to_owned());
            let class = first.index.checked_sub(1);
            let class = class.and_then(|number| calls.classes.get(number as usize));
            let partition = class.and_then(|class| class.partition);
            case.extend(partition.map(|partition| format!("ranks {partition}")));
        }
        case.extend(first.variant.as_ref().map(|variant| variant.given.to_string()));
        rows.push(SizeRow { size: first.size, case, cells });
    }
    // If all rows are of one case, its name is left out.
    if rows.windows(2).all(|pair| pair[0].case == pair[1].case) {
        rows.iter_mut().for_each(|row| row.case.clear());
    }
    rows
}

/// A row of one launch.
#[derive(Debug, Clone, Copy)]
struct Measured<'a> {
    row: &'a Row,
    plan: &'a Plan,
}

/// The launches of one environment for one row.
fn cell(launches: &[Measured<'_>]) -> Option<Cell> {
    let halves: Vec<(&Half, &Plan, u64)> = launches
        .iter()
        .filter_map(|Measured { row, plan }| Some((row.out_of_place.as_ref()?, *plan, row.size)))
        .filter(|(half, ..)| half.figures.time_us.is_some())
        .collect();
    let launches_us: Vec<f64> =
        halves.iter().filter_map(|(half, ..)| half.figures.time_us).collect();
    let time_us = median(&launches_us)?;
    let (first, ..) = halves.first()?;
    let of_messages = first.messages.is_some();
    let first = &first.figures;
    // Bandwidth is bytes over time: the ratio of bytes cancels out.
    let faster = first.time_us? / time_us;
    let at = |bandwidth: Option<f64>| bandwidth.map_or(f64::NAN, |rate| rate * faster);
    let iterations = |(half, plan, size): &(&Half, &Plan, u64)| {
        half.fewer_iterations.unwrap_or(plan.loops(*size).0)
    };
    Some(Cell {
        time_us,
        interval_us: median_interval(&launches_us),
        algbw: at(first.algbw),
        busbw: at(if of_messages { first.algbw } else { first.busbw }),
        batches: halves.iter().map(|(half, ..)| half.batches_us.len()).min()?,
        iterations: halves.iter().map(iterations).min()?,
        cut: halves.iter().any(|(half, plan, _)| {
            half.fewer_iterations.is_some()
                || half.batches_us.len() < plan.sampling.min_batches as usize
        }),
        launches_us,
        against: None,
        limit: None,
        is_beside: false,
    })
}

/// The status of an environment; `records` says whether they are kept.
pub fn tried(environment: &Environment, turns: &Turns, records: bool) -> Tried {
    let failed =
        turns.failure().map(|(exit, reason)| Failed { exit: *exit, reason: reason.clone() });
    let paths = turns.launches.iter().map(|launch| launch.path.clone());
    Tried {
        launches: turns.launches.iter().filter(|launch| launch.failure.is_none()).count(),
        records: paths.filter(|_| records).collect(),
        cut: turns.cut,
        failed,
        ..untried(environment)
    }
}

/// An environment without launches.
pub fn untried(environment: &Environment) -> Tried {
    let shown = environment.variables.iter().map(|variable| {
        let shown = |value: &String| store::shown(&variable.name, value);
        (variable.name.clone(), variable.value.as_ref().map(shown))
    });
    Tried {
        name: environment.name.clone(),
        variables: shown.collect(),
        options: environment.shown_options(),
        launches: 0,
        records: Vec::new(),
        cut: false,
        failed: None,
        waived: None,
        transport: None,
    }
}
