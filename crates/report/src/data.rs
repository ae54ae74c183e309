//! The data of the page. The page embeds it as JSON; every sentence, chart and table is made from it.
//! Not how it looks (`page`, and the scripts beside it).

mod checked;
mod tuning;
mod watched;

use busbw_core::{Benchmark, finding::Finding, pairs::Pairs};
use busbw_logs::measurement::{Device, Row};
use serde::{Deserialize, Serialize};

pub use checked::{Checked, CheckedLine};
pub use tuning::{
    Choice, Failed, Gain, Launch, LaunchKind, Rung, Side, SideKind, TunerFile, Tuning,
};
pub use watched::{CallClass, ClassWindow, LateCell, LateProcess, LateRow, Watched};

/// Version of the data that the page embeds.
pub const SCHEMA: u32 = 6;

/// A report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// `SCHEMA`.
    pub report_schema: u32,
    /// The page's title.
    pub title: String,
    /// Local time at which it was made, `%Y-%m-%d %H:%M:%S`.
    pub made: String,
    /// busbw's version.
    pub busbw: String,
    /// Whether names and addresses were replaced.
    pub redacted: bool,
    /// What was measured, and on what, as far as the sources say.
    pub subject: String,
    /// The first screen: the answer of what needs attention most; none of a page without any measurement.
    pub answer: Option<Answer>,
    /// What is to be said of all: a sentence or a few.
    pub verdict: Vec<String>,
    /// What of the sources was not read.
    pub unread: Vec<String>,
    /// Texts of a folder about its machine.
    pub texts: Vec<Text>,
    /// Runs, in the order of the sources.
    pub runs: Vec<Run>,
    /// Sweeps over environments and transports.
    pub sweeps: Vec<Sweep>,
    /// Tunings.
    pub tunings: Vec<Tuning>,
    /// Matrices of pairs.
    pub pairs: Vec<Matrix>,
    /// Checks of hosts.
    pub checks: Vec<Checked>,
    /// Jobs, by what their processes' profiler wrote.
    pub jobs: Vec<Watched>,
    /// What the charts over sizes draw and the table of all rows lists.
    pub series: Vec<Series>,
}

/// How fast, how good, and what to do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// How good.
    pub level: Level,
    /// The same in a word or two.
    pub word: String,
    /// The run, sweep, tuning or matrix that it is of.
    pub about: String,
    /// The figure; none where nothing was measured.
    pub figure: Option<String>,
    /// Its unit.
    pub unit: Option<String>,
    /// What the figure is, and at which size.
    pub at: Option<String>,
    /// Its share of `whole`.
    pub percent: Option<f64>,
    /// What the share is of, such as `of the limit, 397.5 GB/s`.
    pub whole: Option<String>,
    /// The explanation.
    pub sentence: String,
    /// The same test before.
    pub last: Option<Last>,
    /// The one most important thing to do.
    pub remedy: Option<Remedy>,
}

/// How good a result is, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As good as a healthy machine's.
    Good,
    /// Nothing tells how good it is.
    #[default]
    Unknown,
    /// It does not show yet how good it is.
    Note,
    /// Performance is lost.
    Slow,
    /// It failed, or its data or figures are wrong.
    Bad,
}

impl Level {
    /// Its name, as in the data.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Good => "good",
            Level::Unknown => "unknown",
            Level::Note => "note",
            Level::Slow => "slow",
            Level::Bad => "bad",
        }
    }

    /// A sign for those who do not see its colour.
    pub const fn sign(self) -> &'static str {
        match self {
            Level::Good => "✓",
            Level::Unknown => "?",
            Level::Note => "…",
            Level::Slow => "▼",
            Level::Bad => "✕",
        }
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Remedy {
    /// In a sentence.
    pub text: String,
    /// The command to run next.
    pub command: Option<String>,
}

/// One run: what ran, and its explanation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Run {
    /// Its short name, the same as that of its series.
    pub name: String,
    /// The test.
    pub test: String,
    /// Where it was read.
    pub source: String,
    /// What was run.
    pub subject: String,
    /// The measured figure, such as `371.42 GB/s at 8 GiB`; none without figures.
    pub measured: Option<String>,
    /// The hardware's limit, in words; none where it is not known.
    pub limit: Option<String>,
    /// Measured over limit, percent.
    pub percent: Option<f64>,
    /// How good, in a word.
    pub answer: Answer,
    /// What of its settings and machine is not the same in all runs of its test.
    pub differs: Vec<String>,
    /// Wrong elements; none where nothing was checked.
    pub wrong: Option<u64>,
    /// Whether every row was measured; none where the source does not say.
    pub complete: Option<bool>,
    /// The explanation in one sentence or a few.
    pub sentence: String,
    /// The findings, the most severe first; their causes are sentences.
    pub findings: Vec<Finding>,
    /// Facts that were assumed.
    pub assumed: Vec<String>,
    /// Facts that are missing and would allow a better explanation.
    pub missing: Vec<String>,
    /// Facts that are not known and could only lower the limit.
    pub unchecked: Vec<String>,
    /// Messages about a failure, word for word.
    pub errors: Vec<String>,
    /// The machine.
    pub machine: Vec<Fact>,
    /// Programs and libraries.
    pub versions: Vec<Fact>,
    /// Variables.
    pub environment: Vec<Fact>,
    /// Ranks and their devices.
    pub devices: Vec<Device>,
    /// The command that repeats the run, with its environment; none where the source does not show it.
    pub command: Option<String>,
}

