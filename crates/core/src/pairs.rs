//! The figures of each pair of ranks: a matrix with a row for each sender and a column for each
//! receiver.
//! Not how it is measured. Below: `schedule` (the rounds of pairs), `judge` (from `figures` to an
//! `assessment` of `subject`s), `retest` (the second measurement), `sentence` (the verdict in
//! words).
//! docs/pairs.md says how a verdict is reached and how far it can be trusted.

pub mod assessment;
pub mod figures;
mod fit;
pub mod judge;
pub mod retest;
pub mod schedule;
pub mod sentence;
pub mod subject;
mod tail;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::messages::Messages;
use assessment::PairsAssessment;

/// Version of this form. Readers refuse newer ones. Since 2 there may be a verdict.
pub const SCHEMA: u32 = 2;

/// The most ranks whose matrix is accepted.
pub const MAX_RANKS: usize = 4096;

/// Every sample of each ordered pair: the time of a message in microseconds.
pub type Samples = BTreeMap<(usize, usize), Vec<f64>>;

/// A matrix of pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pairs {
    /// Version of this form.
    pub pairs_schema: u32,
    /// What was measured, in a few words, such as `send and receive, one pair at a time`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// Local start time, `%Y-%m-%d %H:%M:%S`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// The command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A name for each rank, such as `node-1 gpu 3`.
    pub labels: Vec<String>,
    /// Bytes of a message.
    pub size: u64,
    /// Unit of the values.
    pub unit: Unit,
    /// A row for each sender, a column for each receiver; `null` where nothing was measured, as
    /// from a rank to itself.
    pub values: Vec<Vec<Option<f64>>>,
    /// The verdict on the matrix, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<PairsAssessment>,
}

/// Unit of a pair's figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Bandwidth, 1e9 bytes a second.
    #[serde(rename = "GB/s")]
    GigabytesPerSecond,
    /// Time, microseconds.
    #[serde(rename = "us")]
    Microseconds,
}

/// One pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Number of the sender.
    pub from: usize,
    /// Number of the receiver.
    pub to: usize,
    /// Its figure.
    pub value: f64,
}

/// Why a text is not a matrix of pairs.
#[derive(Debug, Error)]
pub enum BadPairs {
    /// A newer schema.
    #[error("its matrix of pairs has schema {0}; this busbw reads up to {SCHEMA}: use a newer one")]
    Newer(u32),
    /// The wrong shape.
    #[error(
        "its matrix of pairs has {labels} labels (1 to {MAX_RANKS} are taken) and {rows} rows, the shortest of \
         {shortest} and the longest of {longest} values: they do not fit together"
    )]
    Shape {
        /// Labels.
        labels: usize,
        /// Rows.
        rows: usize,
        /// Values of the shortest row.
        shortest: usize,
        /// Values of the longest row.
        longest: usize,
    },
    /// A verdict on other ranks.
    #[error("its matrix of pairs has a verdict on {0} ranks, but {1} labels")]
    Assessment(usize, usize),
    /// A value that is not a figure.
    #[error("its matrix of pairs has the value {0}, which is no speed and no time")]
    Value(f64),
}

impl Unit {
    /// The suffix of a figure.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::GigabytesPerSecond => "GB/s",
            Unit::Microseconds => "us",
        }
    }

    /// Whether a larger figure is a better one.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Unit::GigabytesPerSecond)
    }
}

impl Pairs {
    /// The matrix, if its parts fit together.
    ///
    /// # Errors
    /// The schema is newer, the shape is not square, or a figure is not positive.
    pub fn checked(self) -> Result<Pairs, BadPairs> {
        if self.pairs_schema > SCHEMA {
            return Err(BadPairs::Newer(self.pairs_schema));
        }
        let (labels, rows) = (self.labels.len(), self.values.len());
        let lengths = || self.values.iter().map(Vec::len);
        let (shortest, longest) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
        if !(1..=MAX_RANKS).contains(&labels)
            || [rows, shortest, longest].iter().any(|n| *n != labels)
        {
            return Err(BadPairs::Shape { labels, rows, shortest, longest });
        }
        let bad = |value: &f64| !value.is_finite() || *value < 0.0;
        if let Some(value) = self.values.iter().flatten().flatten().copied().find(bad) {
            return Err(BadPairs::Value(value));
        }
        match &self.verdict {
            Some(verdict) if verdict.hosts.len() != labels => {
                Err(BadPairs::Assessment(verdict.hosts.len(), labels))
            }
            _ => Ok(self),
        }
    }

