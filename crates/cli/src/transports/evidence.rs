//! Which transport ran: what NCCL's log names between which ranks, and what devices counted, judged against
//! what was asked for. Two witnesses; each says only what it saw.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    nccl_log::{Mapping, NcclFacts, Transport as Via},
    plan::BackendChoice,
    record::Folded,
};
use serde::{Deserialize, Serialize};

use super::{
    moved::Moved,
    profile::{Profile, Scope, Way},
};
use crate::render::bytes;

/// From here on a device carried the data: reduction in switches halves what a ring would move, and nothing
/// does with less.
const CARRIED: f64 = 0.5;
/// Below this it did not: what ranks tell each other is less.
const IDLE: f64 = 0.05;

/// What was asked for, and what is known of what ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transport {
    /// What was asked for.
    pub asked: String,
    /// Between which ranks.
    pub scope: Scope,
    /// What ran, in NCCL's words; empty where nothing did.
    pub found: String,
    /// The judgement.
    pub verdict: Verdict,
    /// What NCCL's log says.
    pub log: Witness,
    /// What counters say.
    pub counters: Witness,
    /// The rule by which NCCL chose another, or why nothing is proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Bytes, where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
    /// Percent of the limit at the largest size, or why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Percent>,
}

/// Percent of a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Percent {
    /// So much of it.
    Known(f64),
    /// Why it is not known.
    Unknown(String),
}

/// One witness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// Whether it speaks for what was asked for, against it, or neither.
    pub says: Says,
    /// Its words.
    pub words: String,
}

/// For or against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Says {
    /// It was this.
    Yes,
    /// In part.
    Partly,
    /// It was not.
    No,
    /// It cannot tell.
    Silent,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It ran, and a witness says so.
    Proven,
    /// Some ranks used it, others another.
    Mixed,
    /// NCCL took another.
    Replaced,
    /// The witnesses contradict each other.
    Doubted,
    /// Nobody says anything.
    Unproven,
}

impl Verdict {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Proven => "proven",
            Verdict::Mixed => "mixed",
            Verdict::Replaced => "REPLACED",
            Verdict::Doubted => "DOUBTED",
            Verdict::Unproven => "unproven",
        }
    }
}

impl Transport {
    /// Judges an environment's launches.
    pub fn judge(profile: &Profile, records: &[&Folded], nodes: usize) -> Transport {
        let moved = Moved::of(records, profile.scope, nodes);
        let (found, log) = match &profile.way {
            Way::Host => own_memory(records),
            _ => heard(profile, records, nodes),
        };
        let counters = moved.as_ref().map_or_else(
            || silent("no counters"),
            |moved| counted(&profile.way, profile.scope, moved),
        );
        let verdict = match (log.says, counters.says) {
            (Says::Yes, Says::No) => Verdict::Doubted,
            (Says::Yes, _) | (Says::Silent, Says::Yes) => Verdict::Proven,
            (Says::Partly, _) => Verdict::Mixed,
            (Says::No, Says::Yes) => Verdict::Doubted,
            (Says::No, _) | (Says::Silent, Says::No) => Verdict::Replaced,
            (Says::Silent, _) => Verdict::Unproven,
        };
        let why = match verdict {
            Verdict::Replaced | Verdict::Mixed => rule(&profile.way, &found),
            Verdict::Unproven => Some(format!("{}; {}", log.words, counters.words)),
            Verdict::Doubted => Some(format!("NCCL's log: {}; {}", log.words, counters.words)),
            Verdict::Proven => None,
        };
        let (asked, scope) = (profile.name().to_owned(), profile.scope);
        Transport { asked, scope, found, verdict, log, counters, why, moved, limit: None }
    }

    /// Who proved it: `log`, `counters`, both.
    pub fn by(&self) -> String {
        let log = (self.log.says == Says::Yes).then_some(match self.asked.as_str() {
            "shm" if self.found == OWN => "busbw itself",
            _ => "log",
        });
        let counters = (self.counters.says == Says::Yes).then(|| self.counters.words.clone());
        let named = [log.map(str::to_owned), counters];
        let named: Vec<String> = named.into_iter().flatten().collect();
        if named.is_empty() { "-".to_owned() } else { named.join(" + ") }
    }
}

