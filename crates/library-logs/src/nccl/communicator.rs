//! `comm 0x… rank …`: every communicator, its ranks, and how it spans nodes.
//! Not its channels: those lines do not name it.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::message::Origin;
use super::tally::keep;

/// The most communicators that are kept.
const MAX_COMMUNICATORS: usize = 1024;
/// The most ranks of all communicators together that are kept.
const MAX_RANKS: usize = 16_384;

/// A communicator.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Communicator {
    /// NCCL's commId, hexadecimal. Before 2.18, and in parts of a log, it is missing: such a
    /// communicator appears once for every rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The call that created it, such as `ncclCommSplit`; from 2.21 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
    /// Its size.
    pub nranks: u32,
    /// Nodes that it spans, as NCCL counts them; from 2.20 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Whether NVLink spans its nodes; from 2.20 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mnnvl: Option<bool>,
    /// The ranks whose output was read, in order.
    pub ranks: Vec<CommunicatorRank>,
}

/// A rank of a communicator.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CommunicatorRank {
    /// The rank.
    pub rank: u32,
    /// Host, as NCCL prints it.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// CUDA device in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_dev: Option<u32>,
    /// Device in NVML's order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml_dev: Option<u32>,
    /// PCI bus number, hexadecimal, as NCCL prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_id: Option<String>,
    /// Its number among the ranks of its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_rank: Option<u32>,
    /// Ranks on its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_ranks: Option<u32>,
    /// The log has its `Init COMPLETE`.
    pub initialized: bool,
}

/// The communicators read so far.
#[derive(Debug, Default)]
pub(super) struct Communicators {
    all: Vec<Communicating>,
    by_id: HashMap<String, usize>,
    /// By host, process and address: an address means nothing elsewhere.
    by_address: HashMap<(String, u32, String), usize>,
    /// The rank that a device was last given.
    devices: HashMap<(String, u32, u32), u32>,
    ranks: usize,
    left_out: u64,
}

#[derive(Debug, Default)]
struct Communicating {
    id: Option<String>,
    made_by: Option<String>,
    nranks: u32,
    nodes: Option<u32>,
    mnnvl: Option<bool>,
    ranks: BTreeMap<u32, CommunicatorRank>,
}

/// The content of one line.
#[derive(Default)]
struct Statement<'a> {
    made_by: Option<&'a str>,
    address: &'a str,
    id: Option<&'a str>,
    nranks: u32,
    nodes: Option<u32>,
    mnnvl: Option<bool>,
    rank: u32,
    cuda_dev: Option<u32>,
    nvml_dev: Option<u32>,
    bus_id: Option<&'a str>,
    local_rank: Option<u32>,
    local_ranks: Option<u32>,
    initialized: bool,
}

impl Communicators {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(&mut self, origin: Origin<'_>, cursor: Cursor<'_>) -> Option<()> {
        let said = statement(cursor)?;
        self.add(origin, &said);
        Some(())
    }

    /// The rank of a process's device in the newest communicator.
    pub(super) fn rank_of(&self, origin: Origin<'_>) -> Option<u32> {
        self.devices.get(&(origin.host.to_owned(), origin.pid, origin.device?)).copied()
    }

    fn add(&mut self, origin: Origin<'_>, said: &Statement<'_>) {
        let address = (keep(origin.host), origin.pid, keep(said.address));
        let known = match said.id {
            Some(id) => self.by_id.get(id),
            None => self.by_address.get(&address),
        };
        let known = known.copied().filter(|&at| self.all[at].nranks == said.nranks);
        let new_rank = known.is_none_or(|at| !self.all[at].ranks.contains_key(&said.rank));
        if (new_rank && self.ranks >= MAX_RANKS)
            || (known.is_none() && self.all.len() >= MAX_COMMUNICATORS)
        {
            self.left_out += 1;
            return;
        }
        self.ranks += usize::from(new_rank);
        let at = known.unwrap_or_else(|| {
            self.all.push(Communicating { nranks: said.nranks, ..Communicating::default() });
            self.all.len() - 1
        });
        if let Some(id) = said.id {
            self.by_id.insert(keep(id), at);
        }
        if new_rank && let Some(device) = said.cuda_dev {
            self.devices.insert((address.0.clone(), origin.pid, device), said.rank);
        }
        let host = address.0.clone();
        if self.by_address.len() < MAX_RANKS || self.by_address.contains_key(&address) {
            self.by_address.insert(address, at);
        }
        self.all[at].learn(origin, host, said);
    }

    /// In the order of their first mention.
    pub(super) fn finish(self, left_out: &mut u64) -> Vec<Communicator> {
        *left_out += self.left_out;
        self.all
            .into_iter()
            .map(|c| Communicator {
                id: c.id,
                made_by: c.made_by,
                nranks: c.nranks,
                nodes: c.nodes,
                mnnvl: c.mnnvl,
                ranks: c.ranks.into_values().collect(),
            })
            .collect()
    }
}

