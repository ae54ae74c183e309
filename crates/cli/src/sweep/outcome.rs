//! The result of a sweep as data: environments, and for each size one cell of each, with every
//! launch's time. All output is made from it, and it can be read back.
//! Not its layout (`table`, `csv`).

use std::{collections::BTreeMap, path::PathBuf};

use busbw_core::{
    plan::Plan,
    record::{Half, Row},
};
use busbw_stats::{Comparison, Interval, Rule, compare, median, median_interval};
use serde::{Deserialize, Serialize};

use super::{Environment, turns::Turns};
use crate::{options::Show, transports::Transport};
use busbw_store as store;

/// Version of this form.
pub const SCHEMA: u32 = 1;

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Version of this form.
    pub sweep_schema: u32,
    /// The command: `sweep` or `transports`.
    pub command: String,
    /// Version of busbw.
    pub busbw: String,
    /// Local start time, `%Y-%m-%d %H:%M:%S`.
    pub started: String,
    /// The command line.
    pub args: Vec<String>,
    /// The benchmark, such as `all_reduce_perf`.
    pub program: String,
    /// The hardware and library, as far as a launch reported them: `8 ranks on 8 × NVIDIA H200 of
    /// host vm, nccl 2.28.9`.
    pub on: String,
    /// The unit of the cells.
    pub show: Show,
    /// The index of the baseline environment, counted from 0.
    pub baseline: Option<usize>,
    /// Launches of each environment that were requested.
    pub launches: u32,
    /// Seconds that were allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<f64>,
    /// Seconds that it took.
    pub took_s: f64,
    /// Whether it was interrupted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The environments.
    pub environments: Vec<Tried>,
    /// The results, one row a size.
    pub rows: Vec<SizeRow>,
}

/// An environment and its status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Its short name.
    pub name: String,
    /// Variables, secrets masked; `null` where one is removed.
    pub variables: BTreeMap<String, Option<String>>,
    /// Options of the benchmark that belong to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Finished launches.
    pub launches: usize,
    /// Paths of the records of its launches, where they are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<PathBuf>,
    /// Whether the time limit did not allow all launches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Why it failed, and the exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failed>,
    /// Why it was waived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waived: Option<String>,
    /// Its transport: requested and found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
}

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The launch's exit code.
    pub exit: u8,
    /// Why.
    pub reason: String,
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeRow {
    /// The size column, bytes.
    pub size: u64,
    /// Type, operator and root, where rows of one size differ in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub case: Vec<String>,
    /// A cell for each environment.
    pub cells: Vec<Option<Cell>>,
}

/// The result of a size in an environment, out of place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Each launch's median time of one operation, microseconds, in the order of the launches.
    pub launches_us: Vec<f64>,
    /// The median of these times.
    pub time_us: f64,
    /// Its 95 % interval; there is none with fewer than 6 launches.
    pub interval_us: Option<Interval>,
    /// Algorithm bandwidth, GB/s.
    pub algbw: f64,
    /// Bus bandwidth, GB/s; of messages the same as `algbw`.
    pub busbw: f64,
    /// Batches of each launch, and iterations of each batch: the smallest number of any launch.
    pub batches: usize,
    /// See `batches`.
    pub iterations: u32,
    /// Whether the time limit did not allow all of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// How its launches compare with the baseline's: ratios are of times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Comparison>,
    /// The limit of the hardware, GB/s of bus bandwidth, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
}

/// Combines the launches' results.
pub fn rows(turns: &[Turns], baseline: Option<usize>) -> Vec<SizeRow> {
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
        let Some(Measured { row: first, .. }) = columns.iter().flatten().next() else { continue };
        let mut cells: Vec<Option<Cell>> = columns.iter().map(|launches| cell(launches)).collect();
        compare_with(baseline, &mut cells);
        let mut case = vec![first.datatype.name().to_owned()];
        if first.benchmark.collective().is_some() {
            case.extend([first.redop.clone(), first.root.to_string()]);
        }
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
        .filter(|(half, ..)| half.time_us.is_finite())
        .collect();
    let launches_us: Vec<f64> = halves.iter().map(|(half, ..)| half.time_us).collect();
    let time_us = median(&launches_us)?;
    let (first, ..) = halves.first()?;
    // Bandwidth is bytes over time: the ratio of bytes cancels out.
    let faster = first.time_us / time_us;
    let busbw = if first.messages.is_some() { first.algbw } else { first.busbw };
    let iterations = |(half, plan, size): &(&Half, &Plan, u64)| {
        half.fewer_iterations.unwrap_or(plan.loops(*size).0)
    };
    Some(Cell {
        time_us,
        interval_us: median_interval(&launches_us),
        algbw: first.algbw * faster,
        busbw: busbw * faster,
        batches: halves.iter().map(|(half, ..)| half.batches_us.len()).min()?,
        iterations: halves.iter().map(iterations).min()?,
        cut: halves.iter().any(|(half, plan, _)| {
            half.fewer_iterations.is_some()
                || half.batches_us.len() < plan.sampling.min_batches as usize
        }),
        launches_us,
        against: None,
        limit: None,
    })
}