fn silent(words: &str) -> Witness {
    Witness { says: Says::Silent, words: words.to_owned() }
}

/// What the host backend uses.
const OWN: &str = "shared memory";

/// The host backend is this program: it knows what it does.
fn own_memory(records: &[&Folded]) -> (String, Witness) {
    let host = |record: &&&Folded| record.run.plan.backend == BackendChoice::Host;
    if records.iter().filter(host).count() == records.len() && !records.is_empty() {
        let words = "the host backend has nothing else".to_owned();
        return (OWN.to_owned(), Witness { says: Says::Yes, words });
    }
    (String::new(), silent("a cost model: nothing moves"))
}

/// What NCCL's log says of the ranks in question.
fn heard(profile: &Profile, records: &[&Folded], nodes: usize) -> (String, Witness) {
    let facts: Vec<&NcclFacts> = records.iter().flat_map(|record| &record.library).collect();
    let Some(ranks) = records.iter().map(|record| record.run.devices.len()).max() else {
        return (String::new(), silent("nothing ran"));
    };
    if facts.is_empty() {
        return (String::new(), silent("NCCL's log is not in the record"));
    }
    if let Way::Nvls | Way::CollNet = profile.way {
        return algorithms(&profile.way, records, &facts);
    }
    let node = |rank: u32| rank as usize * nodes.max(1) / ranks.max(1);
    let in_scope = |from: u32, to: u32| match profile.scope {
        Scope::All => true,
        Scope::Within => node(from) == node(to),
        Scope::Between => node(from) != node(to),
    };
    // A connection's two ends may be told in two logs: what counts is which ways a pair has.
    let mut pairs: BTreeMap<(u32, u32), BTreeSet<&Via>> = BTreeMap::new();
    for pair in facts.iter().flat_map(|facts| &facts.pairs) {
        let Some(to) = pair.to.filter(|to| in_scope(pair.from, *to)) else { continue };
        pairs
            .entry((pair.from, to))
            .or_default()
            .extend(pair.transports.iter().map(|e| &e.transport));
    }
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for name in pairs.values().flatten().map(|via| name(via)).collect::<Vec<_>>() {
        *names.entry(name).or_default() += 1;
    }
    let devices = devices(&facts);
    let mut named: Vec<String> = names.keys().cloned().collect();
    for name in &mut named {
        if let Some(list) = devices.get(name.as_str()) {
            name.push_str(&format!(" ({})", list.join(", ")));
        }
    }
    let found = named.join(", ");
    if pairs.is_empty() {
        return (found, silent("NCCL's log names no connection between these ranks"));
    }
    let fits = |via: &Via| is(&profile.way, via, &devices);
    let all = pairs.values().flatten().count();
    let fitting = pairs.values().flatten().filter(|via| fits(via)).count();
    // In-switch reduction beside the connections would carry the data instead.
    let switched = algorithm_names(records).iter().any(|name| name.starts_with("NVLS"));
    let says = match fitting {
        _ if matches!(profile.way, Way::Default) => Says::Yes,
        0 => Says::No,
        some if some < all || switched => Says::Partly,
        _ => Says::Yes,
    };
    let words = format!("{found} between {} pairs of ranks", pairs.len());
    (found, Witness { says, words })
}

/// NVLS and SHARP are algorithms: rows name them.
fn algorithms(way: &Way, records: &[&Folded], facts: &[&NcclFacts]) -> (String, Witness) {
    let start = if *way == Way::Nvls { "NVLS" } else { "COLLNET" };
    let names = algorithm_names(records);
    let found = names.iter().cloned().collect::<Vec<_>>().join(", ");
    let fitting = names.iter().filter(|name| name.starts_with(start)).count();
    let set_up = match way {
        Way::Nvls => facts.iter().any(|facts| facts.nvls.is_some_and(|nvls| nvls.buffers > 0)),
        _ => facts
            .iter()
            .flat_map(|f| &f.transports)
            .any(|e| matches!(e.transport, Via::CollNet { .. })),
    };
    let says = match fitting {
        _ if names.is_empty() => Says::Silent,
        0 => Says::No,
        some if some < names.len() => Says::Partly,
        // The buffers' line and the choice belong together; the choice is the stronger one.
        _ => Says::Yes,
    };
    let buffers = if set_up { "set up" } else { "no word of buffers" };
    (found.clone(), Witness { says, words: format!("algorithms {found}; {buffers}") })
}

