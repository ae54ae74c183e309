//! Tests of messages between pairs of ranks: the pairs, and the unit of a row's figures.
//! Not how messages move (a backend's channel) and not the loops (`busbw-runner`).

use serde::{Deserialize, Serialize};

/// A test of messages. Names and loops are those of the OSU Micro-Benchmarks 7.4
/// (c/mpi/pt2pt/standard).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Messages {
    /// Ping-pong between two ranks; the figure is half the round trip.
    Latency,
    /// A window of messages from one rank to another, then an answer of one byte.
    #[serde(rename = "bw")]
    Bandwidth,
    /// A window of messages in each direction at once.
    #[serde(rename = "bibw")]
    BiBandwidth,
    /// Bandwidth of several pairs at once, and messages a second.
    #[serde(rename = "mbw_mr")]
    MultiBandwidth,
    /// Latency of several pairs at once.
    #[serde(rename = "multi_lat")]
    MultiLatency,
}

impl Messages {
    /// Every test.
    pub const ALL: [Messages; 5] = [
        Messages::Latency,
        Messages::Bandwidth,
        Messages::BiBandwidth,
        Messages::MultiBandwidth,
        Messages::MultiLatency,
    ];

    /// The command's name; OSU's program is `osu_` and this.
    pub const fn name(self) -> &'static str {
        match self {
            Messages::Latency => "latency",
            Messages::Bandwidth => "bw",
            Messages::BiBandwidth => "bibw",
            Messages::MultiBandwidth => "mbw_mr",
            Messages::MultiLatency => "multi_lat",
        }
    }

    /// The test of that name.
    pub fn from_name(name: &str) -> Option<Messages> {
        Messages::ALL.into_iter().find(|test| test.name() == name)
    }

    /// Whether a message goes back and forth; otherwise windows of messages follow each other.
    pub const fn is_latency(self) -> bool {
        matches!(self, Messages::Latency | Messages::MultiLatency)
    }

    /// Whether several pairs exchange messages at once; the other tests use two ranks.
    pub const fn is_multiple(self) -> bool {
        matches!(self, Messages::MultiBandwidth | Messages::MultiLatency)
    }

    /// The ranks of each pair, the one that begins first: rank i and rank i + pairs, as
    /// osu_mbw_mr.c:96 pairs them. `None` if the test cannot use this number of ranks.
    pub fn pairs(self, ranks: usize) -> Option<Vec<(usize, usize)>> {
        let fits =
            if self.is_multiple() { ranks >= 2 && ranks.is_multiple_of(2) } else { ranks == 2 };
        let half = ranks / 2;
        fits.then(|| (0..half).map(|first| (first, first + half)).collect())
    }

    /// Messages of one iteration of one pair that its time is divided by: two of a round trip, a
    /// window, or one in each direction.
    pub const fn messages(self, window: u32) -> u64 {
        match self {
            Messages::Latency | Messages::MultiLatency => 2,
            Messages::Bandwidth | Messages::MultiBandwidth => window as u64,
            Messages::BiBandwidth => 2 * window as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_in_blocks() {
        assert_eq!(Messages::Latency.pairs(2), Some(vec![(0, 1)]));
        assert_eq!(Messages::MultiLatency.pairs(6), Some(vec![(0, 3), (1, 4), (2, 5)]));
        for (test, ranks) in [
            (Messages::Latency, 3),
            (Messages::Bandwidth, 1),
            (Messages::MultiBandwidth, 0),
            (Messages::MultiBandwidth, 5),
        ] {
            assert_eq!(test.pairs(ranks), None, "{test:?} of {ranks}");
        }
    }
}
