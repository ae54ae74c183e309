//! The data of a watched job: its calls and the lateness of its processes over the time.
//! Not how the files of a job become these (`of_job`).

use busbw_core::{
    finding::Finding,
    quantity::{percent, rate, time},
};
use serde::{Deserialize, Serialize};

use super::Answer;

/// A job, by what its processes' profiler wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// What to call it, such as `Job`.
    pub title: String,
    /// Its name, processes and hosts, and the time that the files tell of.
    pub subject: String,
    /// How it is, in one sentence.
    pub sentence: String,
    /// Its answer.
    pub answer: Answer,
    /// What stands out, as `busbw watch` says it.
    pub findings: Vec<Finding>,
    /// What the files do not tell, and why.
    pub untold: Vec<String>,
    /// The length of a window, s.
    pub window_s: f64,
    /// Classes of calls, those that took most time first.
    pub classes: Vec<CallClass>,
    /// Classes beyond these.
    pub classes_left_out: usize,
    /// Whether communicators alike are taken together.
    pub together: bool,
    /// The processes over the time, or as many ranks in a row as a page can show.
    pub lateness: Vec<LateRow>,
    /// Processes of a row of these.
    pub per_row: usize,
    /// The processes for which others waited most.
    pub latest: Vec<LateProcess>,
    /// Processes for which others waited, beyond these.
    pub late_left_out: usize,
}

impl Watched {
    /// The length of a window in words.
    pub fn window(&self) -> String {
        match self.window_s {
            s if s < 1.0 => format!("{} ms", (s * 1e3).round()),
            s => format!("{} s", s.round()),
        }
    }
}

/// The calls of one operation and size class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallClass {
    /// Operation, size and communicator.
    pub name: String,
    /// Operation and size.
    pub call: String,
    /// NCCL's algorithm and protocol; empty where it did not say it.
    pub choice: String,
    /// Whose calls these are.
    pub communicator: String,
    /// Calls.
    pub calls: usize,
    /// Median time from when the last rank entered, us.
    pub time_us: Option<f64>,
    /// The time that 99 % of the calls kept, us.
    pub p99_us: Option<f64>,
    /// Median bus bandwidth, GB/s.
    pub busbw: Option<f64>,
    /// What the hardware allows, GB/s.
    pub limit: Option<f64>,
    /// What a run beside the job reached, GB/s.
    pub earlier: Option<f64>,
    /// Percent of the time in these calls that ranks waited for the last one.
    pub waiting: Option<f64>,
    /// By window; empty where no chart draws it.
    pub windows: Vec<Option<ClassWindow>>,
}

impl CallClass {
    /// What the table has of it: median, 99 %, bus bandwidth, percent of the limit, of the run, and of waiting.
    pub fn cells(&self) -> [Option<String>; 6] {
        [
            self.time_us.map(micro),
            self.p99_us.map(micro),
            self.busbw.map(rate),
            share(self.busbw, self.limit),
            share(self.busbw, self.earlier),
            self.waiting.map(percent),
        ]
    }
}

fn share(part: Option<f64>, whole: Option<f64>) -> Option<String> {
    let (part, whole) = part.zip(whole.filter(|whole| *whole > 0.0))?;
    Some(percent(part / whole * 100.0))
}

/// Microseconds in words, with the unit as the page writes it.
fn micro(us: f64) -> String {
    time(us).replace("us", "µs")
}

/// The calls of a class in one window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClassWindow {
    /// Calls.
    pub calls: usize,
    /// Median time from when the last rank entered, us.
    pub time_us: Option<f64>,
    /// Median bus bandwidth, GB/s.
    pub busbw: Option<f64>,
}

/// A process over the time, or several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LateRow {
    /// The rank or process, or the first and the last of several.
    pub name: String,
    /// Whether a finding names it, or one of them.
    pub named: bool,
    /// By window; none where no call can be compared.
    pub cells: Vec<Option<LateCell>>,
}

/// A process in one window; of several the one for which others waited longest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LateCell {
    /// What the others waited for it alone, a call, us.
    pub us: f64,
    /// Calls that it entered last by its own doing.
    pub last: usize,
    /// Calls of which it can be told.
    pub calls: usize,
    /// Which of several it is; none where nobody waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
}

/// A process for which others waited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LateProcess {
    /// Its rank, where the launcher gave it one.
    pub rank: Option<u32>,
    /// Its host.
    pub host: String,
    /// Its number there.
    pub pid: u32,
    /// Calls that it entered last by its own doing.
    pub last: usize,
    /// Calls of which it can be told.
    pub calls: usize,
    /// What the others waited for it alone, us.
    pub caused_us: f64,
    /// Whether a finding names it.
    pub named: bool,
}

impl LateProcess {
    /// What the others waited, in words.
    pub fn caused(&self) -> String {
        micro(self.caused_us)
    }

    /// The same a call, in words.
    pub fn each(&self) -> String {
        micro(self.caused_us / self.calls.max(1) as f64)
    }
}