/// First words of rows' algorithms, such as RING.
fn algorithm_names(records: &[&Folded]) -> BTreeSet<String> {
    let rows = records.iter().flat_map(|record| &record.rows);
    let named = rows.filter_map(|row| row.out_of_place.as_ref()?.algorithm.as_deref());
    named.filter_map(|name| Some(name.split_whitespace().next()?.to_ascii_uppercase())).collect()
}

/// Device names by network, as `NET/Socket`.
fn devices(facts: &[&NcclFacts]) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for device in facts.iter().flat_map(|facts| &facts.net_devices) {
        let network = format!("NET/{}", device.what.network);
        all.entry(network).or_default().insert(device.what.name.clone());
    }
    all.into_iter().map(|(network, names)| (network, names.into_iter().collect())).collect()
}

/// A way's name without what differs from channel to channel.
fn name(via: &Via) -> String {
    match via {
        Via::P2p { .. } | Via::Shm { .. } => via.to_string(),
        Via::Net { plugin, gdrdma, .. } => {
            format!("NET/{plugin}{}", if *gdrdma { "/GDRDMA" } else { "" })
        }
        Via::CollNet { plugin, .. } => format!("COLLNET/{plugin}"),
    }
}

/// Whether NCCL's way is the one that was asked for. Of sockets and verbs the devices must be the one that
/// was named, where NCCL says which it uses.
fn is(way: &Way, via: &Via, devices: &BTreeMap<String, Vec<String>>) -> bool {
    let only = |network: &str, device: &str| {
        devices.get(network).is_none_or(|names| names.iter().all(|name| name == device))
    };
    match (way, via) {
        (Way::Mnnvl, Via::P2p { mapping, .. }) => *mapping == Mapping::Mnnvl,
        (Way::P2p, Via::P2p { .. }) | (Way::Shm, Via::Shm { .. }) => true,
        (Way::Socket(device), Via::Net { plugin, .. }) => {
            plugin == "Socket" && only("NET/Socket", device)
        }
        (Way::Rdma(device), Via::Net { plugin, .. }) => plugin == "IB" && only("NET/IB", device),
        (Way::Plugin(_), Via::Net { plugin, .. }) => plugin != "IB" && plugin != "Socket",
        _ => false,
    }
}

