//! Named transports: the environment that selects each on this machine, or why it cannot run here.
//! Not the evidence of what ran (`evidence`).

use busbw_hardware::limits::Algorithm;
use serde::{Deserialize, Serialize};

use crate::transports::machine::{Here, Interface};
use busbw_analysis::sweep::Scope;

use crate::sweep::{Environment, Variable};

/// The kind of a transport.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportKind {
    /// From GPU to GPU, within a host.
    P2p,
    /// The same between hosts: NVLink that spans them (MNNVL).
    Mnnvl,
    /// NVLink's switches reduce and multicast (NVLS).
    Nvls,
    /// Shared host memory (SHM).
    Shm,
    /// NCCL's sockets, over this interface.
    Socket(String),
    /// NCCL's verbs, over this device.
    Rdma {
        /// Such as mlx5_0; empty where there is none.
        device: String,
        /// Number, from 1.
        port: u32,
    },
    /// A net plugin.
    Plugin(String),
    /// A network that reduces (SHARP).
    CollNet,
    /// NCCL's own choice.
    Default,
    /// The shared memory of the host backend.
    Host,
}

/// A transport to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name, and what its environment sets.
    pub environment: Environment,
    /// The kind that is to be confirmed.
    pub kind: TransportKind,
    /// The pairs of ranks that it is for.
    pub scope: Scope,
    /// Why it cannot run here.
    pub waived: Option<String>,
}

impl Profile {
    fn new(name: &str, kind: TransportKind, scope: Scope, variables: &[(&str, &str)]) -> Profile {
        let variable = |(name, value): &(&str, &str)| Variable {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
        };
        let variables = variables.iter().map(variable).collect();
        let environment = Environment { name: name.to_owned(), variables, options: Vec::new() };
        Profile { environment, kind, scope, waived: None }
    }

    fn waived(name: &str, kind: TransportKind, why: impl Into<String>) -> Profile {
        Profile { waived: Some(why.into()), ..Profile::new(name, kind, Scope::All, &[]) }
    }

    fn unless(mut self, why: Option<String>) -> Profile {
        self.waived = self.waived.or(why);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.environment.name
    }

    /// Whether `word` selects it: its name, or its family.
    pub fn is_meant(&self, word: &str) -> bool {
        let family = self.name().split(':').next().unwrap_or("");
        word == self.name() || word == family
    }
}

/// Settings that disable in-switch reduction, which would hide the transports below it.
const NO_NVLS: (&str, &str) = ("NCCL_NVLS_ENABLE", "0");
const NO_P2P: (&str, &str) = ("NCCL_P2P_DISABLE", "1");
const NO_SHM: (&str, &str) = ("NCCL_SHM_DISABLE", "1");

/// Every transport, fastest first; those that cannot run here have the reason.
pub fn profiles(here: &Here) -> Vec<Profile> {
    if !here.is_nccl {
        return on_host(here);
    }
    let within = if here.nodes > 1 { Scope::Within } else { Scope::All };
    let mut all = vec![
        nvls(here),
        Profile::new("p2p", TransportKind::P2p, within, &[NO_NVLS])
            .unless(here.is_on("NCCL_P2P_DISABLE"))
            .unless(here.is_set_to("NCCL_P2P_LEVEL", &["LOC", "0"]))
            .unless(here.lone_ranks()),
        mnnvl(),
        Profile::new("shm", TransportKind::Shm, within, &[NO_NVLS, NO_P2P])
            .unless(here.is_on("NCCL_SHM_DISABLE"))
            .unless(here.lone_ranks()),
    ];
    all.extend(rdma(here));
    all.extend(sockets(here));
    all.push(sharp(here));
    all.extend(plugin(here));
    all.push(Profile::new("default", TransportKind::Default, Scope::All, &[]));
    for profile in &mut all {
        if here.nodes > 1 {
            let option = ["--virtual-nodes".to_owned(), here.nodes.to_string()];
            profile.environment.options.extend(option);
        }
        profile.waived = here.alone().or(profile.waived.take());
    }
    all
}

/// The transport of the host backend.
fn on_host(here: &Here) -> Vec<Profile> {
    let nodes = (here.nodes > 1).then(|| "the host backend has no virtual nodes".to_owned());
    let gpus = "the host backend moves host memory; this transport needs GPUs";
    let mut all = vec![Profile::new("shm", TransportKind::Host, Scope::All, &[]).unless(nodes)];
    all.extend(["p2p", "nvls"].map(|name| Profile::waived(name, TransportKind::P2p, gpus)));
    let later = "TCP between processes is the net backend's: --backend net";
    all.push(Profile::waived("net", TransportKind::Socket("lo".to_owned()), later));
    if here.net_plugin.is_some() {
        all.push(Profile::waived("plugin", TransportKind::Plugin(String::new()), gpus));
    }
    for profile in &mut all {
        profile.waived = here.alone().or(profile.waived.take());
    }
    all
}

