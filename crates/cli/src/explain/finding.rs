//! What stands out in a run, as data.
//! Not the rules that find it (`rules`).

use serde::Serialize;

/// How grave a finding is. The order is that in which findings are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// The figures are wrong, or are not what they seem.
    Wrong,
    /// It costs performance.
    Slow,
    /// Worth knowing.
    Note,
}

/// How sure a cause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The data says it.
    Certain,
    /// The data fits, and little else would.
    Likely,
    /// The data allows it among other causes.
    Possible,
}

impl Confidence {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Confidence::Certain => "certain",
            Confidence::Likely => "likely",
            Confidence::Possible => "possible",
        }
    }
}

/// One thing that stands out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static str,
    /// How grave it is.
    pub weight: Weight,
    /// What it is.
    pub cause: String,
    /// What it is concluded from.
    pub evidence: Vec<String>,
    /// How sure that is.
    pub confidence: Confidence,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The command that would confirm it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
}

impl Finding {
    /// A finding without advice.
    pub fn new(
        rule: &'static str,
        weight: Weight,
        confidence: Confidence,
        cause: impl Into<String>,
    ) -> Finding {
        let cause = cause.into();
        Finding {
            rule,
            weight,
            cause,
            evidence: Vec::new(),
            confidence,
            remedy: None,
            confirm: None,
        }
    }

    /// What it is concluded from.
    pub fn evidence(mut self, evidence: impl Into<String>) -> Finding {
        self.evidence.push(evidence.into());
        self
    }

    /// What to do.
    pub fn remedy(self, remedy: impl Into<String>) -> Finding {
        Finding { remedy: Some(remedy.into()), ..self }
    }

    /// The command that would confirm it.
    pub fn confirm(self, confirm: impl Into<String>) -> Finding {
        Finding { confirm: Some(confirm.into()), ..self }
    }
}

/// Bytes as people say them, binary.
pub(super) fn bytes(size: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if size >= unit {
            let value = size as f64 / unit as f64;
            return if size.is_multiple_of(unit) {
                format!("{value} {name}")
            } else {
                format!("{value:.1} {name}")
            };
        }
    }
    format!("{size} B")
}

/// A size as nccl-tests' options take it: whole KiB, MiB or GiB, else bytes.
pub(super) fn plain(size: u64) -> String {
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let whole = units.into_iter().find(|(unit, _)| size >= *unit && size.is_multiple_of(*unit));
    whole.map_or(size.to_string(), |(unit, name)| format!("{}{name}", size / unit))
}

/// GB/s with as many digits as tell something.
pub(super) fn rate(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.1}"),
        0.1..100.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Percent, whole from 99.5 on, else with a digit where it is small.
pub(super) fn percent(value: f64) -> String {
    if value >= 10.0 { format!("{value:.1}") } else { format!("{value:.2}") }
}

/// Microseconds.
pub(super) fn time(us: f64) -> String {
    match us {
        1e6.. => format!("{:.2} s", us / 1e6),
        1e4..1e6 => format!("{:.1} ms", us / 1e3),
        100.0..1e4 => format!("{us:.0} us"),
        _ => format!("{us:.2} us"),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list<S: AsRef<str>>(items: &[S], last: &str) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [before @ .., end] => format!("{} {last} {end}", before.join(", ")),
    }
}
