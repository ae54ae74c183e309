//! The closing sentence of a run: the transports that NCCL set up.
//! Not bytes: only counters show whether bytes went there.

use std::collections::{BTreeMap, BTreeSet};

use super::connection::{Connections, Ends};
use super::facts::NcclFacts;
use super::transport::Transport;

/// The transports in one sentence, over the logs of all processes, such as `transports set up: 12
/// connections P2P/CUMEM, 4 NET/Socket/0`. A connection between two ranks on one channel counts
/// once. Where torn messages may hide more of them, or there were too many to keep, it says "at
/// least". NCCL prints a connection before it connects: where no message says that a structure or a
/// communicator was completed, the transports were only chosen.
pub fn transports_set_up(facts: &[NcclFacts]) -> String {
    let mut kinds: BTreeMap<(u8, String), Kind> = BTreeMap::new();
    for ends in &over_all(facts) {
        let (order, name, device) = kind(&ends.transport);
        let kind = kinds.entry((order, name)).or_default();
        kind.connections += ends.connections;
        kind.ends += ends.send + ends.receive;
        kind.devices.extend(device);
        match ends.transport {
            Transport::Net { gdrdma, pxn, .. } => {
                kind.gdrdma += u64::from(gdrdma) * (ends.send + ends.receive);
                kind.pxn += u64::from(pxn.is_some()) * ends.connections;
            }
            Transport::CollNet { gdrdma: true, .. } => kind.gdrdma += ends.send + ends.receive,
            _ => {}
        }
    }
    let mut parts: Vec<String> = Vec::new();
    for ((_, name), kind) in kinds {
        let noun = match (parts.is_empty(), kind.connections) {
            (true, 1) => " connection",
            (true, _) => " connections",
            (false, _) => "",
        };
        parts.push(format!("{}{noun} {}", kind.connections, kind.told(&name)));
    }
    let buffers: u64 = facts.iter().filter_map(|one| one.nvls).map(|nvls| nvls.buffers).sum();
    if buffers > 0 {
        let ranks = if buffers == 1 { "rank" } else { "ranks" };
        parts.push(format!("NVLS buffers on {buffers} {ranks}"));
    }
    if parts.is_empty() {
        return "transports set up: NCCL's output names none".to_owned();
    }
    let whole = facts.iter().any(|one| {
        let mut ranks = one.communicators.iter().flat_map(|communicator| &communicator.ranks);
        !one.connected.is_empty() || ranks.any(|rank| rank.initialized)
    });
    let what = if whole { "set up" } else { "chosen, without a message of their completion" };
    let hidden = facts.iter().any(|one| one.messages.torn + one.left_out > 0);
    let bound = if hidden { "at least " } else { "" };
    format!("transports {what}: {bound}{}", parts.join(", "))
}

/// The transports over all logs. Pairs of several logs are combined: a connection's ends may be in
/// different ones.
fn over_all(facts: &[NcclFacts]) -> Vec<Ends> {
    if let [one] = facts {
        return one.transports.clone();
    }
    let mut connections = Connections::default();
    facts.iter().for_each(|one| connections.add_pairs(&one.pairs));
    connections.finish(&mut 0).0
}

#[derive(Default)]
struct Kind {
    connections: u64,
    ends: u64,
    gdrdma: u64,
    pxn: u64,
    devices: BTreeSet<u32>,
}

/// The key by which connections are combined: sort order, name, device.
fn kind(transport: &Transport) -> (u8, String, Option<u32>) {
    match transport {
        Transport::P2p { mapping, read, copy_engine, .. } => {
            let (mapping, read, copy_engine) = (*mapping, *read, *copy_engine);
            let any = Transport::P2p { mapping, read, copy_engine, through: None };
            (0, any.to_string(), None)
        }
        Transport::Shm { .. } => (1, transport.to_string(), None),
        Transport::Net { plugin, device, .. } => (2, format!("NET/{plugin}"), Some(*device)),
        Transport::CollNet { plugin, device, .. } => {
            (3, format!("COLLNET/{plugin}"), Some(*device))
        }
    }
}