impl Communicating {
    fn learn(&mut self, origin: Origin<'_>, host: String, said: &Statement<'_>) {
        self.id = said.id.map(keep).or(self.id.take());
        self.made_by = said.made_by.map(keep).or(self.made_by.take());
        self.nodes = said.nodes.or(self.nodes);
        self.mnnvl = said.mnnvl.or(self.mnnvl);
        let rank = self.ranks.entry(said.rank).or_insert_with(|| CommunicatorRank {
            rank: said.rank,
            host,
            pid: origin.pid,
            ..CommunicatorRank::default()
        });
        rank.cuda_dev = said.cuda_dev.or(rank.cuda_dev);
        rank.nvml_dev = said.nvml_dev.or(rank.nvml_dev);
        rank.bus_id = said.bus_id.map(keep).or(rank.bus_id.take());
        rank.local_rank = said.local_rank.or(rank.local_rank);
        rank.local_ranks = said.local_ranks.or(rank.local_ranks);
        rank.initialized |= said.initialized;
    }
}

fn statement(cursor: Cursor<'_>) -> Option<Statement<'_>> {
    let mut cursor = cursor;
    // 2.29 on.
    if cursor.has("[Rank ") {
        cursor.until("] ")?;
    }
    let mut made_by = None;
    if !cursor.has("comm ") {
        let call = cursor.word().filter(|word| word.starts_with("ncclComm"))?;
        made_by = Some(call);
        cursor.literal(" comm ")?;
    }
    let address = cursor.hex()?;
    let rank = cursor.field(" rank ")?;
    let said = Statement { made_by, address, rank, ..Statement::default() };
    if cursor.has(" nranks ") { life(cursor, said) } else { span(cursor, said) }
}

/// What a line of a communicator's life says of one rank.
pub(super) struct Named<'a> {
    pub address: &'a str,
    pub rank: u32,
    pub id: Option<&'a str>,
    pub cuda_dev: Option<u32>,
}

