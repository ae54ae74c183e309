//! Evidence from NCCL's log: the transport it names between each pair of ranks, and the algorithms
//! of rows.
//! Not whether bytes went there.

use std::collections::{BTreeMap, BTreeSet};

use busbw_core::record::{Device, Folded};
use busbw_library_logs::nccl::{Mapping, NcclFacts, PluginState, Transport as Via};

use super::profile::{Profile, TransportKind};
use busbw_analysis::sweep::{EvidenceSource, Scope, Support};

/// The evidence of NCCL's log for the ranks in question, over all launches. A launch, a rank, a
/// device or an algorithm that the log does not name leaves it without data: what is absent proves
/// nothing.
pub(super) fn evidence(
    profile: &Profile,
    records: &[&Folded],
    virtual_nodes: usize,
) -> (String, EvidenceSource) {
    // A launch without a row has measured nothing.
    let measured = records.iter().filter(|record| !record.rows.is_empty());
    let launches: Vec<(BTreeSet<String>, EvidenceSource)> =
        measured.map(|record| of_launch(profile, record, virtual_nodes)).collect();
    let found: BTreeSet<&str> =
        launches.iter().flat_map(|(names, _)| names).map(String::as_str).collect();
    let found = found.into_iter().collect::<Vec<_>>().join(", ");
    let all = || launches.iter().map(|(_, source)| source);
    let any = |support| all().any(|source| source.support == support);
    let support = match (any(Support::Confirms), any(Support::Contradicts), any(Support::NoData)) {
        _ if any(Support::Partial) => Support::Partial,
        (true, true, _) => Support::Partial,
        (_, true, _) => Support::Contradicts,
        (_, _, true) => Support::NoData,
        (true, ..) => Support::Confirms,
        (false, ..) => return (found, EvidenceSource::no_data("nothing was measured")),
    };
    let spoken = all().find(|source| source.support == support).or_else(|| all().next());
    let detail = spoken.map_or_else(String::new, |source| source.detail.clone());
    (found, EvidenceSource { support, detail })
}

/// The evidence of one launch, and the names of the transports that ran.
fn of_launch(
    profile: &Profile,
    record: &Folded,
    virtual_nodes: usize,
) -> (BTreeSet<String>, EvidenceSource) {
    let facts: Vec<&NcclFacts> = record.library.iter().collect();
    if facts.is_empty() {
        return (BTreeSet::new(), EvidenceSource::no_data("NCCL's log is not in the record"));
    }
    let algorithms = Algorithms::of(record);
    if let TransportKind::Nvls | TransportKind::CollNet = profile.kind {
        return (algorithms.names.clone(), algorithms.source(&profile.kind, &facts));
    }
    let stage = Stage::of(profile.scope, &record.run.devices, virtual_nodes);
    let connections = connections(&facts, &stage, &profile.kind);
    let names: BTreeSet<String> = connections.iter().map(|one| one.name.clone()).collect();
    let silent = |why: &str| EvidenceSource::no_data(why);
    if connections.is_empty() {
        return (names, silent("NCCL's log names no connection between these ranks"));
    }
    let any = |fit| connections.iter().any(|one| one.fit == fit);
    // In-switch reduction, set up beside the connections, would carry the data instead.
    let switched = algorithms.names.iter().any(|name| name.starts_with("NVLS"));
    let buffers = facts.iter().any(|facts| facts.nvls.is_some_and(|nvls| nvls.buffers > 0));
    let list = names.iter().map(String::as_str).collect::<Vec<&str>>().join(", ");
    let pairs: BTreeSet<(u32, u32)> = connections.iter().map(|one| one.pair).collect();
    let detail = format!("{list} between {} pairs of ranks", pairs.len());
    let source = match (any(Fit::Yes), any(Fit::No), any(Fit::Untold)) {
        (false, true, false) => EvidenceSource { support: Support::Contradicts, detail },
        (_, true, _) => {
            let detail = match stage.fallen_back(&connections, &outlying(&facts)) {
                Some(ranks) => format!("{detail}; {ranks}"),
                None => detail,
            };
            EvidenceSource { support: Support::Partial, detail }
        }
        _ if switched => EvidenceSource { support: Support::Partial, detail },
        (_, _, true) => silent(&format!("{detail}; the log names no device or plugin")),
        _ if buffers && algorithms.unnamed > 0 => silent(&format!(
            "{detail}; NVLS is set up as well, and rows do not name their algorithm"
        )),
        _ => match stage.unnamed(&pairs) {
            0 => EvidenceSource { support: Support::Confirms, detail },
            some => silent(&format!(
                "{detail}; the log does not name {some} of {} ranks",
                stage.nodes.len()
            )),
        },
    };
    (names, source)
}