/// What devices counted, for or against a way. Of ranks within nodes the network says nothing: it carries
/// what goes between these.
fn counted(way: &Way, scope: Scope, moved: &Moved) -> Witness {
    let busiest = moved.busiest().filter(|_| scope != Scope::Within);
    let of = |name: &str, bytes_moved: u64| {
        format!("{name} {} of {}", bytes(bytes_moved), bytes(moved.required as u64))
    };
    let judged = |name: &str, amount: u64| {
        let part = moved.part(amount);
        let says = if part >= CARRIED {
            Says::Yes
        } else if part < IDLE {
            Says::No
        } else {
            Says::Silent
        };
        Witness { says, words: of(name, amount) }
    };
    match (way, moved.nvlink) {
        (Way::P2p | Way::Nvls | Way::Mnnvl, Some(nvlink)) => {
            let witness = judged("NVLink", nvlink);
            if witness.says == Says::No {
                // Peers reach each other over PCIe as well, which nobody counts.
                let network = busiest.is_some_and(|(_, amount)| moved.part(amount) >= CARRIED);
                let says = if network { Says::No } else { Says::Silent };
                return Witness { says, words: witness.words };
            }
            witness
        }
        (Way::P2p | Way::Nvls | Way::Mnnvl, None) => silent("NVLink was not read"),
        (Way::Shm, nvlink) => {
            let most = busiest.map_or(0, |(_, amount)| amount).max(nvlink.unwrap_or(0));
            let network_read = moved.interfaces_read || scope == Scope::Within;
            match moved.part(most) {
                part if part >= CARRIED => {
                    let (name, amount) = match busiest {
                        Some((name, amount)) if amount == most => (name, amount),
                        _ => ("NVLink", most),
                    };
                    Witness { says: Says::No, words: of(name, amount) }
                }
                part if part < IDLE && nvlink.is_some() && network_read => {
                    let nobody = match scope {
                        Scope::Within => "NVLink did not move",
                        _ => "no device moved",
                    };
                    let words = format!("{nobody} {}", bytes(moved.required as u64));
                    Witness { says: Says::Yes, words }
                }
                _ => silent("no device counts host memory, and not all were read"),
            }
        }
        (Way::Socket(device), _) if moved.interfaces_read => {
            // Between addresses of one host the kernel takes lo.
            let names = [device.as_str(), "lo"];
            let best = names.iter().filter_map(|name| Some((*name, *moved.network.get(*name)?)));
            let best = best.max_by_key(|(_, amount)| *amount);
            best.map_or_else(|| judged(device, 0), |(name, amount)| judged(name, amount))
        }
        (Way::Rdma(device), _) if moved.rdma_read => {
            let ports =
                moved.network.iter().filter(|(name, _)| name.split('/').next() == Some(device));
            let witness = judged(device, ports.map(|(_, amount)| amount).sum());
            // Within one adapter bytes need not pass its port.
            let says = if witness.says == Says::No { Says::Silent } else { witness.says };
            Witness { says, ..witness }
        }
        _ => silent("nothing that counts this was read"),
    }
}