impl Run {
    /// Its most severe finding.
    pub fn worst(&self) -> Option<&Finding> {
        self.findings.iter().max_by_key(|finding| finding.severity)
    }
}

impl Series {
    /// Whether its sizes make a curve: two points are a table.
    pub fn is_curve(&self) -> bool {
        let mut sizes: Vec<u64> =
            self.rows.iter().map(|row| row.size).filter(|size| *size > 0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.len() > 2
    }
}

impl Report {
    /// How many measurements it is of; the run of a matrix is the matrix.
    pub fn measured(&self) -> usize {
        let runs = self.runs.iter().filter(|run| run.test != Benchmark::Pairs.name()).count();
        let others = self.checks.len() + self.jobs.len();
        runs + self.sweeps.len() + self.tunings.len() + self.pairs.len() + others
    }

    /// The tests, in the order of their first series.
    pub fn tests(&self) -> Vec<&str> {
        let mut tests: Vec<&str> = Vec::new();
        for series in &self.series {
            if !tests.contains(&series.test.as_str()) {
                tests.push(&series.test);
            }
        }
        tests
    }

    /// The tests that charts draw: of bandwidth, or of time.
    pub fn drawn(&self, bandwidth: &bool) -> Vec<&str> {
        let curves = |test: &&str| {
            let mut of_test = self.series.iter().filter(|series| series.test == *test);
            of_test.any(|series| series.is_curve() && !(*bandwidth && series.latency))
        };
        self.tests().into_iter().filter(curves).collect()
    }

    /// Runs by test, in the order of their first run.
    pub fn by_test(&self) -> Vec<(&str, Vec<&Run>)> {
        let mut groups: Vec<(&str, Vec<&Run>)> = Vec::new();
        for run in &self.runs {
            match groups.iter_mut().find(|(test, _)| *test == run.test) {
                Some((_, runs)) => runs.push(run),
                None => groups.push((&run.test, vec![run])),
            }
        }
        groups
    }

    /// How many placements its rows have: each is a line of the table of all rows.
    pub fn lines(&self) -> usize {
        self.series.iter().flat_map(|series| &series.rows).flat_map(Row::both).count()
    }
}

/// A matrix of pairs, and who is slow in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// Its figures.
    #[serde(flatten)]
    pub pairs: Pairs,
    /// Its answer.
    pub answer: Answer,
    /// Who is slow.
    pub findings: Vec<Finding>,
    /// What else is to be said: the normal level, and what is not decided.
    pub said: Vec<String>,
    /// Sender and receiver of the slow pairs.
    pub slow_cells: Vec<[usize; 2]>,
}

/// A run against the same test before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Last {
    /// How its figure compares.
    pub sentence: String,
    /// The command that says whether the difference is more than noise.
    pub command: String,
}

/// A text that is shown as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// Its file, and the program that printed it.
    pub name: String,
    /// The text.
    pub text: String,
}

/// A named value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Its name.
    pub name: String,
    /// The value, with its unit.
    pub value: String,
}

/// Figures over sizes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Series {
    /// Its name in legends and in the table.
    pub name: String,
    /// The test, or the sweep: series of one share a chart.
    pub test: String,
    /// Whether it is of a latency test, whose bandwidth says nothing.
    pub latency: bool,
    /// The rows, with intervals in place of samples, and without placements that mean nothing.
    pub rows: Vec<Row>,
    /// Horizontal lines that belong to it.
    pub lines: Vec<Line>,
}

/// A horizontal line in a chart: a bus bandwidth to compare with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// What it is.
    pub kind: LineKind,
    /// The resource that sets it, or the source of it.
    pub by: String,
    /// GB/s.
    pub busbw: f64,
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LineKind {
    /// What packets carry at most.
    Payload,
    /// What the wire carries, packet headers included.
    Line,
    /// What NCCL expects: not a limit.
    Expected,
}

/// A sweep over environments or transports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// What to call it, such as `Transports`.
    pub title: String,
    /// `sweep` or `transports`.
    pub command: String,
    /// What was run on what.
    pub subject: String,
    /// Unit of the figures: `GB/s` or `us`.
    pub unit: String,
    /// What they are: `bus bandwidth`, `algorithm bandwidth`, `time`.
    pub figure: String,
    /// Launches of each environment that were asked for.
    pub launches: u32,
    /// The sentence about the fastest environment, where there are enough launches.
    pub sentence: Option<String>,
    /// The environment that the others are compared with.
    pub baseline: Option<String>,
    /// The environments that were tried.
    pub environments: Vec<Environment>,
    /// One row for each size.
    pub sizes: Vec<SweepRow>,
    /// The command line.
    pub invocation: String,
}

/// An environment, and its status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Its short name.
    pub name: String,
    /// `NAME=VALUE …`.
    pub settings: String,
    /// `measured`, `proven`, …, `waived` or `failed`.
    #[serde(alias = "fate")]
    pub status: String,
    /// The transport that ran, in NCCL's words, with the evidence; or why nothing ran.
    pub why: Option<String>,
}

/// The figures of all environments at one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepRow {
    /// The size, and what else distinguishes the row.
    pub label: String,
    /// A cell for each environment.
    pub cells: Vec<Option<Cell>>,
}

/// An environment's figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The figure, in the sweep's unit.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: Option<[f64; 2]>,
    /// How many times as fast as the baseline.
    pub multiple: Option<f64>,
    /// The verdict: `faster`, `slower`, `same`, or `inconclusive`.
    pub against: Option<String>,
    /// Percent of what the hardware allows.
    pub percent: Option<f64>,
}