/// A connection between two of the ranks in question, as one end's log describes it.
struct Connection {
    pair: (u32, u32),
    /// The transport, with the network's devices of this log.
    name: String,
    fit: Fit,
}

/// Every connection in question. Each log names the devices of its own ranks, so it is judged by itself: one rank may
/// use others than the rest. A log without such lines is judged by those of all.
fn connections(facts: &[&NcclFacts], stage: &Stage, kind: &TransportKind) -> Vec<Connection> {
    let all = Networks::of(facts);
    let mut found = Vec::new();
    for log in facts {
        let own = Networks::of(&[*log]);
        let networks = if own.is_empty() { &all } else { &own };
        for pair in &log.pairs {
            let Some(to) = pair.to.filter(|to| stage.has(pair.from, *to)) else { continue };
            found.extend(pair.transports.iter().map(|ends| Connection {
                pair: (pair.from, to),
                name: networks.named(&ends.transport),
                fit: networks.fit(kind, &ends.transport),
            }));
        }
    }
    found
}

/// Ranks whose own log describes another network, or another NVLink fabric, than most logs do.
fn outlying(facts: &[&NcclFacts]) -> BTreeSet<u32> {
    let described = |log: &NcclFacts| {
        let networks = Networks::of(&[log]);
        let devices = networks.devices.iter();
        let devices: Vec<String> = devices.map(|(name, all)| format!("{name} {all:?}")).collect();
        let fabrics =
            log.fabrics.iter().map(|one| (one.what.uuid.clone(), one.what.clique.clone()));
        (devices, fabrics.collect::<BTreeSet<(String, String)>>())
    };
    let mut kinds: BTreeMap<_, Vec<&NcclFacts>> = BTreeMap::new();
    facts.iter().for_each(|log| kinds.entry(described(log)).or_default().push(log));
    let most = kinds.values().map(Vec::len).max().unwrap_or(0);
    // Without a majority nobody is the exception.
    if kinds.values().filter(|logs| logs.len() == most).count() != 1 {
        return BTreeSet::new();
    }
    let few = kinds.values().filter(|logs| logs.len() < most).flatten();
    let communicators = few.flat_map(|log| &log.communicators);
    communicators.flat_map(|one| &one.ranks).map(|one| one.rank).collect()
}

/// Whether a pair of ranks is in question.
struct Stage {
    scope: Scope,
    /// The node of each rank.
    nodes: Vec<usize>,
    /// The host of each rank.
    hosts: Vec<String>,
}

impl Stage {
    /// The nodes of `devices`, one a rank: hosts where there are several, else `virtual_nodes` equal parts.
    fn of(scope: Scope, devices: &[Device], virtual_nodes: usize) -> Stage {
        let hosts: Vec<String> = devices.iter().map(|device| device.host.clone()).collect();
        let distinct: BTreeSet<&String> = hosts.iter().collect();
        let node = |rank: usize| match distinct.len() {
            0 | 1 => rank * virtual_nodes.max(1) / hosts.len().max(1),
            _ => distinct.iter().position(|host| **host == hosts[rank]).unwrap_or(0),
        };
        Stage { scope, nodes: (0..hosts.len()).map(node).collect(), hosts }
    }

