//! Named transports over networks: verbs over each port and all of them, sockets over each interface, SHARP, plugins.
//! Not those within a node (`profile`), and not the evidence of what ran (`evidence`).

use std::path::Path;

use busbw_analysis::sweep::Scope;
use busbw_host::machine::Interface;

use crate::sweep::Variable;

use super::{
    machine::{Here, Port, left_so},
    profile::{NO_MNNVL, NO_NVLS, NO_P2P, NO_SHM, Profile, TransportKind},
    verbs,
};

/// How many queue pairs a connection of NCCL has.
pub(super) const QUEUE_PAIRS: &str = "NCCL_IB_QPS_PER_CONNECTION";
/// Which transport busbw's net plugin has.
const BUSBW_NET: &str = "BUSBW_NET";

/// Settings that make NCCL use the network within a node: between nodes it has nothing else.
fn over_the_network(here: &Here) -> (Scope, Vec<(&'static str, &'static str)>) {
    match here.nodes() {
        0 | 1 => (Scope::All, vec![NO_NVLS, NO_P2P, NO_SHM]),
        _ if here.has_hosts() => (Scope::Between, vec![NO_NVLS, NO_MNNVL]),
        _ => (Scope::Between, vec![NO_NVLS]),
    }
}

/// Verbs: each port, all ports of a kind together, and those with and without GPUDirect.
pub(super) fn rdma(here: &Here) -> Vec<Profile> {
    let mut all = Vec::new();
    for family in ["ib", "roce"] {
        let ports: Vec<&Port> = here.ports.iter().filter(|port| port.family() == family).collect();
        if ports.is_empty() {
            all.push(Profile::waived(family, over(&[], None), no_ports(here)));
        }
        all.extend(ports.iter().map(|port| {
            over_ports(here, &port_name(here, family, port), &[port], None)
                .unless(port.unusable.clone())
        }));
        let usable: Vec<&Port> = ports.into_iter().filter(|port| is_free(here, port)).collect();
        if usable.len() > 1 {
            all.push(over_ports(here, &format!("{family}:all"), &usable, None));
        }
        // Within one host these would differ in host memory only.
        if !usable.is_empty() && here.has_hosts() {
            all.push(over_ports(here, &format!("{family}:gpudirect"), &usable, Some(true)));
            all.push(over_ports(here, &format!("{family}:no-gpudirect"), &usable, Some(false)));
            all.extend(by_queue_pairs(here, family, &usable));
        }
    }
    all
}

/// All ports of a kind with other numbers of queue pairs a connection than the environment's, or NCCL's one.
fn by_queue_pairs<'a>(
    here: &'a Here,
    family: &'a str,
    ports: &'a [&Port],
) -> impl Iterator<Item = Profile> + 'a {
    let now = here.variables.get(QUEUE_PAIRS).map_or("1", |value| value.trim());
    ["1", "4", "16"].into_iter().filter(move |number| *number != now).map(move |number| {
        let mut profile = over_ports(here, &format!("{family}:qp{number}"), ports, None);
        let (name, value) = (QUEUE_PAIRS.to_owned(), Some(number.to_owned()));
        profile.environment.variables.push(Variable { name, value });
        profile
    })
}

/// Why there is no port of a kind.
fn no_ports(here: &Here) -> &'static str {
    match here.ports.is_empty() {
        true => "there is no RDMA device",
        false => "no RDMA port is of this kind",
    }
}

/// The name of a port's profile: its number is part of it where its device has several.
fn port_name(here: &Here, family: &str, port: &Port) -> String {
    match here.ports.iter().filter(|other| other.device == port.device).count() {
        1 => format!("{family}:{}", port.device),
        _ => format!("{family}:{}:{}", port.device, port.number),
    }
}

/// Exactly these ports, as NCCL_IB_HCA takes them.
fn hca_list(ports: &[&Port]) -> String {
    let each: Vec<String> =
        ports.iter().map(|port| format!("{}:{}", port.device, port.number)).collect();
    format!("={}", each.join(","))
}

pub(super) fn is_free(here: &Here, port: &Port) -> bool {
    port.unusable.is_none() && here.leaves_out("NCCL_IB_HCA", &port.device).is_none()
}

