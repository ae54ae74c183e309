//! `Channel c : a[x] -> b[y] via …`: the connections between ranks, their transports and numbers.
//! Not which of the connections carried bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::tally::is_zero;
use super::transport::Transport;

/// The most pairs of ranks that are listed one by one: all of 128 ranks with each other.
const MAX_PAIRS: usize = 16_384;
/// The most distinct transports of all pairs together.
const MAX_TRANSPORTS: usize = 32_768;

/// The number of messages about a transport. Only the sender logs P2P and SHM, both ends log NET: a
/// connection is counted by the end with more messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// The transport.
    pub transport: Transport,
    /// Messages of senders.
    pub send: u64,
    /// Messages of receivers (`[receive]`).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub receive: u64,
    /// Connections, each counted once.
    pub connections: u64,
}

/// The connections from one rank to another, over all communicators in which they have these ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The sending rank.
    pub from: u32,
    /// The receiving rank; a network that reduces has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// Each transport between them.
    pub transports: Vec<Ends>,
}

type Key = (u32, Option<u32>);

/// (messages of senders, messages of receivers)
type MessageCounts = BTreeMap<Transport, (u64, u64)>;

/// The connections read so far.
#[derive(Debug, Default)]
pub(super) struct Connections {
    pairs: BTreeMap<Key, MessageCounts>,
    /// Those of pairs beyond the limit, together.
    others: MessageCounts,
    transports: usize,
    left_out: u64,
}

impl Connections {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(&mut self, mut cursor: Cursor<'_>) -> Option<()> {
        let (key, receive) = match cursor.one_of(&["Channel ", "Ring ", "CollNet "])? {
            "CollNet " => reducing(&mut cursor)?,
            _ => between_ranks(&mut cursor)?,
        };
        cursor.literal(" via ")?;
        let transport = Transport::read(&mut cursor)?;
        cursor.end()?;
        self.add(key, transport, receive);
        Some(())
    }

    /// Adds the messages of another log: each log may hold one end of a connection.
    pub(super) fn add_pairs(&mut self, pairs: &[Pair]) {
        for pair in pairs {
            let told = self.pairs.entry((pair.from, pair.to)).or_default();
            for ends in &pair.transports {
                let (send, receive) = told.entry(ends.transport.clone()).or_default();
                *send += ends.send;
                *receive += ends.receive;
            }
        }
    }

    fn add(&mut self, key: Key, transport: Transport, receive: bool) {
        let full = self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&key);
        let told = if full {
            self.left_out += 1;
            &mut self.others
        } else {
            self.pairs.entry(key).or_default()
        };
        if !told.contains_key(&transport) {
            if self.transports >= MAX_TRANSPORTS {
                self.left_out += 1;
                return;
            }
            self.transports += 1;
        }
        let (send, received) = told.entry(transport).or_default();
        *if receive { received } else { send } += 1;
    }

    /// Totals, and the pairs.
    pub(super) fn finish(self, left_out: &mut u64) -> (Vec<Ends>, Vec<Pair>) {
        *left_out += self.left_out;
        let mut pairs = Vec::with_capacity(self.pairs.len());
        for ((from, to), told) in self.pairs {
            pairs.push(Pair { from, to, transports: ends(told) });
        }
        let mut totals: BTreeMap<Transport, Ends> = BTreeMap::new();
        for one in pairs.iter().flat_map(|p| p.transports.iter().cloned()).chain(ends(self.others))
        {
            totals
                .entry(one.transport.clone())
                .and_modify(|total| {
                    total.send += one.send;
                    total.receive += one.receive;
                    total.connections += one.connections;
                })
                .or_insert(one);
        }
        (totals.into_values().collect(), pairs)
    }
}

/// Counts every connection of one pair once. The two ends of a NET connection may use devices of
/// different numbers, so they are compared as sums.
fn ends(told: MessageCounts) -> Vec<Ends> {
    let net = |t: &Transport| matches!(t, Transport::Net { .. });
    let (sent, received) = (told.iter().filter(|(t, _)| net(t)))
        .fold((0, 0), |(s, r), (_, (send, receive))| (s + send, r + receive));
    told.into_iter()
        .map(|(transport, (send, receive))| {
            let connections = match transport {
                Transport::Net { .. } if sent >= received => send,
                Transport::Net { .. } => receive,
                // To and from the network are two.
                _ => send + receive,
            };
            Ends { transport, send, receive, connections }
        })
        .collect()
}

/// `00/0 : 1[2] -> 3[4] [send]`. Until 2.18 the brackets hold a bus number; until 2.3 NET has none.
fn between_ranks(cursor: &mut Cursor<'_>) -> Option<(Key, bool)> {
    channel(cursor)?;
    let from = rank(cursor)?;
    cursor.literal(" -> ")?;
    let to = rank(cursor)?;
    Some(((from, Some(to)), direction(cursor)))
}