fn compare_with(baseline: Option<usize>, cells: &mut [Option<Cell>]) {
    let Some(baseline) = baseline else { return };
    let Some(times) = cells.get(baseline).and_then(Option::as_ref).map(|c| c.launches_us.clone())
    else {
        return;
    };
    for (number, cell) in cells.iter_mut().enumerate() {
        if let Some(cell) = cell.as_mut().filter(|_| number != baseline) {
            cell.against = Some(compare(&times, &cell.launches_us, &Rule::default()));
        }
    }
}

impl Tried {
    /// The status of an environment; `records` says whether they are kept.
    pub fn of(environment: &Environment, turns: &Turns, records: bool) -> Tried {
        let failed =
            turns.failure().map(|(exit, reason)| Failed { exit: *exit, reason: reason.clone() });
        let paths = turns.launches.iter().map(|launch| launch.path.clone());
        Tried {
            launches: turns.launches.iter().filter(|launch| launch.failure.is_none()).count(),
            records: paths.filter(|_| records).collect(),
            cut: turns.cut,
            failed,
            ..Tried::untried(environment)
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
            options: environment.options.clone(),
            launches: 0,
            records: Vec::new(),
            cut: false,
            failed: None,
            waived: None,
            transport: None,
        }
    }

    /// `NAME=VALUE …`, with secrets masked.
    pub fn settings(&self) -> String {
        let told = self.variables.iter().map(|(name, value)| match value {
            Some(value) => format!("{name}={value}"),
            None => format!("{name} not set"),
        });
        let all: Vec<String> = told.chain(self.options.iter().cloned()).collect();
        if all.is_empty() { "nothing set".to_owned() } else { all.join(" ") }
    }
}

/// Parses a stored result.
///
/// # Errors
/// The text is not a result, or its schema is newer.
pub fn read(text: &str) -> Result<Outcome, String> {
    let outcome: Outcome = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if outcome.sweep_schema > SCHEMA {
        return Err(format!(
            "it has schema {}; this busbw reads up to {SCHEMA}: use a newer one",
            outcome.sweep_schema
        ));
    }
    let environments = outcome.environments.len();
    if outcome.rows.iter().any(|row| row.cells.len() != environments)
        || outcome.baseline.is_some_and(|baseline| baseline >= environments)
    {
        return Err("its cells and its environments do not fit together".to_owned());
    }
    Ok(outcome)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Six launches about this time.
    pub fn near(centre: f64) -> Vec<f64> {
        [1.0, 1.002, 0.998, 1.001, 0.999, 1.0].map(|factor| factor * centre).to_vec()
    }

    /// A result of environments A, B and so on with these launches' times at each size, compared with the
    /// first.
    pub fn outcome(sizes: &[(u64, Vec<Vec<f64>>)]) -> Outcome {
        let count = sizes.first().map_or(0, |(_, columns)| columns.len());
        let environment = |number: usize| Environment {
            name: char::from(b'A' + number as u8).to_string(),
            variables: Vec::new(),
            options: Vec::new(),
        };
        let environments = (0..count)
            .map(|number| Tried { launches: 6, ..Tried::untried(&environment(number)) })
            .collect();
        let row = |(size, columns): &(u64, Vec<Vec<f64>>)| {
            let cell = |times: &Vec<f64>| {
                let time_us = median(times)?;
                Some(Cell {
                    launches_us: times.clone(),
                    time_us,
                    interval_us: median_interval(times),
                    algbw: *size as f64 / time_us / 1e3,
                    busbw: *size as f64 / time_us / 1e3 * 1.75,
                    batches: 6,
                    iterations: 20,
                    cut: false,
                    against: None,
                    limit: None,
                })
            };
            let mut cells: Vec<Option<Cell>> = columns.iter().map(cell).collect();
            compare_with(Some(0), &mut cells);
            SizeRow { size: *size, case: Vec::new(), cells }
        };
        Outcome {
            sweep_schema: SCHEMA,
            command: "sweep".to_owned(),
            busbw: "0.1.0".to_owned(),
            started: "2026-01-02 03:04:05".to_owned(),
            args: vec!["busbw".to_owned()],
            program: "all_reduce_perf".to_owned(),
            on: "8 ranks on nccl (NVIDIA H200), NCCL 2.28.9, host vm".to_owned(),
            show: Show::Busbw,
            baseline: Some(0),
            launches: 6,
            time_limit_s: Some(120.0),
            took_s: 61.2,
            interrupted: false,
            environments,
            rows: sizes.iter().map(row).collect(),
        }
    }

    #[test]
    fn what_is_kept_is_read_back() {
        let mut before = outcome(&[(64, vec![near(1.0), near(2.0)])]);
        let text = serde_json::to_string(&before).unwrap();
        assert_eq!(read(&text).unwrap(), before);
        before.sweep_schema = SCHEMA + 1;
        assert!(read(&serde_json::to_string(&before).unwrap()).unwrap_err().contains("newer"));
        before.sweep_schema = SCHEMA;
        before.environments.pop();
        assert!(read(&serde_json::to_string(&before).unwrap()).is_err());
        assert!(read("{}").is_err());
    }
}