fn nvls(here: &Here) -> Profile {
    let by_switch = here.benchmark.collective().is_some_and(|c| Algorithm::Nvls.serves(c));
    // NCCL_NVLS_ENABLE stays unset: its default, 2, uses NVLS where it is possible.
    Profile::new("nvls", TransportKind::Nvls, Scope::All, &[("NCCL_ALGO", "NVLS,NVLSTree")])
        .unless(here.is_set_to("NCCL_NVLS_ENABLE", &["0"]))
        .unless(here.is_on("NCCL_P2P_DISABLE"))
        .unless(here.chooses_without("NCCL_ALGO", "nvls"))
        .unless((!by_switch).then(|| format!("NCCL has no NVLS for {}", here.benchmark.name())))
        .unless(
            (here.multicast == Some(false))
                .then(|| "the driver offers no NVLink multicast on these GPUs".to_owned()),
        )
}

fn mnnvl() -> Profile {
    Profile::waived("mnnvl", TransportKind::Mnnvl, "one host: NVLink between hosts needs two")
}

/// Settings that make NCCL use the network within a node: between nodes it has nothing else.
fn over_the_network(here: &Here) -> (Scope, Vec<(&'static str, &'static str)>) {
    match here.nodes {
        0 | 1 => (Scope::All, vec![NO_NVLS, NO_P2P, NO_SHM]),
        _ => (Scope::Between, vec![NO_NVLS]),
    }
}

fn rdma(here: &Here) -> Vec<Profile> {
    let mut all = Vec::new();
    for family in ["ib", "roce"] {
        let ports = || here.ports.iter().filter(move |port| port.family() == family);
        if ports().next().is_none() {
            let why = match here.ports.is_empty() {
                true => "there is no RDMA device",
                false => "no RDMA port is of this kind",
            };
            all.push(Profile::waived(
                family,
                TransportKind::Rdma { device: String::new(), port: 0 },
                why,
            ));
        }
        all.extend(ports().map(|port| {
            let (scope, mut set) = over_the_network(here);
            let device = format!("={}:{}", port.device, port.number);
            set.extend([("NCCL_NET", "IB"), ("NCCL_IB_HCA", &device)]);
            let of_device = here.ports.iter().filter(|other| other.device == port.device);
            let name = match of_device.count() {
                1 => format!("{family}:{}", port.device),
                _ => format!("{family}:{}:{}", port.device, port.number),
            };
            let kind = TransportKind::Rdma { device: port.device.clone(), port: port.number };
            let down = (!port.active)
                .then(|| format!("port {}/{} is {}", port.device, port.number, port.state));
            Profile::new(&name, kind, scope, &set)
                .unless(here.is_on("NCCL_IB_DISABLE"))
                .unless(here.leaves_out("NCCL_IB_HCA", &port.device))
                .unless(down)
        }));
    }
    all
}

fn sockets(here: &Here) -> Vec<Profile> {
    let usable = |interface: &&Interface| interface.why_not.is_none();
    let taken =
        |interface: &&Interface| here.leaves_out("NCCL_SOCKET_IFNAME", &interface.name).is_none();
    let first = here.interfaces.iter().filter(usable).find(taken).map(|one| one.name.as_str());
    let profile = |interface: &Interface| {
        let (scope, mut set) = over_the_network(here);
        let exactly = format!("={}", interface.name);
        set.extend([("NCCL_NET", "Socket"), ("NCCL_SOCKET_IFNAME", &exactly)]);
        let name = format!("socket:{}", interface.name);
        let same = (first != Some(&interface.name) && !here.is_wanted(&name)).then(|| {
            format!(
                "all ranks are on one host, where bytes to any interface's address go through lo: the same as socket:{}; --only {name} runs it",
                first.unwrap_or("?")
            )
        });
        Profile::new(&name, TransportKind::Socket(interface.name.clone()), scope, &set)
            .unless(interface.why_not.clone())
            .unless(here.leaves_out("NCCL_SOCKET_IFNAME", &interface.name))
            .unless(same)
    };
    let all: Vec<Profile> = here.interfaces.iter().map(profile).collect();
    match all.is_empty() {
        true => vec![Profile::waived(
            "socket",
            TransportKind::Socket(String::new()),
            "no network interface",
        )],
        false => all,
    }
}

fn sharp(here: &Here) -> Profile {
    let set = [("NCCL_COLLNET_ENABLE", "1"), ("NCCL_ALGO", "CollnetDirect,CollnetChain"), NO_NVLS];
    let infiniband = here.ports.iter().any(|port| !port.ethernet && port.active);
    let why =
        (!infiniband).then(|| "no active InfiniBand port: SHARP is in its switches".to_owned());
    Profile::new("sharp", TransportKind::CollNet, Scope::All, &set)
        .unless(why)
        .unless((here.nodes < 2).then(|| "one node: SHARP reduces between nodes".to_owned()))
        .unless(here.benchmark.messages().map(|test| format!("{} reduces nothing", test.name())))
        .unless(here.is_set_to("NCCL_COLLNET_ENABLE", &["0"]))
        .unless(here.chooses_without("NCCL_ALGO", "collnet"))
}