    fn has(&self, from: u32, to: u32) -> bool {
        let node = |rank: u32| self.nodes.get(rank as usize);
        let together = node(from) == node(to);
        match self.scope {
            Scope::All => true,
            Scope::Within => together,
            Scope::Between => !together,
        }
    }

    /// Ranks that no pair names; for pairs between nodes, ranks of nodes that none names.
    fn unnamed(&self, pairs: &BTreeSet<(u32, u32)>) -> usize {
        let named: BTreeSet<usize> =
            pairs.iter().flat_map(|(from, to)| [*from as usize, *to as usize]).collect();
        let nodes: BTreeSet<usize> =
            named.iter().filter_map(|rank| self.nodes.get(*rank).copied()).collect();
        let is_named = |rank: &usize| match self.scope {
            Scope::All | Scope::Within => named.contains(rank),
            Scope::Between => self.nodes.get(*rank).is_some_and(|node| nodes.contains(node)),
        };
        (0..self.nodes.len()).filter(|rank| !is_named(rank)).count()
    }

    /// The rank, or the pair, that all connections over another transport have in common, with what it used.
    /// `outlying` are the ranks whose own log describes another network than most.
    fn fallen_back(&self, connections: &[Connection], outlying: &BTreeSet<u32>) -> Option<String> {
        let misfits = || connections.iter().filter(|one| one.fit == Fit::No);
        let first = misfits().next()?.pair;
        let mut common: Vec<u32> = [first.0, first.1]
            .into_iter()
            .filter(|rank| misfits().all(|one| one.pair.0 == *rank || one.pair.1 == *rank))
            .collect();
        if common.iter().any(|rank| outlying.contains(rank)) {
            common.retain(|rank| outlying.contains(rank));
        }
        let named = |rank: u32| match self.hosts.get(rank as usize) {
            Some(host) => format!("rank {rank} on {host}"),
            None => format!("rank {rank}"),
        };
        let used: BTreeSet<&str> = misfits().map(|one| one.name.as_str()).collect();
        let used = used.into_iter().collect::<Vec<_>>().join(", ");
        match common.as_slice() {
            [rank] => Some(format!("only {} used {used}", named(*rank))),
            [one, other, ..] => {
                Some(format!("only {} and {} used {used}", named(*one), named(*other)))
            }
            [] => {
                let ranks: BTreeSet<u32> =
                    misfits().flat_map(|one| [one.pair.0, one.pair.1]).collect();
                let hosts: BTreeSet<&String> =
                    ranks.iter().filter_map(|rank| self.hosts.get(*rank as usize)).collect();
                let hosts = hosts.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                Some(format!("{} ranks on {hosts} used {used}", ranks.len()))
            }
        }
    }
}

/// The algorithms that rows name, and how many rows name none.
struct Algorithms {
    names: BTreeSet<String>,
    unnamed: usize,
}

impl Algorithms {
    /// First words of rows' algorithms, such as RING.
    fn of(record: &Folded) -> Algorithms {
        let mut all = Algorithms { names: BTreeSet::new(), unnamed: 0 };
        for half in record.rows.iter().filter_map(|row| row.out_of_place.as_ref()) {
            let first =
                half.figures.algorithm.as_deref().and_then(|name| name.split_whitespace().next());
            match first {
                Some(name) => _ = all.names.insert(name.to_ascii_uppercase()),
                None => all.unnamed += 1,
            }
        }
        all
    }

