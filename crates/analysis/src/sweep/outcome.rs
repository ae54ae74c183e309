//! The result of a sweep as data: environments, and for each size one cell of each, with every
//! launch's time. All output is made from it, and it can be read back.
//! Not its layout (`busbw-cli`).

use std::{collections::BTreeMap, path::PathBuf};

use busbw_core::record::{MOST_BYTES, MOST_EVENTS, within};
use busbw_stats::{Comparison, Interval, Rule, compare};
use serde::{Deserialize, Serialize};

use super::{Transport, best};

/// The result's file name in a folder that the user named.
pub const RESULT_FILE: &str = "result.json";

/// Version of this form. Since 2 evidence has `support` and `detail`; older names are still read.
pub const SCHEMA: u32 = 2;

/// The most launches of a sweep.
const MAX_LAUNCHES: u64 = 1 << 20;
/// The longest time of a sweep or an operation, seconds: 30 years.
const MOST_SECONDS: f64 = 1e9;

/// What a cell of the table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Show {
    /// Bus bandwidth, GB/s.
    #[default]
    Busbw,
    /// Algorithm bandwidth, GB/s.
    Algbw,
    /// Time of one operation, microseconds.
    Time,
}

impl Show {
    /// Every kind of figure.
    pub const ALL: [Show; 3] = [Show::Busbw, Show::Algbw, Show::Time];

    /// Its word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Show::Busbw => "busbw",
            Show::Algbw => "algbw",
            Show::Time => "time",
        }
    }
}

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
    /// Options of the benchmark that belong to it; of `verbs` its whole command.
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
    /// Whether it is of messages beside a collective's cells (`verbs`): its times are compared with nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_beside: bool,
}

impl Cell {
    /// Its launches, where their times are those of the row's own benchmark.
    pub fn comparable(&self) -> Option<&[f64]> {
        (!self.is_beside).then_some(&self.launches_us)
    }
}

impl SizeRow {
    /// An environment's cell, if it has one.
    pub fn cell(&self, number: usize) -> Option<&Cell> {
        self.cells.get(number)?.as_ref()
    }

    /// The size, and what else distinguishes this row.
    pub fn label(&self) -> String {
        let case: Vec<&str> =
            self.case.iter().map(String::as_str).filter(|s| !s.is_empty()).collect();
        match case.as_slice() {
            [] => best::size(self.size),
            case => format!("{} {}", best::size(self.size), case.join(" ")),
        }
    }
}

/// Compares every cell with that of the baseline, in a row of cells.
pub fn compare_with(baseline: Option<usize>, cells: &mut [Option<Cell>]) {
    let Some(baseline) = baseline else { return };
    let of_baseline = cells.get(baseline).and_then(Option::as_ref);
    let Some(times) = of_baseline.and_then(Cell::comparable).map(<[f64]>::to_vec) else { return };
    for (number, cell) in cells.iter_mut().enumerate() {
        if let Some(cell) = cell.as_mut().filter(|_| number != baseline) {
            let own = cell.comparable();
            cell.against = own.map(|own| compare(&times, own, &Rule::default()));
        }
    }
}

impl Tried {
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
    outcome.check()?;
    Ok(outcome)
}

impl Outcome {
    /// Whether every number is possible: the file may come from anybody.
    fn check(&self) -> Result<(), String> {
        within("launches", u64::from(self.launches), 0, MAX_LAUNCHES)?;
        seconds("took_s", self.took_s)?;
        seconds("time_limit_s", self.time_limit_s.unwrap_or(0.0))?;
        for tried in &self.environments {
            within("environments.launches", tried.launches as u64, 0, MAX_LAUNCHES)?;
            let moved = tried.transport.iter().filter_map(|transport| transport.moved.as_ref());
            for moved in moved {
                within("transport.moved.nvlink", moved.nvlink.unwrap_or(0), 0, MOST_EVENTS)?;
                let of_hosts = moved.hosts.values().flat_map(|devices| devices.values());
                for bytes in moved.network.values().chain(of_hosts) {
                    within("transport.moved.network", *bytes, 0, MOST_EVENTS)?;
                }
            }
        }
        for row in &self.rows {
            within("rows.size", row.size, 0, MOST_BYTES)?;
            for cell in row.cells.iter().flatten() {
                within("rows.cells.batches", cell.batches as u64, 0, MOST_EVENTS)?;
                for us in cell.launches_us.iter().chain([&cell.time_us]) {
                    seconds("rows.cells.time_us", us / 1e6)?;
                }
            }
        }
        Ok(())
    }
}

/// Refuses what is no duration, by its field's name.
fn seconds(field: &str, value: f64) -> Result<(), String> {
    if (0.0..=MOST_SECONDS).contains(&value) {
        return Ok(());
    }
    Err(format!("{field} is {value:e} s, and 0 to {MOST_SECONDS:e} s is possible"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::example::{near, outcome};

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
