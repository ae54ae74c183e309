//! What a run measures: a collective, messages between pairs of ranks, or every pair in turns.
//! Not how it is measured.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::{Collective, messages::Messages, spelling::squashed};

/// What a run measures. A record has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Benchmark {
    /// An operation of all ranks.
    Collective(Collective),
    /// Messages between pairs of ranks.
    Messages(Messages),
    /// Messages of every pair of ranks, in rounds.
    Pairs,
}

impl Benchmark {
    /// The command's name.
    pub const fn name(self) -> &'static str {
        match self {
            Benchmark::Collective(collective) => collective.name(),
            Benchmark::Messages(messages) => messages.name(),
            Benchmark::Pairs => "pairs",
        }
    }

    /// The benchmark of that name.
    pub fn from_name(name: &str) -> Option<Benchmark> {
        let collective = Collective::from_name(name).map(Benchmark::Collective);
        let pairs = (name == Benchmark::Pairs.name()).then_some(Benchmark::Pairs);
        collective.or_else(|| Messages::from_name(name).map(Benchmark::Messages)).or(pairs)
    }

    /// The benchmark that a person means: `AllReduce`, `all-reduce` and `allreduce` are `all_reduce`.
    pub fn from_spelling(word: &str) -> Option<Benchmark> {
        let meant = squashed(word);
        let collectives = Collective::every().map(Benchmark::Collective);
        let mut all =
            collectives.chain(Messages::ALL.map(Benchmark::Messages)).chain([Benchmark::Pairs]);
        all.find(|benchmark| squashed(benchmark.name()) == meant)
    }

    /// The collective, if it is one.
    pub const fn collective(self) -> Option<Collective> {
        match self {
            Benchmark::Collective(collective) => Some(collective),
            Benchmark::Messages(_) | Benchmark::Pairs => None,
        }
    }

    /// The test of messages, if it is one.
    pub const fn messages(self) -> Option<Messages> {
        match self {
            Benchmark::Messages(messages) => Some(messages),
            Benchmark::Collective(_) | Benchmark::Pairs => None,
        }
    }
}

impl Serialize for Benchmark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Benchmark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Benchmark, D::Error> {
        let name = String::deserialize(deserializer)?;
        let unknown = || D::Error::custom(format!("'{name}' is no benchmark of this busbw"));
        Benchmark::from_name(&name).ok_or_else(unknown)
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
    fn spellings_of_people() {
        for (word, name) in [
            ("allreduce", "all_reduce"),
            ("all-reduce", "all_reduce"),
            ("AllReduce", "all_reduce"),
            ("reduce-scatter", "reduce_scatter"),
            ("all_to_all", "alltoall"),
            ("AlltoAllv", "alltoallv"),
            ("SendRecv", "sendrecv"),
            ("reduce", "reduce"),
        ] {
            assert_eq!(Benchmark::from_spelling(word).map(Benchmark::name), Some(name), "{word}");
        }
        assert_eq!(Benchmark::from_spelling("reduceall"), None);
        let all =
            Collective::every().map(Benchmark::from).chain(Messages::ALL.map(Benchmark::from));
        for benchmark in all {
            assert_eq!(Benchmark::from_spelling(benchmark.name()), Some(benchmark));
        }
    }

    #[test]
    fn names_are_unique_and_survive_a_record() {
        let collectives = Collective::ALL.map(Benchmark::Collective).into_iter();
        let all: Vec<Benchmark> = collectives
            .chain(Messages::ALL.map(Benchmark::Messages))
            .chain([Benchmark::Pairs])
            .collect();
        for benchmark in &all {
            assert_eq!(Benchmark::from_name(benchmark.name()), Some(*benchmark));
            let json = serde_json::to_string(benchmark).unwrap();
            assert_eq!(json, format!("\"{benchmark}\""));
            assert_eq!(serde_json::from_str::<Benchmark>(&json).unwrap(), *benchmark);
        }
    }
}