fn plugin(here: &Here) -> Option<Profile> {
    let path = here.net_plugin.as_ref()?;
    let file =
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let (scope, mut set) = over_the_network(here);
    let shown = path.to_string_lossy();
    set.push(("NCCL_NET_PLUGIN", &shown));
    let missing = (!path.is_file()).then(|| format!("{} is no file", path.display()));
    Some(Profile::new("plugin", TransportKind::Plugin(file), scope, &set).unless(missing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transports::machine::Port;

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

    #[test]
    fn eight_gpus_of_one_host() {
        let here = Here::rehearsal(8);
        let nothing = "NCCL_NVLS_ENABLE=0";
        assert_eq!(
            told(&here),
            [
                "nvls: NCCL_ALGO=NVLS,NVLSTree",
                "p2p: NCCL_NVLS_ENABLE=0",
                "mnnvl: one host: NVLink between hosts needs two",
                "shm: NCCL_NVLS_ENABLE=0 NCCL_P2P_DISABLE=1",
                "ib: there is no RDMA device",
                "roce: there is no RDMA device",
                &format!(
                    "socket:eth0: {nothing} NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_NET=Socket NCCL_SOCKET_IFNAME==eth0"
                ),
                "socket:lo: all ranks are on one host, where bytes to any interface's address go through lo: the same as socket:eth0; --only socket:lo runs it",
                "sharp: no active InfiniBand port: SHARP is in its switches",
                "default: ",
            ]
        );
    }

    #[test]
    fn two_virtual_nodes_with_rdma() {
        let all = told(&Here { nodes: 2, ..Here::rehearsal(8).with_rdma() });
        for expected in [
            "p2p: NCCL_NVLS_ENABLE=0",
            "ib:mlx5_0: NCCL_NVLS_ENABLE=0 NCCL_NET=IB NCCL_IB_HCA==mlx5_0:1",
            "roce:mlx5_1: NCCL_NVLS_ENABLE=0 NCCL_NET=IB NCCL_IB_HCA==mlx5_1:1",
            "socket:eth0: NCCL_NVLS_ENABLE=0 NCCL_NET=Socket NCCL_SOCKET_IFNAME==eth0",
            "sharp: NCCL_COLLNET_ENABLE=1 NCCL_ALGO=CollnetDirect,CollnetChain NCCL_NVLS_ENABLE=0",
        ] {
            assert!(all.iter().any(|one| one == expected), "{expected}: {all:#?}");
        }
    }

    /// Transports that a user has disabled stay disabled.
    #[test]
    fn nothing_is_switched_on_again() {
        for (variable, value, names) in [
            ("NCCL_NVLS_ENABLE", "0", vec!["nvls"]),
            ("NCCL_ALGO", "Ring,Tree", vec!["nvls"]),
            ("NCCL_ALGO", "^NVLS", vec!["nvls"]),
            ("NCCL_ALGO", "allreduce:nvls,collnetdirect", vec![]),
            ("NCCL_P2P_DISABLE", "1", vec!["nvls", "p2p"]),
            ("NCCL_P2P_LEVEL", "LOC", vec!["p2p"]),
            ("NCCL_SHM_DISABLE", "1", vec!["shm"]),
            ("NCCL_IB_DISABLE", "1", vec!["ib:mlx5_0", "roce:mlx5_1"]),
            ("NCCL_IB_HCA", "mlx5_0", vec!["roce:mlx5_1"]),
            ("NCCL_SOCKET_IFNAME", "^eth", vec!["socket:eth0"]),
        ] {
            let mut here = Here::rehearsal(8).with_rdma();
            let before = profiles(&here);
            here.variables.insert(variable.to_owned(), value.to_owned());
            let told = format!("{variable}={value} is set in the environment");
            for (was, is) in before.iter().zip(profiles(&here)) {
                let said = is.waived.as_ref().is_some_and(|why| why.contains(&told));
                if names.contains(&is.name()) {
                    assert!(said, "{variable}: {}: {:?}", is.name(), is.waived);
                } else {
                    assert!(!said, "{variable}: {}: {:?}", was.name(), is.waived);
                }
            }
        }
    }

    #[test]
    fn one_rank_waives_everything() {
        for is_nccl in [true, false] {
            let here = Here { is_nccl, ..Here::rehearsal(1) };
            for profile in profiles(&here) {
                assert!(profile.waived.unwrap().starts_with("one rank"), "{}", here.is_nccl);
            }
        }
    }

    /// Two transports of one name would overwrite each other's records.
    #[test]
    fn every_port_has_its_own_name() {
        let mut here = Here::rehearsal(8).with_rdma();
        here.ports.push(Port { number: 2, ..here.ports[1].clone() });
        let names: Vec<String> =
            profiles(&here).iter().map(|profile| profile.name().to_owned()).collect();
        assert!(names.contains(&"roce:mlx5_1:2".to_owned()), "{names:?}");
        let once: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(once.len(), names.len(), "{names:?}");
    }
}
