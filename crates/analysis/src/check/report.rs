//! A check as data: its lines, and what was decided. `--json` prints it as it is.
//! Not how a line comes about, and not its text forms.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version of the JSON.
pub const SCHEMA: u32 = 1;

/// A check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// [`SCHEMA`].
    pub check_schema: u32,
    /// busbw's version.
    pub busbw: String,
    /// Local start time, `%Y-%m-%d %H:%M:%S`.
    pub started: String,
    /// Start time, seconds since 1970.
    pub started_unix: i64,
    /// The command line.
    pub args: Vec<String>,
    /// The hosts that answered, in the order of their first ranks.
    pub hosts: Vec<String>,
    /// Ranks of the collective, where one was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<usize>,
    /// Seconds that were allowed.
    pub within_s: f64,
    /// Seconds that it took.
    pub took_s: f64,
    /// One for each check and fault.
    pub lines: Vec<CheckLine>,
    /// What follows from them.
    pub decision: Decision,
    /// The decision's reason, in one sentence.
    pub reason: String,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// Each host by itself, as `busbw doctor` does.
    Doctor,
    /// Software, hardware and settings of all hosts, compared.
    Settings,
    /// A collective of all ranks.
    Collective,
    /// The collective against what the hardware allows.
    Limit,
    /// The collective against an earlier run.
    Baseline,
    /// Messages between pairs of ranks.
    Pairs,
    /// The transports between hosts.
    Transports,
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// No fault was found.
    Pass,
    /// A fault was seen at least twice.
    Fail,
    /// The check could not be made, was not finished in time, or saw a fault once.
    CannotTell,
    /// It was left out, for the reason that the text has.
    Waived,
}

/// Whose fault it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Subject {
    /// A host.
    Host {
        /// Its name.
        host: String,
    },
    /// Hosts that differ, where no majority tells which of them is wrong.
    Hosts {
        /// Their names.
        hosts: Vec<String>,
    },
    /// A rank: its GPU or its core.
    Rank {
        /// Its name, such as `node-3 gpu 5`.
        rank: String,
    },
    /// A way between two ranks or hosts.
    Link {
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
        /// Whether it is meant both ways.
        both: bool,
    },
}

/// A figure, with what it was held against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its value.
    pub value: f64,
    /// `GB/s`, `us` or `%`.
    pub unit: String,
    /// Bytes of an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The limit, the baseline or the normal level, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<f64>,
}

/// One check, or one fault that it found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckLine {
    /// Which check.
    pub check: Check,
    /// Whose fault; none where nobody is at fault, or nobody could be named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// The verdict.
    pub verdict: Verdict,
    /// What was found, or why nothing was.
    pub text: String,
    /// How many readings or launches show the fault.
    pub measured: u32,
    /// Seconds that this check took; of several lines of a check, the first has them.
    pub took_s: f64,
    /// The figure that it rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<Figure>,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The command that confirms it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
}

/// What follows from all lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// Nothing is wrong: the job may start.
    Pass,
    /// A part cannot be told, and no fault was seen twice: the job may start.
    LetThrough,
    /// A fault was seen twice: the job must not start.
    Blocked,
    /// A part cannot be told, and `--fail-closed` was given: the job must not start.
    BlockedUntold,
    /// The user ended the check.
    Interrupted,
}

/// How often a fault must be seen before it blocks.
pub(super) const TWICE: u32 = 2;

impl Check {
    /// As it is printed, and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Check::Doctor => "doctor",
            Check::Settings => "settings",
            Check::Collective => "collective",
            Check::Limit => "limit",
            Check::Baseline => "baseline",
            Check::Pairs => "pairs",
            Check::Transports => "transports",
        }
    }

    /// All of them, in the order in which they are made.
    pub const ALL: [Check; 7] = [
        Check::Doctor,
        Check::Settings,
        Check::Collective,
        Check::Limit,
        Check::Baseline,
        Check::Pairs,
        Check::Transports,
    ];
}

impl Verdict {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::CannotTell => "cannot tell",
            Verdict::Waived => "waived",
        }
    }
}

impl Decision {
    /// As JSON and metrics spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Decision::Pass => "pass",
            Decision::LetThrough => "let-through",
            Decision::Blocked => "blocked",
            Decision::BlockedUntold => "blocked-untold",
            Decision::Interrupted => "interrupted",
        }
    }

    /// Whether a job may start.
    pub const fn lets_start(self) -> bool {
        matches!(self, Decision::Pass | Decision::LetThrough)
    }
}

impl CheckLine {
    /// A line without subject, figure and advice.
    pub fn new(check: Check, verdict: Verdict, text: impl Into<String>) -> CheckLine {
        CheckLine {
            check,
            subject: None,
            verdict,
            text: text.into(),
            measured: 0,
            took_s: 0.0,
            figure: None,
            remedy: None,
            confirm: None,
        }
    }

    /// A fault that `measured` readings or launches show. Seen once, it is "cannot tell".
    pub fn fault(check: Check, measured: u32, text: impl Into<String>) -> CheckLine {
        let verdict = if measured >= TWICE { Verdict::Fail } else { Verdict::CannotTell };
        CheckLine { measured, ..CheckLine::new(check, verdict, text) }
    }

    /// Sets whose fault it is.
    pub fn of(self, subject: Option<Subject>) -> CheckLine {
        CheckLine { subject, ..self }
    }

    /// Sets the figure.
    pub fn figure(self, figure: Option<Figure>) -> CheckLine {
        CheckLine { figure, ..self }
    }

    /// Sets what to do, and what confirms it.
    pub fn advice(self, remedy: Option<String>, confirm: Option<String>) -> CheckLine {
        CheckLine { remedy, confirm, ..self }
    }

    /// Whether it blocks a job.
    pub fn blocks(&self) -> bool {
        self.verdict == Verdict::Fail && self.measured >= TWICE
    }
}

impl Subject {
    /// A host.
    pub fn host(name: impl Into<String>) -> Subject {
        Subject::Host { host: name.into() }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Host { host } => f.write_str(host),
            Subject::Hosts { hosts } => f.write_str(&busbw_core::quantity::ranged(hosts)),
            Subject::Rank { rank } => f.write_str(rank),
            Subject::Link { from, to, both: true } => write!(f, "{from} <-> {to}"),
            Subject::Link { from, to, both: false } => write!(f, "{from} -> {to}"),
        }
    }
}