/// `00/1 : 4 [receive]`, of a rank and a network that reduces.
fn reducing(cursor: &mut Cursor<'_>) -> Option<(Key, bool)> {
    channel(cursor)?;
    let rank = rank(cursor)?;
    Some(((rank, None), direction(cursor)))
}

fn channel(cursor: &mut Cursor<'_>) -> Option<()> {
    cursor.number::<u32>()?;
    if cursor.has("/") {
        cursor.number::<u32>()?;
    }
    cursor.literal(" : ")
}

fn rank(cursor: &mut Cursor<'_>) -> Option<u32> {
    let rank = cursor.number()?;
    if cursor.has("[") {
        cursor.hex()?;
        cursor.literal("]")?;
    }
    Some(rank)
}

/// Whether the receiver logged it.
fn direction(cursor: &mut Cursor<'_>) -> bool {
    cursor.has(" [receive]") || {
        cursor.has(" [send]");
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(texts: &[&str]) -> (Vec<Ends>, Vec<Pair>) {
        let mut connections = Connections::default();
        for text in texts {
            assert!(connections.read(Cursor::new(text, false)).is_some(), "{text}");
        }
        connections.finish(&mut 0)
    }

    #[test]
    fn every_generation_of_the_line() {
        let (totals, pairs) = connections(&[
            "Ring 00 : 0[0] -> 1[1] via P2P/IPC",
            "Ring 00 : 1 -> 2 [send] via NET/Socket/0",
            "Channel 00 : 0[e000] -> 1[13000] via P2P/IPC",
            "Channel 00 : 3[4] -> 0[1] via SHM/direct/direct",
            "Channel 15/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
            "Channel 00/1 : 9[1] -> 0[0] [receive] via NET/IBext/4/GDRDMA/Shared",
            "CollNet 00/0 : 0 [receive] via COLLNET/SHARP/1/GDRDMA",
        ]);
        let told: Vec<String> = totals.iter().map(|e| e.transport.to_string()).collect();
        let expected = [
            "P2P/CUMEM/read",
            "P2P/IPC",
            "SHM/direct",
            "NET/IBext/4/GDRDMA/Shared",
            "NET/Socket/0",
            "COLLNET/SHARP/1/GDRDMA",
        ];
        assert_eq!(told, expected);
        assert_eq!(totals[1].connections, 2);
        assert_eq!(pairs.len(), 5);
        assert_eq!((pairs[0].from, pairs[0].to), (0, None));
    }

    #[test]
    fn the_two_ends_of_a_net_connection_are_one_connection() {
        let (totals, pairs) = connections(&[
            "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA",
            "Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA",
            "Channel 00/0 : 0[0] -> 8[0] [receive] via NET/IB/2",
            "Channel 01/0 : 0[0] -> 8[0] [receive] via NET/IB/3",
            // The sender's output of this one is missing.
            "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
        ]);
        let connected: Vec<(String, u64)> =
            totals.iter().map(|e| (e.transport.to_string(), e.connections)).collect();
        assert_eq!(connected.iter().map(|(_, n)| n).sum::<u64>(), 3, "{connected:?}");
        assert_eq!(pairs.len(), 2);
        assert_eq!(pairs[1].transports[0].connections, 1);
    }

    #[test]
    fn what_is_no_connection_is_left_alone() {
        let mut connections = Connections::default();
        for text in [
            "Channel 00/02 : 0 3 2 1 4 7 6 5",
            "Ring 00 : 0 -> 1 -> 2",
            "Channel 00/0 : 0[0] -> 1[1] via TELEPATHY",
            "Channel 99999999999 : 0[0] -> 1[1] via P2P/IPC",
            "Channel 0:",
        ] {
            assert_eq!(connections.read(Cursor::new(text, false)), None, "{text}");
        }
        assert_eq!(connections.finish(&mut 0), (Vec::new(), Vec::new()));
    }

    #[test]
    fn pairs_beyond_the_limit_are_counted_together() {
        let mut connections = Connections::default();
        let p2p = Transport::Shm { copy_engine_in: false, copy_engine_out: false };
        for from in 0..MAX_PAIRS as u32 + 3 {
            connections.add((from, Some(0)), p2p.clone(), false);
        }
        let mut left_out = 0;
        let (totals, pairs) = connections.finish(&mut left_out);
        assert_eq!((pairs.len(), left_out), (MAX_PAIRS, 3));
        assert_eq!(totals[0].connections, MAX_PAIRS as u64 + 3);
    }
}