impl Kind {
    fn told(&self, name: &str) -> String {
        if self.devices.is_empty() {
            return name.to_owned();
        }
        let devices: Vec<u32> = self.devices.iter().copied().collect();
        let mut told = format!("{name}/{}", ranges(&devices));
        // Each end of a connection has its own NIC, and its own answer.
        match self.gdrdma {
            0 => {}
            all if all == self.ends => told.push_str("/GDRDMA"),
            some => told.push_str(&format!(" (GDRDMA at {some} of {} ends)", self.ends)),
        }
        if self.pxn > 0 {
            told.push_str(&format!(" ({} of them by PXN)", self.pxn));
        }
        told
    }
}

/// `0-3,6` of rising numbers.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let told = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        one => one.iter().map(u32::to_string).collect(),
    });
    told.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use crate::nccl::{parse, transports_set_up};

    fn sentence(texts: &[&str]) -> String {
        let texts = texts.iter().chain(&["Connected all rings"]);
        let log: String = texts.map(|t| format!("vm:1:1 [0] NCCL INFO {t}\n")).collect();
        transports_set_up(&[parse(&log)])
    }

    #[test]
    fn ends_in_several_logs_are_one_connection() {
        let facts = ["send", "receive"].map(|end| {
            let line = format!("Channel 00/0 : 0[0] -> 1[1] [{end}] via NET/IB/0");
            parse(&format!("vm:1:1 [0] NCCL INFO {line}\nvm:1:1 [0] NCCL INFO Connected all rings"))
        });
        assert_eq!(transports_set_up(&facts), "transports set up: 1 connection NET/IB/0");
    }

    #[test]
    fn a_connection_counts_once() {
        let told = sentence(&[
            "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
            "Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM",
            "Channel 00/0 : 1[1] -> 2[2] [send] via NET/Socket/0",
            "Channel 00/0 : 1[1] -> 2[2] [receive] via NET/Socket/0",
        ]);
        assert_eq!(told, "transports set up: 2 connections P2P/CUMEM, 1 NET/Socket/0");
        let told = sentence(&["Channel 00 : 0[0] -> 1[1] via SHM/direct/direct"]);
        assert_eq!(told, "transports set up: 1 connection SHM/direct");
    }

    #[test]
    fn without_a_word_of_completion_they_were_only_chosen() {
        let line = "vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0";
        let expected =
            "transports chosen, without a message of their completion: 1 connection NET/IB/0";
        assert_eq!(transports_set_up(&[parse(line)]), expected);
    }

    #[test]
    fn it_never_claims_more_than_both_ends_say() {
        let told = sentence(&[
            "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA",
            "Channel 00/0 : 0[0] -> 8[0] [receive] via NET/IB/3",
            "Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/1(2)/GDRDMA",
            "Channel 01/0 : 0[0] -> 8[0] [receive] via NET/IB/4/GDRDMA",
            "CollNet 00/0 : 0 [receive] via COLLNET/SHARP/1/GDRDMA",
            "NVLS comm 0x55 headRank 0 nHeads 8 buffSize 4194304",
        ]);
        let expected = "transports set up: 2 connections NET/IB/0-1,3-4 (GDRDMA at 3 of 4 ends) \
                        (1 of them by PXN), 1 COLLNET/SHARP/1/GDRDMA, NVLS buffers on 1 rank";
        assert_eq!(told, expected);
        assert_eq!(sentence(&["Using network IB"]), "transports set up: NCCL's output names none");
        let torn = sentence(&[
            "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
            "Channel 00/0 : 0[0] -> vm:1:1 [0] NCCL INFO Connected all rings",
        ]);
        assert_eq!(torn, "transports set up: at least 1 connection P2P/IPC");
    }
}