    /// NVLS and SHARP are algorithms: rows name them.
    fn source(&self, kind: &TransportKind, facts: &[&NcclFacts]) -> EvidenceSource {
        let start = if *kind == TransportKind::Nvls { "NVLS" } else { "COLLNET" };
        let fitting = self.names.iter().filter(|name| name.starts_with(start)).count();
        let set_up = match kind {
            TransportKind::Nvls => {
                facts.iter().any(|facts| facts.nvls.is_some_and(|nvls| nvls.buffers > 0))
            }
            _ => facts
                .iter()
                .flat_map(|f| &f.transports)
                .any(|e| matches!(e.transport, Via::CollNet { .. })),
        };
        let found = self.names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let support = match fitting {
            _ if self.names.is_empty() => {
                return EvidenceSource::no_data("no row names its algorithm");
            }
            0 => Support::Contradicts,
            some if some < self.names.len() => Support::Partial,
            _ if self.unnamed > 0 => {
                let detail = format!("algorithms {found}; {} rows name none", self.unnamed);
                return EvidenceSource::no_data(&detail);
            }
            // The line about buffers and the choice belong together; the choice is the stronger
            // evidence.
            _ => Support::Confirms,
        };
        let buffers = if set_up { "set up" } else { "the log has no line about buffers" };
        EvidenceSource { support, detail: format!("algorithms {found}; {buffers}") }
    }
}

/// Whether a transport in the log is the requested one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Yes,
    No,
    /// The kind is right; the log does not name the device or library.
    Untold,
}

/// NCCL's log lines about networks: their devices, and plugins that were loaded.
struct Networks<'a> {
    /// By network, as `Socket`.
    devices: BTreeMap<&'a str, BTreeSet<(&'a str, Option<u32>)>>,
    plugins: BTreeSet<&'a str>,
}

impl<'a> Networks<'a> {
    fn of(facts: &[&'a NcclFacts]) -> Networks<'a> {
        let mut all = Networks { devices: BTreeMap::new(), plugins: BTreeSet::new() };
        for device in facts.iter().flat_map(|facts| &facts.net_devices) {
            let device = &device.what;
            let network = all.devices.entry(&device.network).or_default();
            network.insert((&device.name, device.port));
        }
        let plugins = facts.iter().flat_map(|facts| &facts.plugins).map(|plugin| &plugin.what);
        let loaded = plugins.filter(|plugin| {
            plugin.kind == "net"
                && !matches!(plugin.state, PluginState::Missing | PluginState::Failed)
        });
        all.plugins = loaded.map(|plugin| plugin.name.as_str()).collect();
        all
    }

    /// Whether no line names a device or a plugin.
    fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.plugins.is_empty()
    }

    /// A transport's name without the parts that differ from channel to channel, with the network's
    /// devices.
    fn named(&self, via: &Via) -> String {
        let (name, network) = match via {
            Via::P2p { .. } | Via::Shm { .. } => return via.to_string(),
            Via::CollNet { plugin, .. } => return format!("COLLNET/{plugin}"),
            Via::Net { plugin, gdrdma, .. } => {
                (format!("NET/{plugin}{}", if *gdrdma { "/GDRDMA" } else { "" }), plugin)
            }
        };
        let devices = self.devices.get(network.as_str()).into_iter().flatten();
        let devices: BTreeSet<&str> = devices.map(|(device, _)| *device).collect();
        match devices.is_empty() {
            true => name,
            false => format!("{name} ({})", devices.into_iter().collect::<Vec<_>>().join(", ")),
        }
    }

    /// Whether NCCL's transport is the requested one: for sockets and verbs over the named device
    /// and no other, for plugins by the named one.
    fn fit(&self, kind: &TransportKind, via: &Via) -> Fit {
        let only = |network: &str, is: &dyn Fn(&str, Option<u32>) -> bool| {
            let Some(devices) = self.devices.get(network) else { return Fit::Untold };
            if devices.iter().all(|(name, port)| is(name, *port)) { Fit::Yes } else { Fit::No }
        };
        let fits = match (kind, via) {
            (TransportKind::Default, _) => true,
            (TransportKind::Mnnvl, Via::P2p { mapping, .. }) => *mapping == Mapping::Mnnvl,
            (TransportKind::P2p, Via::P2p { .. }) | (TransportKind::Shm, Via::Shm { .. }) => true,
            (TransportKind::Socket(device), Via::Net { plugin, .. }) if plugin == "Socket" => {
                return only("Socket", &|name, _| name == device);
            }
            (TransportKind::Rdma { ports, gpudirect }, Via::Net { plugin, gdrdma, .. })
                if plugin == "IB" && gpudirect.is_none_or(|wanted| wanted == *gdrdma) =>
            {
                return only("IB", &|name, of| {
                    let is = |(device, port): &(String, u32)| {
                        name == device && of.is_none_or(|of| of == *port)
                    };
                    ports.iter().any(is)
                });
            }
            (TransportKind::Plugin(file), Via::Net { plugin, .. })
                if plugin != "IB" && plugin != "Socket" =>
            {
                let loaded =
                    [plugin.as_str(), file.as_str()].map(|name| self.plugins.contains(name));
                return if loaded.contains(&true) { Fit::Yes } else { Fit::Untold };
            }
            _ => false,
        };
        if fits { Fit::Yes } else { Fit::No }
    }
}

#[cfg(test)]
mod tests {
    use busbw_library_logs::nccl::parse;

