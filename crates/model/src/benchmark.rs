//! What a run measures: a collective, or messages between pairs of ranks.
//! Not how either is measured.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Collective, messages::Messages};

/// What a run measures. A record has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Benchmark {
    /// An operation of all ranks.
    Collective(Collective),
    /// Messages between pairs of ranks.
    Messages(Messages),
}

impl Benchmark {
    /// The command's name.
    pub const fn name(self) -> &'static str {
        match self {
            Benchmark::Collective(collective) => collective.name(),
            Benchmark::Messages(messages) => messages.name(),
        }
    }

    /// The benchmark of that name.
    pub fn from_name(name: &str) -> Option<Benchmark> {
        let collective = Collective::from_name(name).map(Benchmark::Collective);
        collective.or_else(|| Messages::from_name(name).map(Benchmark::Messages))
    }

    /// The collective, if it is one.
    pub const fn collective(self) -> Option<Collective> {
        match self {
            Benchmark::Collective(collective) => Some(collective),
            Benchmark::Messages(_) => None,
        }
    }

    /// The test of messages, if it is one.
    pub const fn messages(self) -> Option<Messages> {
        match self {
            Benchmark::Messages(messages) => Some(messages),
            Benchmark::Collective(_) => None,
        }
    }
}

impl From<Collective> for Benchmark {
    fn from(collective: Collective) -> Benchmark {
        Benchmark::Collective(collective)
    }
}

impl From<Messages> for Benchmark {
    fn from(messages: Messages) -> Benchmark {
        Benchmark::Messages(messages)
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_survive_a_record() {
        let collectives = Collective::ALL.map(Benchmark::Collective).into_iter();
        let all: Vec<Benchmark> =
            collectives.chain(Messages::ALL.map(Benchmark::Messages)).collect();
        for benchmark in &all {
            assert_eq!(Benchmark::from_name(benchmark.name()), Some(*benchmark));
            let json = serde_json::to_string(benchmark).unwrap();
            assert_eq!(json, format!("\"{benchmark}\""));
            assert_eq!(serde_json::from_str::<Benchmark>(&json).unwrap(), *benchmark);
        }
    }
}