    /// Every pair that has a figure, the worst first.
    pub fn worst_first(&self) -> Vec<Pair> {
        let rows = self.values.iter().enumerate();
        let mut all: Vec<Pair> = rows
            .flat_map(|(from, row)| {
                row.iter().enumerate().map(move |(to, value)| (from, to, value))
            })
            .filter_map(|(from, to, value)| Some(Pair { from, to, value: (*value)? }))
            .collect();
        all.sort_by(|a, b| {
            let order = a.value.total_cmp(&b.value);
            if self.unit.more_is_better() { order } else { order.reverse() }
        });
        all
    }

    /// A rank's name.
    pub fn label(&self, rank: usize) -> &str {
        self.labels.get(rank).map_or("", String::as_str)
    }
}

impl Unit {
    /// The unit in which pairs are compared.
    pub const fn of(test: Messages) -> Unit {
        if test.is_latency() { Unit::Microseconds } else { Unit::GigabytesPerSecond }
    }

    /// A figure of a message of `bytes` that took `us` microseconds.
    pub fn figure(self, bytes: u64, us: f64) -> f64 {
        match self {
            Unit::Microseconds => us,
            Unit::GigabytesPerSecond => bytes as f64 / us / 1e3,
        }
    }
}

/// The unit of a figure, in a few words.
pub const fn what(test: Messages) -> &'static str {
    if test.is_latency() { "latency, half a round trip" } else { "bandwidth, one way" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"{"pairs_schema":1,"labels":["a","b"],"size":1024,"unit":"GB/s",
        "values":[[null,2.5],[1.5,null]]}"#;

    fn read(text: &str) -> Pairs {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn worst_first() {
        let pairs = read(TWO).checked().unwrap();
        assert_eq!(pairs.worst_first().first().unwrap().value, 1.5);
        assert_eq!(read(&serde_json::to_string(&pairs).unwrap()), pairs);
        let slow = read(&TWO.replace("GB/s", "us"));
        assert_eq!(slow.worst_first().first().unwrap().value, 2.5);
    }

    #[test]
    fn a_verdict_is_kept_with_its_matrix() {
        let verdict = r#","verdict":{"basis":"retest","unit":"GB/s","hosts":[0,1],"levels":[],"findings":[
            {"subject":{"is":"cell","from":1,"to":0},"slower-percent":40.0,"slow-cells":1,"cells":1,
            "confidence":0.99}]}}"#;
        let text = TWO.replace("schema\":1", "schema\":2").replace("]]}", &format!("]]{verdict}"));
        let pairs = read(&text).checked().unwrap();
        assert_eq!(read(&serde_json::to_string(&pairs).unwrap()), pairs);
        assert_eq!(pairs.verdict.unwrap().slow.len(), 1);
        let other = read(&text.replace("[0,1]", "[0]")).checked().unwrap_err().to_string();
        assert!(other.contains("verdict on 1 ranks, but 2 labels"), "{other}");
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let newer =
            read(&TWO.replace("schema\":1", "schema\":3")).checked().unwrap_err().to_string();
        assert!(newer.contains("newer"), "{newer}");
        for (from, to) in [
            (r#"["a","b"]"#, r#"["a"]"#),
            ("[null,2.5]", "[2.5]"),
            ("[null,2.5],", ""),
            ("2.5", "-1"),
        ] {
            assert!(read(&TWO.replace(from, to)).checked().is_err(), "{to}");
        }
        let none = read(r#"{"pairs_schema":1,"labels":[],"size":1,"unit":"us","values":[]}"#);
        assert!(none.checked().is_err());
    }
}