/// Reads such a line.
pub(super) fn named(cursor: Cursor<'_>) -> Option<Named<'_>> {
    let Statement { address, rank, id, cuda_dev, .. } = statement(cursor)?;
    Some(Named { address, rank, id, cuda_dev })
}

/// What a communicator's line may end with. `Finalize` and `START` of other ends are of 2.31 on.
const EVENTS: [&str; 10] = [
    "Init START",
    "Init COMPLETE",
    "Destroy START",
    "Destroy COMPLETE",
    "Abort START",
    "Abort COMPLETE",
    "Finalize START",
    "Finalize COMPLETE",
    "Revoke START",
    "Revoke COMPLETE",
];

/// `… nranks 8 cudaDev 0 nvmlDev 0 busId 60 commId 0x… - Init START`: beginning and end of a life.
fn life<'a>(mut cursor: Cursor<'a>, mut said: Statement<'a>) -> Option<Statement<'a>> {
    said.nranks = cursor.number()?;
    let mut dash = false;
    while cursor.has(" ") {
        if dash || cursor.has("- ") {
            said.initialized = cursor.one_of(&EVENTS)? == "Init COMPLETE";
            cursor.end()?;
            return Some(said);
        }
        // Releases add fields, and so does RCCL: unknown ones are skipped.
        match cursor.word()? {
            "cudaDev" => said.cuda_dev = Some(cursor.field(" ")?),
            "nvmlDev" => said.nvml_dev = Some(cursor.field(" ")?),
            "busId" => {
                cursor.literal(" ")?;
                said.bus_id = Some(cursor.word()?);
            }
            "commId" => {
                cursor.literal(" ")?;
                said.id = Some(cursor.word()?);
            }
            // `key 1- Init START` until 2.30.
            word => dash = word.ends_with('-'),
        }
    }
    None
}

/// `… nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0`: how it spans nodes.
fn span<'a>(mut cursor: Cursor<'a>, mut said: Statement<'a>) -> Option<Statement<'a>> {
    let mut ending = cursor;
    said.nranks = cursor.field(" nRanks ")?;
    if cursor.has(" cudaDev ") {
        // `… nRanks 8 cudaDev 0 busId 60 commId 0x… - Finalize START`.
        ending.literal(" nRanks ")?;
        return life(ending, said);
    }
    said.nodes = Some(cursor.field(" nNodes ")?);
    said.local_ranks = Some(cursor.field(" localRanks ")?);
    said.local_rank = Some(cursor.field(" localRank ")?);
    cursor.literal(" MNNVL ")?;
    said.mnnvl = Some(cursor.one_of(&["0", "1"])? == "1");
    cursor.end()?;
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(pid: u32) -> Origin<'static> {
        Origin { host: "vm", pid, device: Some(0) }
    }

    fn read(all: &mut Communicators, pid: u32, text: &str) -> Option<()> {
        all.read(origin(pid), Cursor::new(text, false))
    }

    #[test]
    fn a_life_in_every_generation() {
        for (text, made_by, id) in [
            (
                "comm 0x9497920 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 3000 commId 0x245d - Init COMPLETE",
                None,
                Some("0x245d"),
            ),
            (
                "ncclCommInitRank comm 0x52 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 3000 commId 0x245d - Init COMPLETE",
                Some("ncclCommInitRank"),
                Some("0x245d"),
            ),
            (
                "[Rank 1] ncclCommSplit comm 0x52 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 3000 parent 0x51 childCount 2 color -5 key 1 commId 0x245d - Init COMPLETE",
                Some("ncclCommSplit"),
                Some("0x245d"),
            ),
            (
                "ncclCommInitRank comm 0x52 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 3000 commId 0x245d localSize 64 used 5 bytes on core 3 - Init COMPLETE",
                Some("ncclCommInitRank"),
                Some("0x245d"),
            ),
            ("comm 0x7f rank 1 nranks 2 cudaDev 1 busId 3000 - Init COMPLETE", None, None),
            (
                "ncclCommSplit comm 0x52 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 3000 commId 0x245d parent 0x51 childCount 1 color -5 key 1 - Init COMPLETE",
                Some("ncclCommSplit"),
                Some("0x245d"),
            ),
        ] {
            let mut all = Communicators::default();
            assert!(read(&mut all, 1, text).is_some(), "{text}");
            let one = &all.finish(&mut 0)[0];
            assert_eq!((one.made_by.as_deref(), one.id.as_deref()), (made_by, id), "{text}");
            assert_eq!((one.nranks, one.ranks.len()), (2, 1), "{text}");
            let rank = &one.ranks[0];
            assert_eq!(
                (rank.rank, rank.cuda_dev, rank.bus_id.as_deref()),
                (1, Some(1), Some("3000"))
            );
            assert!(rank.initialized, "{text}");
        }
    }

    #[test]
    fn ranks_come_together_by_id_and_spans_by_address() {
        let mut all = Communicators::default();
        for (pid, rank) in [(1, 0), (2, 1)] {
            // The same address in two processes is not the same communicator's.
            let start =
                format!("comm 0x5 rank {rank} nranks 2 cudaDev 0 busId a commId 0xfe - Init START");
            let span =
                format!("comm 0x5 rank {rank} nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0");
            assert!(read(&mut all, pid, &start).is_some());
            assert!(read(&mut all, pid, &span).is_some());
        }
        assert_eq!(all.rank_of(origin(2)), Some(1));
        assert_eq!(all.rank_of(origin(3)), None);
        // The address is given again to another communicator.
        let again = "comm 0x5 rank 0 nranks 1 cudaDev 0 busId a commId 0xff - Init START";
        assert!(read(&mut all, 1, again).is_some());
        let all = all.finish(&mut 0);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].nodes, all[0].mnnvl, all[0].ranks.len()), (Some(2), Some(false), 2));
        assert!(!all[0].ranks[0].initialized);
        assert_eq!((all[1].nodes, all[1].nranks), (None, 1));
    }

    #[test]
    fn the_end_of_a_life() {
        for text in [
            "comm 0x52 rank 1 nRanks 2 cudaDev 1 busId 3000 commId 0x245d - Finalize START",
            "comm 0x52 rank 1 nRanks 2 cudaDev 1 busId 3000 commId 0x245d - Revoke COMPLETE, result 0",
            "comm 0x52 rank 1 nRanks 2 cudaDev 1 busId 3000 - Abort START",
            "comm 0x52 rank 1 nranks 2 cudaDev 1 busId 3000 commId 0x245d - Finalize COMPLETE",
            "ncclCommSplit comm 0x52 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 3000 parent 0x51 childCount 1 color -5 key 1- Init START",
        ] {
            let mut all = Communicators::default();
            assert!(read(&mut all, 1, text).is_some(), "{text}");
            let one = &all.finish(&mut 0)[0];
            assert_eq!((one.nranks, one.ranks[0].initialized), (2, false), "{text}");
            assert_eq!(one.ranks[0].bus_id.as_deref(), Some("3000"), "{text}");
        }
    }

    #[test]
    fn unfinished_lines_are_not_read() {
        let mut all = Communicators::default();
        for text in [
            "comm 0x5 rank 0 nranks 2",
            "comm 0x5 rank 0 nranks 2 cudaDev x - Init START",
            "comm 0x5 rank 0 nranks 2 - Lunch",
            "comm 0x5 rank 0 nRanks 2 nNodes 2",
            "comm",
            "register comm 0x5 buffer 0x1 size 8",
        ] {
            assert_eq!(read(&mut all, 1, text), None, "{text}");
        }
        assert!(all.finish(&mut 0).is_empty());
    }
}
