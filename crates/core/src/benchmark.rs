//! What a run measures: a collective, messages between pairs of ranks, every pair in turns, or a job's own calls.
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
    /// The collectives that a job called, in their order.
    Replay,
}

impl Benchmark {
    /// Those that are neither a collective nor messages.
    pub const OTHERS: [Benchmark; 2] = [Benchmark::Pairs, Benchmark::Replay];

    /// The command's name.
    pub const fn name(self) -> &'static str {
        match self {
            Benchmark::Collective(collective) => collective.name(),
            Benchmark::Messages(messages) => messages.name(),
            Benchmark::Pairs => "pairs",
            Benchmark::Replay => "replay",
        }
    }

    /// The benchmark of that name.
    pub fn from_name(name: &str) -> Option<Benchmark> {
        let collective = Collective::from_name(name).map(Benchmark::Collective);
        let other = || Benchmark::OTHERS.into_iter().find(|one| one.name() == name);
        collective.or_else(|| Messages::from_name(name).map(Benchmark::Messages)).or_else(other)
    }

    /// The benchmark that a person means: `AllReduce`, `all-reduce` and `allreduce` are `all_reduce`.
    pub fn from_spelling(word: &str) -> Option<Benchmark> {
        let meant = squashed(word);
        let collectives = Collective::every().map(Benchmark::Collective);
        let mut all =
            collectives.chain(Messages::ALL.map(Benchmark::Messages)).chain(Benchmark::OTHERS);
        all.find(|benchmark| squashed(benchmark.name()) == meant)
    }

    /// The collective, if it is one.
    pub const fn collective(self) -> Option<Collective> {
        match self {
            Benchmark::Collective(collective) => Some(collective),
            Benchmark::Messages(_) | Benchmark::Pairs | Benchmark::Replay => None,
        }
    }

    /// Whether its ranks exchange messages with chosen others, by a channel.
    pub const fn is_between_pairs(self) -> bool {
        matches!(self, Benchmark::Messages(_) | Benchmark::Pairs)
    }

    /// The test of messages, if it is one.
    pub const fn messages(self) -> Option<Messages> {
        match self {
            Benchmark::Messages(messages) => Some(messages),
            Benchmark::Collective(_) | Benchmark::Pairs | Benchmark::Replay => None,
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
            .chain(Benchmark::OTHERS)
            .collect();
        for benchmark in &all {
            assert_eq!(Benchmark::from_name(benchmark.name()), Some(*benchmark));
            let json = serde_json::to_string(benchmark).unwrap();
            assert_eq!(json, format!("\"{benchmark}\""));
            assert_eq!(serde_json::from_str::<Benchmark>(&json).unwrap(), *benchmark);
        }
    }
}
