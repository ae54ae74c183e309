//! The data of a check: what was decided, and every line.
//! Not how the result of `busbw check` becomes these (`of_check`).

use serde::{Deserialize, Serialize};

use super::{Answer, Level};

/// A check of hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// What to call it, such as `Check`.
    pub title: String,
    /// Hosts and ranks, when, and how long it took.
    pub subject: String,
    /// The decision with its reason.
    pub sentence: String,
    /// Its answer.
    pub answer: Answer,
    /// The hosts that answered.
    pub hosts: Vec<String>,
    /// One for each check and fault.
    pub lines: Vec<CheckedLine>,
    /// The command line.
    pub invocation: String,
}

/// One check, or one fault that it found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckedLine {
    /// Which check, as `busbw check` calls it.
    pub kind: String,
    /// How good its verdict is.
    pub level: Level,
    /// The verdict, as `busbw check` says it.
    pub status: String,
    /// Whose fault it is; none where nobody is at fault, or nobody could be named.
    pub who: Option<String>,
    /// What was found, or why nothing was.
    pub text: String,
    /// How many readings or launches show the fault.
    pub measured: u32,
    /// Seconds that it took; 0 of all lines of a check but the first.
    pub took_s: f64,
    /// What to do.
    pub remedy: Option<String>,
    /// The command that confirms it.
    pub confirm: Option<String>,
}

impl CheckedLine {
    /// The time that it took; empty where there is none.
    pub fn took(&self) -> String {
        if self.took_s > 0.0 { format!("{:.1} s", self.took_s) } else { String::new() }
    }
}
