//! How many channels a communicator has, and which algorithms' structures were connected over them.
//! Not which algorithm a call used; a TUNING line says that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::tally::Tally;

/// The most distinct sets of figures that are kept.
const MAX_CHANNEL_SETS: usize = 256;

/// Channels of a communicator. The line does not name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Channels {
    /// For rings and trees.
    pub coll: u32,
    /// For CollNet; from 2.20 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collnet: Option<u32>,
    /// For NVLS.
    pub nvls: u32,
    /// For send and receive, in all.
    pub p2p: u32,
    /// For send and receive, with one peer.
    pub p2p_per_peer: u32,
}

/// What has been read so far.
#[derive(Debug)]
pub(super) struct Structures {
    pub channels: Tally<Channels>,
    /// The most channels in lines of their order.
    pub ordered: Option<u32>,
    connected: BTreeMap<&'static str, u64>,
}

impl Default for Structures {
    fn default() -> Self {
        Structures {
            channels: Tally::new(MAX_CHANNEL_SETS),
            ordered: None,
            connected: BTreeMap::new(),
        }
    }
}

impl Structures {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(&mut self, cursor: Cursor<'_>) -> Option<()> {
        if let Some(channels) = channels(cursor) {
            self.channels.add(channels);
        } else if let Some(channels) = ordered(cursor) {
            self.ordered = self.ordered.max(Some(channels));
        } else {
            *self.connected.entry(connected(cursor)?).or_default() += 1;
        }
        Some(())
    }

    /// Messages by structure.
    pub(super) fn connected(&self) -> BTreeMap<String, u64> {
        self.connected.iter().map(|(&name, &said)| (name.to_owned(), said)).collect()
    }
}

fn channels(mut at: Cursor<'_>) -> Option<Channels> {
    let coll = at.number()?;
    at.literal(" coll channels, ")?;
    let mut first = at.number()?;
    let mut collnet = None;
    if at.has(" collnet channels, ") {
        collnet = Some(first);
        first = at.number()?;
    }
    at.literal(" nvls channels, ")?;
    let p2p = at.number()?;
    at.literal(" p2p channels, ")?;
    let p2p_per_peer = at.number()?;
    at.literal(" p2p channels per peer")?;
    at.end()?;
    Some(Channels { coll, collnet, nvls: first, p2p, p2p_per_peer })
}

/// `Channel 00/12 :    0   1   3   2` of rank 0 (NCCL's src/init.cc): the order of ranks in one of 12 channels.
fn ordered(mut at: Cursor<'_>) -> Option<u32> {
    at.literal("Channel ")?;
    let channel: u32 = at.number()?;
    let channels = at.field("/")?;
    at.literal(" : ")?;
    let mut ranks = at.text()?.split_ascii_whitespace();
    let numbers = ranks.all(|rank| rank.bytes().all(|digit| digit.is_ascii_digit()));
    (numbers && channel < channels).then_some(channels)
}

fn connected(mut at: Cursor<'_>) -> Option<&'static str> {
    if at.has("rank ") {
        at.number::<u32>()?;
        at.literal(" Connected CollNet")?;
        at.end()?;
        return Some("CollNet");
    }
    let what = at.one_of(&[
        "Connected all rings",
        "Connected all trees",
        "Connected binomial trees",
        "Connected NVLS tree",
        "Connected Collnet Chains",
    ])?;
    // 2.24 on.
    if at.has(", use ring PXN ") {
        at.number::<u32>()?;
        at.literal(" GDR ")?;
        at.one_of(&["0", "1"])?;
    }
    at.end()?;
    Some(match what {
        "Connected all rings" => "rings",
        "Connected all trees" => "trees",
        // PAT's.
        "Connected binomial trees" => "binomial trees",
        "Connected NVLS tree" => "NVLS tree",
        _ => "CollNet chains",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generation_of_the_lines() {
        let mut structures = Structures::default();
        for text in [
            "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer",
            "16 coll channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer",
            "Connected all rings",
            "Connected all rings, use ring PXN 0 GDR 1",
            "Connected all trees",
            "Connected binomial trees",
            "Connected NVLS tree",
            "rank 3 Connected CollNet",
            "Connected Collnet Chains 0/1",
            "Channel 00/12 :    0   1   3   2",
            "Channel 01/12 :    0   2   3   1",
        ] {
            assert!(structures.read(Cursor::new(text, false)).is_some(), "{text}");
        }
        for text in [
            "Connected to proxy localRank 1 -> connection 0x7",
            "2 coll channels, 0 nvls channels",
            "rank 3 Connected",
            "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
            "Channel 12/12 : 0 1",
        ] {
            assert_eq!(structures.read(Cursor::new(text, false)), None, "{text}");
        }
        for (text, read) in [
            ("Connected all ringsnode", Some(())),
            ("Connected all rings, use ring PXN 0 GDRnode", None),
            ("2 coll channels, 0 nvls channels, 2 p2p channels, 2 p2p channels ljm", None),
            (
                "2 coll channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peerljm",
                Some(()),
            ),
        ] {
            assert_eq!(structures.read(Cursor::new(text, true)), read, "{text}");
        }
        assert_eq!(structures.ordered, Some(12));
        assert_eq!(structures.connected()["rings"], 3);
        assert_eq!(structures.connected().len(), 6);
        let channels: Vec<_> = structures.channels.finish(&mut 0).into_keys().collect();
        assert_eq!(channels[1].collnet, None);
        assert_eq!((channels[1].nvls, channels[1].p2p_per_peer), (16, 2));
        assert_eq!((channels[2].collnet, channels[2].p2p), (Some(24), 32));
    }
}
