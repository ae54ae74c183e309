//! The first witness: between which ranks NCCL's log names which way, and which algorithms rows name.
//! Not whether bytes went there.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    nccl_log::{Mapping, NcclFacts, Transport as Via},
    record::Folded,
};

use super::{
    evidence::{Says, Witness},
    profile::{Profile, Scope, Way},
};

/// What NCCL's log says of the ranks in question.
pub(super) fn heard(profile: &Profile, records: &[&Folded], nodes: usize) -> (String, Witness) {
    let facts: Vec<&NcclFacts> = records.iter().flat_map(|record| &record.library).collect();
    let Some(ranks) = records.iter().map(|record| record.run.devices.len()).max() else {
        return (String::new(), Witness::silent("nothing ran"));
    };
    if facts.is_empty() {
        return (String::new(), Witness::silent("NCCL's log is not in the record"));
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
    let names: BTreeSet<String> = pairs.values().flatten().map(|via| name(via)).collect();
    let devices = devices(&facts);
    let with_devices = |name: &String| {
        let network = name.trim_end_matches("/GDRDMA");
        devices.get(network).map_or(name.clone(), |list| format!("{name} ({})", list.join(", ")))
    };
    let named: Vec<String> = names.iter().map(with_devices).collect();
    let found = named.join(", ");
    if pairs.is_empty() {
        return (found, Witness::silent("NCCL's log names no connection between these ranks"));
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

#[cfg(test)]
mod tests {
    use model::nccl_log::parse;

    use super::*;

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
}