/// By which rule NCCL took another way.
fn rule(way: &Way, found: &str) -> Option<String> {
    let has = |word: &str| found.contains(word);
    let text = match way {
        Way::Socket(_) if has("NET/IB") => {
            "IB or RoCE wins over sockets, whatever NCCL_SOCKET_IFNAME says: it names the interface of sockets, and does not choose them"
        }
        Way::Socket(_) if has("NET/Socket") => {
            "without IB the fastest interface wins, unless exactly one is named"
        }
        Way::Socket(_) | Way::Rdma(_) if has("NET/") => {
            "a net plugin wins over NCCL's own networks, unless NCCL_NET names one of these"
        }
        Way::Plugin(_) if has("NET/") => {
            "a plugin that does not load, or finds no device, is passed over: then IB or RoCE, then sockets"
        }
        Way::Socket(_) | Way::Rdma(_) | Way::Plugin(_) => {
            "within a node P2P wins over SHM, and SHM over the network"
        }
        Way::Shm if has("P2P") => "within a node P2P wins over SHM",
        Way::P2p | Way::Shm if has("SHM") || has("NET/") => {
            "what a pair of ranks cannot have is passed over: P2P without peer access, SHM without a common /dev/shm; then the next way is taken"
        }
        Way::Nvls | Way::CollNet => {
            "what a communicator has not set up is passed over, and rings and trees stay"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use model::nccl_log::parse;

    use super::*;

    fn moved(nvlink: Option<u64>, network: &[(&str, u64)]) -> Moved {
        Moved {
            required: 1000.0,
            nvlink,
            network: network.iter().map(|(name, by)| ((*name).to_owned(), *by)).collect(),
            interfaces_read: true,
            rdma_read: true,
        }
    }

    #[test]
    fn counters_speak_for_what_they_count() {
        let socket = Way::Socket("eth0".to_owned());
        let rdma = Way::Rdma("mlx5_0".to_owned());
        for (way, counters, says) in [
            (&Way::P2p, moved(Some(980), &[("lo", 3)]), Says::Yes),
            // Half of a ring's bytes are enough where switches reduce.
            (&Way::Nvls, moved(Some(570), &[]), Says::Yes),
            (&Way::P2p, moved(None, &[]), Says::Silent),
            // Over PCIe, possibly.
            (&Way::P2p, moved(Some(0), &[("lo", 3)]), Says::Silent),
            (&Way::P2p, moved(Some(0), &[("mlx5_0/1", 1200)]), Says::No),
            (&Way::Shm, moved(Some(0), &[("lo", 3)]), Says::Yes),
            (&Way::Shm, moved(None, &[("lo", 3)]), Says::Silent),
            (&Way::Shm, moved(Some(900), &[]), Says::No),
            (&Way::Shm, moved(Some(0), &[("lo", 1001)]), Says::No),
            (&socket, moved(Some(0), &[("lo", 1010)]), Says::Yes),
            (&socket, moved(Some(0), &[("eth0", 1010), ("lo", 1)]), Says::Yes),
            (&socket, moved(Some(0), &[("lo", 10)]), Says::No),
            (&socket, moved(Some(0), &[("lo", 200)]), Says::Silent),
            (&rdma, moved(Some(0), &[("mlx5_0/1", 1010)]), Says::Yes),
            (&rdma, moved(Some(0), &[("mlx5_1/1", 1010)]), Says::Silent),
        ] {
            let witness = counted(way, Scope::All, &counters);
            assert_eq!(witness.says, says, "{way:?} {counters:?}: {}", witness.words);
        }
        // Between nodes the network is to be busy, whatever runs within them.
        let busy = moved(Some(0), &[("lo", 1001)]);
        assert_eq!(counted(&Way::Shm, Scope::Within, &busy).says, Says::Yes);
        assert_eq!(counted(&Way::P2p, Scope::Within, &busy).says, Says::Silent);
        assert_eq!(counted(&Way::Shm, Scope::Within, &moved(Some(800), &[])).says, Says::No);
    }

    /// Whether every connection that a log's lines tell of fits, and what devices are named.
    fn fits(way: &Way, lines: &[&str]) -> Vec<bool> {
        let log: String =
            lines.iter().map(|line| format!("vm:1:1 [0] NCCL INFO {line}\n")).collect();
        let facts = parse(&log);
        let devices = devices(&[&facts]);
        facts.transports.iter().map(|ends| is(way, &ends.transport, &devices)).collect()
    }

    #[test]
    fn a_way_is_known_by_its_words() {
        let p2p = "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM";
        let shm = "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct";
        let socket = "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0";
        let ib = "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA";
        let plugin = "Channel 00/0 : 0[0] -> 1[1] [send] via NET/busbw/0";
        assert_eq!(fits(&Way::P2p, &[p2p]), [true]);
        assert_eq!(fits(&Way::P2p, &[shm]), [false]);
        assert_eq!(fits(&Way::Shm, &[p2p]), [false]);
        assert_eq!(fits(&Way::Shm, &[shm]), [true]);
        assert_eq!(fits(&Way::Mnnvl, &[p2p]), [false]);
        let eno2 = Way::Socket("eno2".to_owned());
        assert_eq!(fits(&eno2, &["NET/Socket : Using [0]eno2:10.0.0.1<0>", socket]), [true]);
        assert_eq!(fits(&eno2, &["NET/Socket : Using [0]eno1:10.0.0.1<0>", socket]), [false]);
        assert_eq!(fits(&eno2, &[ib]), [false]);
        let hca = Way::Rdma("mlx5_0".to_owned());
        assert_eq!(fits(&hca, &["NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB a:1<0>", ib]), [true]);
        assert_eq!(fits(&hca, &["NET/IB : Using [0]mlx5_3:1/RoCE [RO]; OOB a:1<0>", ib]), [false]);
        let ours = Way::Plugin("libx.so".to_owned());
        assert_eq!(fits(&ours, &[plugin]), [true]);
        assert_eq!(fits(&ours, &[socket]), [false]);
    }

    #[test]
    fn rules_name_who_wins() {
        let eno2 = Way::Socket("eno2".to_owned());
        assert!(rule(&eno2, "NET/IB/GDRDMA (mlx5_0)").unwrap().starts_with("IB or RoCE wins"));
        assert!(rule(&eno2, "P2P/CUMEM").unwrap().starts_with("within a node P2P"));
        assert!(rule(&Way::P2p, "SHM/direct").unwrap().contains("peer access"));
        assert_eq!(rule(&Way::Default, "x"), None);
    }
}
