//! The data of a tuning: what to set, every launch with its gain, gains with intervals, rungs, choices, failures.
//! Not how the result of `busbw tune` becomes these (`of_tuning`).

use busbw_core::{finding::Finding, quantity::time};
use serde::{Deserialize, Serialize};

use super::{Fact, Level};

/// A tuning, by a ladder or a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// What to call it, such as `Tuning`.
    pub title: String,
    /// What was launched on what, how often, and when.
    pub subject: String,
    /// What to do, and why.
    pub sentence: String,
    /// Lines for a shell that set the recommendation; none where nothing is recommended.
    pub set: Option<String>,
    /// What was wrong before the first change, in the user's own environment.
    pub before: Vec<Finding>,
    /// Every launch of the search for an environment, in order.
    pub launches: Vec<Launch>,
    /// The final comparison: the whole first, then single variables, then single calls.
    pub sides: Vec<Side>,
    /// The rungs of a ladder, waived ones last.
    pub rungs: Vec<Rung>,
    /// The best of each call within the environment; empty where nothing was chosen by call.
    pub choices: Vec<Choice>,
    /// The tuner's file of these choices, and what it gives; none where there is no file.
    pub file: Option<TunerFile>,
    /// What failed.
    pub failures: Vec<Failed>,
    /// Values with which every launch failed, in sentences.
    pub suspected: Vec<String>,
    /// Variables that were not tried, and why.
    pub left_out: Vec<Fact>,
    /// What remains to the limit of the hardware: a sentence a collective.
    pub remains: Vec<String>,
    /// The command line.
    pub invocation: String,
}

/// A launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// Its number, counted from 1.
    pub number: u64,
    /// What it was for.
    pub kind: LaunchKind,
    /// What it set: `NAME=VALUE …`, or `the defaults`.
    pub sets: String,
    /// How many times as fast as the median launch with the defaults, less 1, by the geometric mean over its calls; none
    /// where one of the two has no times.
    pub gain: Option<f64>,
    /// How it failed.
    pub failed: Option<String>,
}

/// What a launch was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaunchKind {
    /// The defaults again, so that drift shows.
    Baseline,
    /// Settings drawn at random.
    Explored,
    /// A candidate of a race.
    Race,
    /// A side of a rung of the ladder.
    Rung,
    /// A side of the final comparison.
    Final,
}

/// A gain and its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// How many times as fast, less 1.
    pub gain: f64,
    /// Its 95 % interval; none of a screening.
    pub interval: Option<[f64; 2]>,
}

impl Gain {
    /// `+12.1 % (8.0 to 15.3)`.
    pub fn text(&self) -> String {
        let gain = format!("{:+.1} %", 100.0 * self.gain);
        match self.interval {
            Some([low, high]) => format!("{gain} ({:.1} to {:.1})", 100.0 * low, 100.0 * high),
            None => gain,
        }
    }
}

/// A line of the final comparison: the recommendation, or the best that was found, against the defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// What is compared.
    pub kind: SideKind,
    /// The variable or the call, in words.
    pub name: String,
    /// Time of one operation with the defaults, microseconds; of calls only.
    pub default_us: Option<f64>,
    /// The same with the environment.
    pub with_it_us: Option<f64>,
    /// The gain; none where it was not measured.
    pub gain: Option<Gain>,
    /// `faster`, `slower`, `not decided` or `not measured`.
    pub status: String,
}

impl Side {
    /// The time with the defaults; empty where there is none.
    pub fn default(&self) -> String {
        self.default_us.map_or_else(String::new, micro)
    }

    /// The time with the environment; empty where there is none.
    pub fn with_it(&self) -> String {
        self.with_it_us.map_or_else(String::new, micro)
    }

    /// How good its verdict is.
    pub fn level(&self) -> Level {
        match self.status.as_str() {
            "faster" => Level::Good,
            "slower" => Level::Slow,
            _ => Level::Unknown,
        }
    }
}

/// Microseconds in words, with the unit as the page writes it.
fn micro(us: f64) -> String {
    time(us).replace("us", "µs")
}

/// What a line of the final comparison is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SideKind {
    /// All calls, all variables.
    Whole,
    /// One variable: the environment against the same without it.
    Variable,
    /// One call.
    Call,
}

/// A rung of the ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// Its name.
    pub name: String,
    /// How many steps were tried.
    pub steps: usize,
    /// `yes`, `no` or `waived`.
    pub kept: String,
    /// What its best step gives: compared, or by the screening alone.
    pub gain: Option<Gain>,
    /// What the best step sets; of a waived rung the reason.
    pub best: String,
}

/// What is best for one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The call, in words.
    pub call: String,
    /// What to set, or `the defaults`.
    pub sets: String,
    /// Its gain over the defaults at this call.
    pub gain: Option<Gain>,
}

/// A tuner's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TunerFile {
    /// Its lines.
    pub lines: Vec<String>,
    /// Lines for a shell so that NCCL chooses by it; none where it is not recommended.
    pub set: Option<String>,
    /// The environment and the file together against the defaults.
    pub sides: Vec<Side>,
}

/// A launch that failed, whose settings are out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// Which, in words.
    pub launch: String,
    /// What it set.
    pub sets: String,
    /// How it failed, in a word or two.
    pub how: String,
    /// What was reported.
    pub text: String,
}