    use super::*;

    use Fit::{No, Untold, Yes};

    /// How the connections in a log fit a request.
    fn fits(kind: &TransportKind, lines: &[&str]) -> Vec<Fit> {
        let log: String =
            lines.iter().map(|line| format!("vm:1:1 [0] NCCL INFO {line}\n")).collect();
        let facts = parse(&log);
        let networks = Networks::of(&[&facts]);
        facts.transports.iter().map(|ends| networks.fit(kind, &ends.transport)).collect()
    }

    #[test]
    fn a_transport_is_known_by_its_words() {
        let p2p = "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM";
        let shm = "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct";
        let socket = "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0";
        let ib = "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA";
        let plugin = "Channel 00/0 : 0[0] -> 1[1] [send] via NET/busbw/0";
        assert_eq!(fits(&TransportKind::P2p, &[p2p]), [Yes]);
        assert_eq!(fits(&TransportKind::P2p, &[shm]), [No]);
        assert_eq!(fits(&TransportKind::Shm, &[p2p]), [No]);
        assert_eq!(fits(&TransportKind::Shm, &[shm]), [Yes]);
        assert_eq!(fits(&TransportKind::Mnnvl, &[p2p]), [No]);
        let eno2 = TransportKind::Socket("eno2".to_owned());
        assert_eq!(fits(&eno2, &["NET/Socket : Using [0]eno2:10.0.0.1<0>", socket]), [Yes]);
        assert_eq!(fits(&eno2, &["NET/Socket : Using [0]eno1:10.0.0.1<0>", socket]), [No]);
        assert_eq!(fits(&eno2, &[ib]), [No]);
        let ports = vec![("mlx5_0".to_owned(), 1)];
        let hca = TransportKind::Rdma { ports: ports.clone(), gpudirect: None };
        assert_eq!(fits(&hca, &["NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB a:1<0>", ib]), [Yes]);
        assert_eq!(fits(&hca, &["NET/IB : Using [0]mlx5_3:1/RoCE [RO]; OOB a:1<0>", ib]), [No]);
        assert_eq!(fits(&hca, &["NET/IB : Using [0]mlx5_0:2/RoCE [RO]; OOB a:1<0>", ib]), [No]);
        for (on, fit) in [(true, Yes), (false, No)] {
            let kind = TransportKind::Rdma { ports: ports.clone(), gpudirect: Some(on) };
            assert_eq!(
                fits(&kind, &["NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB a:1<0>", ib]),
                [fit]
            );
        }
        let ours = TransportKind::Plugin("libx.so".to_owned());
        assert_eq!(fits(&ours, &["NET/Plugin: Loaded net plugin busbw (v8)", plugin]), [Yes]);
        assert_eq!(fits(&ours, &[socket]), [No]);
    }