fn over(ports: &[&Port], gpudirect: Option<bool>) -> TransportKind {
    let ports = ports.iter().map(|port| (port.device.clone(), port.number)).collect();
    TransportKind::Rdma { ports, gpudirect }
}

/// NCCL's verbs on exactly these ports.
fn over_ports(here: &Here, name: &str, ports: &[&Port], gpudirect: Option<bool>) -> Profile {
    let (scope, mut set) = over_the_network(here);
    let list = hca_list(ports);
    set.extend([("NCCL_NET", "IB"), ("NCCL_IB_HCA", &list)]);
    // SYS: at any distance between GPU and adapter; LOC: never.
    set.extend(gpudirect.map(|on| ("NCCL_NET_GDR_LEVEL", if on { "SYS" } else { "LOC" })));
    let left_out = ports.iter().find_map(|port| here.leaves_out("NCCL_IB_HCA", &port.device));
    let level = here.variables.get("NCCL_NET_GDR_LEVEL").filter(|_| gpudirect.is_some());
    Profile::new(name, over(ports, gpudirect), scope, &set)
        .unless(here.is_on("NCCL_IB_DISABLE"))
        .unless(left_out)
        .unless(level.map(|level| left_so("NCCL_NET_GDR_LEVEL", level)))
}

/// NCCL's sockets over each interface.
pub(super) fn sockets(here: &Here) -> Vec<Profile> {
    by_interface(here, "socket", &|name| {
        let (scope, mut set) = over_the_network(here);
        set.extend([("NCCL_NET", "Socket"), ("NCCL_SOCKET_IFNAME", name)]);
        (scope, set.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    })
}

/// What the net backend can use: its plugin over each interface, and a plugin that the user names.
pub(super) fn of_net(here: &Here) -> Vec<Profile> {
    let scope = if here.has_hosts() { Scope::Between } else { Scope::All };
    let gpus = "the net backend moves host memory; this transport needs GPUs";
    let waived = |name, kind, why: &str| Profile::waived(name, kind, why);
    let mut all = vec![
        waived("nvls", TransportKind::Nvls, gpus),
        waived("p2p", TransportKind::P2p, gpus),
        waived("mnnvl", TransportKind::Mnnvl, gpus),
    ];
    all.extend(rdma_of_net(here, scope));
    all.extend(verbs::rows(here));
    all.extend(by_interface(here, "socket", &|interface| {
        let mut set = vec![("NCCL_SOCKET_IFNAME".to_owned(), interface.to_owned())];
        if !here.ports.is_empty() {
            // The plugin leaves hosts with RDMA to NCCL, unless it is asked.
            set.push((BUSBW_NET.to_owned(), "sockets".to_owned()));
        }
        (scope, set)
    }));
    all.push(waived("sharp", TransportKind::CollNet, gpus));
    all.extend(here.net_plugin.as_ref().map(|path| {
        let shown = path.to_string_lossy().into_owned();
        let mut profile =
            Profile::new("plugin", TransportKind::Plugin(file_name(path)), scope, &[]);
        profile.environment.options.extend(["--net".to_owned(), shown]);
        profile.unless((!path.is_file()).then(|| format!("{} is no file", path.display())))
    }));
    all.push(Profile::new("default", TransportKind::Default, scope, &[]));
    if here.virtual_nodes > 1 {
        let why = "the net backend has no virtual nodes";
        all.iter_mut().for_each(|one| one.waived = Some(why.to_owned()));
    }
    all
}

/// busbw's net plugin over queue pairs: each port, and all ports of a kind together.
fn rdma_of_net(here: &Here, scope: Scope) -> Vec<Profile> {
    let mut all = Vec::new();
    for family in ["ib", "roce"] {
        let ports: Vec<&Port> = here.ports.iter().filter(|port| port.family() == family).collect();
        if ports.is_empty() {
            all.push(Profile::waived(family, over(&[], None), no_ports(here)));
        }
        let over_ports = |name: &str, ports: &[&Port]| {
            let list = hca_list(ports);
            let mut set = vec![(BUSBW_NET, "rdma"), ("NCCL_IB_HCA", list.as_str())];
            if ports.len() > 1 {
                set.push(("BUSBW_NET_MERGE", "1"));
            }
            let left_out =
                ports.iter().find_map(|port| here.leaves_out("NCCL_IB_HCA", &port.device));
            Profile::new(name, over(ports, None), scope, &set).unless(left_out)
        };
        all.extend(ports.iter().map(|port| {
            over_ports(&port_name(here, family, port), &[port]).unless(port.unusable.clone())
        }));
        let usable: Vec<&Port> = ports.into_iter().filter(|port| is_free(here, port)).collect();
        if usable.len() > 1 {
            all.push(over_ports(&format!("{family}:all"), &usable));
        }
    }
    all
}

/// Scope and variables of a profile, by the list that names its interface.
type Settings<'a> = dyn Fn(&str) -> (Scope, Vec<(String, String)>) + 'a;

/// A profile for each interface of the hosts.
fn by_interface(here: &Here, family: &str, settings: &Settings<'_>) -> Vec<Profile> {
    let usable = |interface: &&Interface| interface.unusable.is_none();
    let taken =
        |interface: &&Interface| here.leaves_out("NCCL_SOCKET_IFNAME", &interface.name).is_none();
    let first = here.interfaces.iter().filter(usable).find(taken).map(|one| one.name.as_str());
    let profile = |interface: &Interface| {
        let (scope, set) = settings(&format!("={}", interface.name));
        let set: Vec<(&str, &str)> = set.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let name = format!("{family}:{}", interface.name);
        let same = (!here.has_hosts() && first != Some(&interface.name) && !here.is_wanted(&name)).then(|| {
            format!(
                "all ranks are on one host, where bytes to any interface's address go through lo: the same as {family}:{}; --only {name} runs it",
                first.unwrap_or("?")
            )
        });
        Profile::new(&name, TransportKind::Socket(interface.name.clone()), scope, &set)
            .unless(interface.unusable.clone())
            .unless(here.leaves_out("NCCL_SOCKET_IFNAME", &interface.name))
            .unless(same)
    };
    let all: Vec<Profile> = here.interfaces.iter().map(profile).collect();
    match all.is_empty() {
        true => vec![Profile::waived(
            family,
            TransportKind::Socket(String::new()),
            "no network interface",
        )],
        false => all,
    }
}

/// Switches that reduce.
pub(super) fn sharp(here: &Here) -> Profile {
    let set = [("NCCL_COLLNET_ENABLE", "1"), ("NCCL_ALGO", "CollnetDirect,CollnetChain"), NO_NVLS];
    let infiniband = here.ports.iter().any(|port| !port.ethernet && port.unusable.is_none());
    let why =
        (!infiniband).then(|| "no active InfiniBand port: SHARP is in its switches".to_owned());
    Profile::new("sharp", TransportKind::CollNet, Scope::All, &set)
        .unless(why)
        .unless((here.nodes() < 2).then(|| "one node: SHARP reduces between nodes".to_owned()))
        .unless(here.benchmark.messages().map(|test| format!("{} reduces nothing", test.name())))
        .unless(here.is_set_to("NCCL_COLLNET_ENABLE", &["0"]))
        .unless(here.chooses_without("NCCL_ALGO", "collnet"))
}

/// The user's plugin, in NCCL.
pub(super) fn plugin(here: &Here) -> Option<Profile> {
    let path = here.net_plugin.as_ref()?;
    let (scope, mut set) = over_the_network(here);
    let shown = path.to_string_lossy();
    set.push(("NCCL_NET_PLUGIN", &shown));
    let missing = (!path.is_file()).then(|| format!("{} is no file", path.display()));
    Some(
        Profile::new("plugin", TransportKind::Plugin(file_name(path)), scope, &set).unless(missing),
    )
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use busbw_core::plan::MovedBy;

    use super::*;
    use crate::transports::{machine::JobHost, profile::profiles};

    fn told(here: &Here) -> Vec<String> {
        let told = |profile: Profile| match &profile.waived {
            Some(why) => format!("{}: {why}", profile.name()),
            None => {
                let set = profile.environment.variables.iter().map(ToString::to_string);
                format!("{}: {}", profile.name(), set.collect::<Vec<_>>().join(" "))
            }
        };
        profiles(here).into_iter().map(told).collect()
    }

    fn two_hosts(clique: Option<u32>) -> Vec<JobHost> {
        let host = |name| {
            let interfaces = [("eth0", 1.0), ("eth1", 100.0), ("lo", 1.0)];
            JobHost::made_up(name, &interfaces, &[("mlx5_0", false), ("mlx5_1", false)], clique)
        };
        vec![host("a"), host("b")]
    }

    /// The transports between two hosts with NVLink between them, two InfiniBand adapters each and two networks.
    #[test]
    fn two_hosts_of_four() {
        let between = "NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0";
        let both = "NCCL_NET=IB NCCL_IB_HCA==mlx5_0:1,mlx5_1:1";
        let expected = [
            "nvls: NCCL_ALGO=NVLS,NVLSTree".to_owned(),
            format!("p2p: {between}"),
            "mnnvl: NCCL_NVLS_ENABLE=0".to_owned(),
            format!("shm: {between} NCCL_P2P_DISABLE=1"),
            format!("ib:mlx5_0: {between} NCCL_NET=IB NCCL_IB_HCA==mlx5_0:1"),
            format!("ib:mlx5_1: {between} NCCL_NET=IB NCCL_IB_HCA==mlx5_1:1"),
            format!("ib:all: {between} {both}"),
            format!("ib:gpudirect: {between} {both} NCCL_NET_GDR_LEVEL=SYS"),
            format!("ib:no-gpudirect: {between} {both} NCCL_NET_GDR_LEVEL=LOC"),
            format!("ib:qp4: {between} {both} NCCL_IB_QPS_PER_CONNECTION=4"),
            format!("ib:qp16: {between} {both} NCCL_IB_QPS_PER_CONNECTION=16"),
            "roce: no RDMA port is of this kind".to_owned(),
            "verbs:ib: ".to_owned(),
            format!("socket:eth0: {between} NCCL_NET=Socket NCCL_SOCKET_IFNAME==eth0"),
            format!("socket:eth1: {between} NCCL_NET=Socket NCCL_SOCKET_IFNAME==eth1"),
            "socket:lo: lo reaches its own host only".to_owned(),
            "sharp: NCCL_COLLNET_ENABLE=1 NCCL_ALGO=CollnetDirect,CollnetChain NCCL_NVLS_ENABLE=0"
                .to_owned(),
            "default: ".to_owned(),
        ];
        assert_eq!(told(&Here::rehearsal(8).on(two_hosts(Some(1)))), expected);
        // One rank a host has no peer within it, and without a fabric NVLink ends at the host.
        let all = told(&Here::rehearsal(2).on(two_hosts(None)));
        for waived in
            ["p2p: each node has one rank", "shm: each node", "mnnvl: the GPUs of a are not"]
        {
            assert!(all.iter().any(|one| one.starts_with(waived)), "{waived}: {all:#?}");
        }
    }

    /// Without GPUs a net plugin has the networks, and nothing else.
    #[test]
    fn two_hosts_of_the_net_backend() {
        let here = Here { moved_by: MovedBy::NetPlugin, ..Here::rehearsal(2) };
        let all = told(&here.on(two_hosts(None)));
        for expected in [
            "socket:eth0: NCCL_SOCKET_IFNAME==eth0 BUSBW_NET=sockets",
            "socket:eth1: NCCL_SOCKET_IFNAME==eth1 BUSBW_NET=sockets",
            "p2p: the net backend moves host memory; this transport needs GPUs",
            "ib:mlx5_0: BUSBW_NET=rdma NCCL_IB_HCA==mlx5_0:1",
            "ib:all: BUSBW_NET=rdma NCCL_IB_HCA==mlx5_0:1,mlx5_1:1 BUSBW_NET_MERGE=1",
            "roce: no RDMA port is of this kind",
        ] {
            assert!(all.iter().any(|one| one == expected), "{expected}: {all:#?}");
        }
    }
}
