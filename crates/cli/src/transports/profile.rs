//! Named transports: the environment that selects each on this machine, or why it cannot run here.
//! Not the evidence of what ran (`evidence`).

use busbw_core::plan::MovedBy;
use busbw_hardware::limits::Algorithm;
use serde::{Deserialize, Serialize};

use busbw_analysis::sweep::Scope;

use super::{machine::Here, networks, verbs};
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
    /// NCCL's verbs, over these ports.
    Rdma {
        /// Devices, such as mlx5_0, and numbers of ports, from 1; none where there is none.
        ports: Vec<(String, u32)>,
        /// Whether the adapters must reach the GPUs' memory (GPUDirect), or must not; none where NCCL decides.
        gpudirect: Option<bool>,
    },
    /// RDMA without NCCL: writes between the hosts, over these ports.
    Verbs {
        /// Devices and numbers of ports, from 1.
        ports: Vec<(String, u32)>,
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
    pub(super) fn new(
        name: &str,
        kind: TransportKind,
        scope: Scope,
        variables: &[(&str, &str)],
    ) -> Profile {
        let variable = |(name, value): &(&str, &str)| Variable {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
        };
        let variables = variables.iter().map(variable).collect();
        let environment =
            Environment { name: name.to_owned(), variables, options: Vec::new(), instead: None };
        Profile { environment, kind, scope, waived: None }
    }

    pub(super) fn waived(name: &str, kind: TransportKind, why: impl Into<String>) -> Profile {
        Profile { waived: Some(why.into()), ..Profile::new(name, kind, Scope::All, &[]) }
    }

    pub(super) fn unless(mut self, why: Option<String>) -> Profile {
        self.waived = self.waived.or(why);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.environment.name
    }

    /// Whether its figures are of messages, beside those of the collective.
    pub fn is_beside(&self) -> bool {
        matches!(self.kind, TransportKind::Verbs { .. })
    }

    /// Whether it is a network in NCCL's or the user's own setting of it.
    pub fn is_network(&self) -> bool {
        let is_set = |variable: &Variable| variable.name == networks::QUEUE_PAIRS;
        let tuned = self.environment.variables.iter().any(is_set);
        self.scope == Scope::Between
            && !self.is_beside()
            && !tuned
            && self.kind != TransportKind::Default
    }

    /// Whether `word` selects it: its name, or its family.
    pub fn is_meant(&self, word: &str) -> bool {
        let family = self.name().split(':').next().unwrap_or("");
        word == self.name() || word == family
    }
}

/// Settings that disable in-switch reduction, which would hide the transports below it.
pub(super) const NO_NVLS: (&str, &str) = ("NCCL_NVLS_ENABLE", "0");
pub(super) const NO_P2P: (&str, &str) = ("NCCL_P2P_DISABLE", "1");
pub(super) const NO_SHM: (&str, &str) = ("NCCL_SHM_DISABLE", "1");
/// The same for NVLink between hosts.
pub(super) const NO_MNNVL: (&str, &str) = ("NCCL_MNNVL_ENABLE", "0");

/// Every transport, fastest first; those that cannot run here have the reason.
pub fn profiles(here: &Here) -> Vec<Profile> {
    let mut all = match here.moved_by {
        MovedBy::Nccl => of_nccl(here),
        MovedBy::NetPlugin => networks::of_net(here),
        MovedBy::Mpi => of_mpi(here),
        MovedBy::Busbw | MovedBy::Nothing => on_host(here),
        // Planning refuses collectives on it.
        MovedBy::Verbs => Vec::new(),
    };
    for profile in &mut all {
        profile.waived = here.alone().or(profile.waived.take());
    }
    all
}

/// What NCCL can use.
fn of_nccl(here: &Here) -> Vec<Profile> {
    let within = if here.nodes() > 1 { Scope::Within } else { Scope::All };
    let mut inside = vec![NO_NVLS];
    inside.extend(here.has_hosts().then_some(NO_MNNVL));
    let without_p2p: Vec<_> = inside.iter().copied().chain([NO_P2P]).collect();
    let mut all = vec![
        nvls(here),
        Profile::new("p2p", TransportKind::P2p, within, &inside)
            .unless(here.is_on("NCCL_P2P_DISABLE"))
            .unless(here.is_set_to("NCCL_P2P_LEVEL", &["LOC", "0"]))
            .unless(here.lone_ranks()),
        mnnvl(here),
        Profile::new("shm", TransportKind::Shm, within, &without_p2p)
            .unless(here.is_on("NCCL_SHM_DISABLE"))
            .unless(here.lone_ranks()),
    ];
    all.extend(networks::rdma(here));
    all.extend(verbs::rows(here));
    all.extend(networks::sockets(here));
    all.push(networks::sharp(here));
    all.extend(networks::plugin(here));
    all.push(Profile::new("default", TransportKind::Default, Scope::All, &[]));
    if here.virtual_nodes > 1 {
        let option = ["--virtual-nodes".to_owned(), here.virtual_nodes.to_string()];
        all.iter_mut().for_each(|one| one.environment.options.extend(option.clone()));
    }
    all
}

/// Nothing: MPI's transports have no names that its implementations share.
fn of_mpi(here: &Here) -> Vec<Profile> {
    let why = "MPI chooses its own transports: busbw sweep -x OMPI_MCA_btl=… or -x UCX_TLS=… compares them";
    let named = |name| Profile::waived(name, TransportKind::Default, why);
    let plugin = here.net_plugin.is_some().then(|| named("plugin"));
    ["p2p", "shm", "ib", "roce", "socket"].into_iter().map(named).chain(plugin).collect()
}

/// The transport of the host backend.
fn on_host(here: &Here) -> Vec<Profile> {
    let nodes = (here.nodes() > 1).then(|| "the host backend has no virtual nodes".to_owned());
    let gpus = "the host backend moves host memory; this transport needs GPUs";
    let mut all = vec![Profile::new("shm", TransportKind::Host, Scope::All, &[]).unless(nodes)];
    all.extend(["p2p", "nvls"].map(|name| Profile::waived(name, TransportKind::P2p, gpus)));
    let later = "TCP between processes is the net backend's: --backend net";
    all.push(Profile::waived("net", TransportKind::Socket("lo".to_owned()), later));
    if here.net_plugin.is_some() {
        all.push(Profile::waived("plugin", TransportKind::Plugin(String::new()), gpus));
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

fn mnnvl(here: &Here) -> Profile {
    // NCCL_MNNVL_ENABLE stays unset: its default, 2, uses NVLink between hosts where it is possible.
    Profile::new("mnnvl", TransportKind::Mnnvl, Scope::Between, &[NO_NVLS])
        .unless(here.no_mnnvl())
        .unless(here.is_set_to("NCCL_MNNVL_ENABLE", &["0"]))
        .unless(here.is_on("NCCL_P2P_DISABLE"))
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
        let all = told(&Here { virtual_nodes: 2, ..Here::rehearsal(8).with_rdma() });
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
        for moved_by in [MovedBy::Nccl, MovedBy::Busbw, MovedBy::NetPlugin] {
            let here = Here { moved_by, ..Here::rehearsal(1) };
            for profile in profiles(&here) {
                assert!(profile.waived.unwrap().starts_with("one rank"), "{moved_by:?}");
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