    /// A device or plugin that no line names may be another one.
    #[test]
    fn what_is_not_told_is_not_proven() {
        let socket = "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0";
        let ib = "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA";
        let plugin = "Channel 00/0 : 0[0] -> 1[1] [send] via NET/busbw/0";
        assert_eq!(fits(&TransportKind::Socket("eno2".to_owned()), &[socket]), [Untold]);
        assert_eq!(
            fits(
                &TransportKind::Rdma { ports: vec![("mlx5_0".to_owned(), 1)], gpudirect: None },
                &[ib]
            ),
            [Untold]
        );
        let ours = TransportKind::Plugin("libx.so".to_owned());
        assert_eq!(fits(&ours, &[plugin]), [Untold]);
        let other = "NET/Plugin: Loaded net plugin other (v8)";
        assert_eq!(fits(&ours, &[other, plugin]), [Untold]);
    }

    fn devices(hosts: &[&str]) -> Vec<Device> {
        let device = |(rank, host): (usize, &&str)| Device {
            rank,
            group: 0,
            pid: 1,
            host: (*host).to_owned(),
            device: 0,
            address: String::new(),
            name: String::new(),
            bound: None,
        };
        hosts.iter().enumerate().map(device).collect()
    }

    /// A ring of four with one connection in the log: nothing is known of the others.
    #[test]
    fn ranks_that_are_not_named_are_not_proven() {
        let pairs = |of: &[(u32, u32)]| of.iter().copied().collect();
        let stage = |scope, nodes| Stage::of(scope, &devices(&["a"; 4]), nodes);
        assert_eq!(stage(Scope::All, 1).unnamed(&pairs(&[(0, 1)])), 2);
        assert_eq!(stage(Scope::All, 1).unnamed(&pairs(&[(0, 1), (2, 3)])), 0);
        assert_eq!(stage(Scope::Within, 2).unnamed(&pairs(&[(0, 1)])), 2);
        assert_eq!(stage(Scope::Between, 2).unnamed(&pairs(&[(1, 2)])), 0);
        assert_eq!(stage(Scope::Between, 4).unnamed(&pairs(&[(1, 2)])), 2);
        // Real hosts, of unlike numbers of ranks.
        let three_and_one = Stage::of(Scope::Between, &devices(&["a", "a", "a", "b"]), 1);
        assert!(three_and_one.has(2, 3) && !three_and_one.has(1, 2));
    }

    /// A rank whose connections alone go another way is named, and its host; where two ranks cannot be told apart, both.
    #[test]
    fn the_rank_that_fell_back_is_named() {
        let stage = Stage::of(Scope::All, &devices(&["a", "a", "b", "b"]), 1);
        let connection = |pair, fit| Connection { pair, name: format!("{fit:?}"), fit };
        let named = |misfits: &[(u32, u32)]| {
            let ring = [(0, 1), (1, 2), (2, 3), (3, 0)];
            let fit = |pair| if misfits.contains(&pair) { No } else { Yes };
            let all: Vec<_> = ring.map(|pair| connection(pair, fit(pair))).into();
            stage.fallen_back(&all, &BTreeSet::from([1]))
        };
        assert_eq!(named(&[(1, 2), (2, 3)]).unwrap(), "only rank 2 on b used No");
        assert_eq!(named(&[(2, 3)]).unwrap(), "only rank 2 on b and rank 3 on b used No");
        // The log of rank 1 describes another network than the others'.
        assert_eq!(named(&[(1, 2)]).unwrap(), "only rank 1 on a used No");
        assert_eq!(named(&[(0, 1), (2, 3)]).unwrap(), "4 ranks on a, b used No");
        assert_eq!(named(&[]), None);
    }
}
