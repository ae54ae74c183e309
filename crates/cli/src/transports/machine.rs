//! The facts about this machine that transports depend on: interfaces, RDMA ports, GPUs, and the
//! user's environment.
//! Not which transports follow from them (`profile`).

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use busbw_core::{Benchmark, plan::MovedBy};

use super::verbs;
use crate::sweep::Prepared;
use busbw_host::{
    machine::Interface,
    survey::{HostSurvey, RdmaPort, Survey},
};
use busbw_runner::backend::nccl::Gpus;

/// The machine and the job, as far as transports depend on them.
#[derive(Debug, Clone)]
pub struct Here {
    /// Whose code moves the bytes.
    pub moved_by: MovedBy,
    /// What is measured.
    pub benchmark: Benchmark,
    /// Ranks.
    pub ranks: usize,
    /// Virtual nodes of this host (`--virtual-nodes`).
    pub virtual_nodes: usize,
    /// The job's hosts: this one, or those of its launcher.
    pub hosts: Vec<JobHost>,
    /// Whether GPUs can be in multicast groups.
    pub multicast: Option<bool>,
    /// Network interfaces, in the order in which NCCL takes them.
    pub interfaces: Vec<Interface>,
    /// RDMA ports.
    pub ports: Vec<Port>,
    /// NCCL_* variables of the environment.
    pub variables: BTreeMap<String, String>,
    /// Transports that the user named.
    pub wanted: Vec<String>,
    /// The user's plugin.
    pub net_plugin: Option<PathBuf>,
    /// The words of RDMA writes beside the collective, or why it has none.
    pub writes: Result<Vec<OsString>, String>,
}

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The device.
    pub device: String,
    /// From 1.
    pub number: u32,
    /// Whether it is RoCE.
    pub ethernet: bool,
    /// Why it cannot be used, such as `port mlx5_0/1 is DOWN`.
    pub unusable: Option<String>,
}

impl Port {
    fn is(&self, port: &RdmaPort) -> bool {
        (self.device.as_str(), self.number, self.ethernet)
            == (port.device.as_str(), port.number, port.ethernet)
    }

    /// `ib` or `roce`.
    pub fn family(&self) -> &'static str {
        if self.ethernet { "roce" } else { "ib" }
    }
}

/// A host of the job.
#[derive(Debug, Clone)]
pub struct JobHost {
    /// Its name.
    pub name: String,
    /// What it has.
    pub survey: HostSurvey,
}

impl JobHost {
    /// The hosts that surveys describe, in their order.
    pub fn all(surveys: Vec<Survey>) -> Vec<JobHost> {
        let mut hosts: Vec<JobHost> = Vec::new();
        for Survey { fingerprint, host, .. } in surveys {
            if let Some(survey) = host.filter(|_| hosts.iter().all(|h| h.name != fingerprint.host))
            {
                hosts.push(JobHost { name: fingerprint.host, survey });
            }
        }
        hosts
    }
}

impl Here {
    /// What a job on `hosts` depends on, without anything that the user wants beyond it.
    pub fn of(hosts: Vec<JobHost>, prepared: &Prepared) -> Here {
        let plan = prepared.plan();
        let own =
            |(name, value): (String, String)| name.starts_with("NCCL_").then_some((name, value));
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Here {
            moved_by: plan.backend.spec().moved_by,
            benchmark: prepared.benchmark(),
            ranks: plan.ranks(),
            virtual_nodes: 1,
            // Of other hosts' GPUs nothing is loaded here.
            multicast: match hosts.len() {
                0 | 1 => prepared.gpus().and_then(Gpus::multicast),
                _ => None,
            },
            interfaces: interfaces(&hosts),
            ports: ports(&hosts),
            hosts,
            variables: variables.filter_map(own).collect(),
            wanted: Vec::new(),
            net_plugin: None,
            writes: verbs::words(prepared),
        }
    }

    /// Whether NCCL moves the bytes.
    pub(super) fn is_nccl(&self) -> bool {
        self.moved_by == MovedBy::Nccl
    }

    /// Whether the job has several real hosts.
    pub(super) fn has_hosts(&self) -> bool {
        self.hosts.len() > 1
    }

    /// Nodes as NCCL sees them: hosts, or virtual nodes of one.
    pub(super) fn nodes(&self) -> usize {
        if self.has_hosts() { self.hosts.len() } else { self.virtual_nodes.max(1) }
    }

    /// Why NVLink does not join the GPUs of different nodes (MNNVL).
    pub(super) fn no_mnnvl(&self) -> Option<String> {
        if !self.has_hosts() {
            return Some("one host: NVLink between hosts needs two".to_owned());
        }
        joined_by_nvlink(&self.hosts).err()
    }

    /// Whether the user named it in full.
    pub(super) fn is_wanted(&self, name: &str) -> bool {
        self.wanted.iter().any(|wanted| wanted == name)
    }

    /// The reason against it, if the environment sets a variable to something other than 0.
    pub(super) fn is_on(&self, name: &str) -> Option<String> {
        let value = self.variables.get(name)?;
        (!matches!(value.trim(), "" | "0")).then(|| left_so(name, value))
    }

    /// The reason against it, if the environment sets a variable to one of these values.
    pub(super) fn is_set_to(&self, name: &str, values: &[&str]) -> Option<String> {
        let value = self.variables.get(name)?;
        values.contains(&value.trim()).then(|| left_so(name, value))
    }

    /// The reason against it, if the environment's list of algorithms leaves one out, or excludes
    /// it behind `^`.
    pub(super) fn chooses_without(&self, name: &str, word: &str) -> Option<String> {
        let value = self.variables.get(name).filter(|value| !value.is_empty())?;
        let named = value.to_ascii_lowercase().contains(word);
        (named == value.contains('^')).then(|| left_so(name, value))
    }

    /// The reason against it, if the environment's list of devices leaves one out: prefixes, or
    /// names behind `=`; `^` inverts the list (nccl's src/misc/utils.cc, parseStringList,
    /// matchIfList).
    pub(super) fn leaves_out(&self, name: &str, device: &str) -> Option<String> {
        let value = self.variables.get(name).filter(|value| !value.is_empty())?;
        let (turned, list) = value.strip_prefix('^').map_or((false, value.as_str()), |l| (true, l));
        let (exact, list) = list.strip_prefix('=').map_or((false, list), |list| (true, list));
        let listed = list
            .split(',')
            .map(|entry| entry.split(':').next().unwrap_or(""))
            .any(|entry| if exact { entry == device } else { device.starts_with(entry) });
        (listed == turned).then(|| left_so(name, value))
    }

    /// Why nothing can be proven of any transport.
    pub(super) fn alone(&self) -> Option<String> {
        (self.ranks < 2).then(|| "one rank: there is no peer".to_owned())
    }

    /// Why no rank has a peer within its node.
    pub(super) fn lone_ranks(&self) -> Option<String> {
        let why = match self.benchmark.messages() {
            _ if self.nodes() < 2 => return None,
            // Rank i and rank i + n/2.
            Some(_) => {
                "the ranks of a pair are on different nodes: there is no traffic within a node"
            }
            None if self.ranks <= self.nodes() => {
                "each node has one rank: there is no traffic within a node"
            }
            None => return None,
        };
        Some(why.to_owned())
    }
}

/// Why a variable of the user's stands against a transport.
pub(super) fn left_so(name: &str, value: &str) -> String {
    format!("{name}={value} is set in the environment, and is not changed")
}

/// The interfaces of all hosts by name, in the first host's order. One that a host lacks, or that is down there, is
/// unusable: every rank gets the same list of interfaces.
fn interfaces(hosts: &[JobHost]) -> Vec<Interface> {
    let mut all: Vec<Interface> = Vec::new();
    for host in hosts {
        for interface in &host.survey.interfaces {
            if !all.iter().any(|known| known.name == interface.name) {
                all.push(interface.clone());
            }
        }
    }
    for interface in &mut all {
        let state = hosts.iter().find_map(|host| {
            let there = host.survey.interfaces.iter().find(|other| other.name == interface.name);
            let why = match there {
                Some(there) => there.unusable.clone()?,
                None => format!("there is no {}", interface.name),
            };
            Some(if hosts.len() > 1 { format!("on {} {why}", host.name) } else { why })
        });
        interface.unusable = state;
        if hosts.len() > 1 && interface.unusable.is_none() && interface.name == "lo" {
            interface.unusable = Some("lo reaches its own host only".to_owned());
        }
    }
    all
}

/// The RDMA ports of all hosts by device and number; as for interfaces.
fn ports(hosts: &[JobHost]) -> Vec<Port> {
    let mut all: Vec<Port> = Vec::new();
    for port in hosts.iter().flat_map(|host| &host.survey.ports) {
        if !all.iter().any(|known| known.is(port)) {
            let (device, number) = (port.device.clone(), port.number);
            all.push(Port { device, number, ethernet: port.ethernet, unusable: None });
        }
    }
    for port in &mut all {
        port.unusable = hosts.iter().find_map(|host| {
            let name = format!("port {}/{}", port.device, port.number);
            let why = match host.survey.ports.iter().find(|other| port.is(other)) {
                Some(there) if there.is_active() => return None,
                Some(there) => format!("{name} is {}", there.state),
                None => format!("there is no {name}"),
            };
            Some(if hosts.len() > 1 { format!("on {} {why}", host.name) } else { why })
        });
    }
    all
}

/// Whether NVLink joins the GPUs of all hosts: all registered with one cluster and clique (MNNVL).
fn joined_by_nvlink(hosts: &[JobHost]) -> Result<(), String> {
    let mut first = None;
    for host in hosts {
        let Some(cliques) = host.survey.nvlink_cliques() else {
            return Err(format!(
                "the GPUs of {} are not registered with an NVLink fabric that spans hosts (IMEX, nvidia-smi -q: Fabric)",
                host.name
            ));
        };
        match (&first, cliques.as_slice()) {
            (_, [] | [_, _, ..]) => {
                return Err(format!("the GPUs of {} are in several NVLink cliques", host.name));
            }
            (None, [clique]) => first = Some((host.name.clone(), clique.clone())),
            (Some((_, known)), [clique]) if known == clique => {}
            (Some((other, _)), _) => {
                return Err(format!(
                    "the GPUs of {other} and {} are in different NVLink cliques",
                    host.name
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
impl Here {
    /// A host with GPUs, an adapter and loopback.
    pub(super) fn rehearsal(ranks: usize) -> Here {
        let interface = |name: &str| Interface { name: name.to_owned(), ..Interface::default() };
        Here {
            moved_by: MovedBy::Nccl,
            benchmark: busbw_core::Collective::AllReduce.into(),
            ranks,
            virtual_nodes: 1,
            hosts: Vec::new(),
            multicast: Some(true),
            interfaces: vec![interface("eth0"), interface("lo")],
            ports: Vec::new(),
            variables: BTreeMap::new(),
            wanted: Vec::new(),
            net_plugin: None,
            writes: Ok(vec!["mbw_mr".into()]),
        }
    }

    /// The same with InfiniBand and RoCE.
    pub(super) fn with_rdma(mut self) -> Here {
        let port = |device: &str, ethernet| Port {
            device: device.to_owned(),
            number: 1,
            ethernet,
            unusable: None,
        };
        self.ports = vec![port("mlx5_0", false), port("mlx5_1", true)];
        self
    }
}

#[cfg(test)]
impl JobHost {
    /// A host with these interfaces, these active ports, and GPUs of an NVLink clique.
    pub(super) fn made_up(
        name: &str,
        interfaces: &[(&str, f64)],
        ports: &[(&str, bool)],
        clique: Option<u32>,
    ) -> JobHost {
        use busbw_hardware::topology::{Device, Ends, Fabric, Gpu, Parent, System};
        let interface = |(name, gbps): &(&str, f64)| Interface {
            name: (*name).to_owned(),
            gbps: Some(*gbps),
            mtu: Some(9000),
            ..Interface::default()
        };
        let port = |(device, ethernet): &(&str, bool)| RdmaPort {
            device: (*device).to_owned(),
            number: 1,
            ethernet: *ethernet,
            state: "ACTIVE".to_owned(),
        };
        let fabric = clique.map(|clique| Fabric {
            state: "completed".to_owned(),
            cluster: Some("c1".to_owned()),
            clique,
        });
        let gpu = Device {
            address: "0000:01:00.0".to_owned(),
            parent: Parent::Cpu(0),
            class: None,
            vendor: None,
            device: None,
            subsystem_vendor: None,
            subsystem_device: None,
            link: Ends::default(),
            host_bridge: None,
            peers: Vec::new(),
            gpu: Some(Gpu { fabric, ..Gpu::default() }),
            nets: Vec::new(),
        };
        let survey = HostSurvey {
            findings: Vec::new(),
            interfaces: interfaces.iter().map(interface).collect(),
            ports: ports.iter().map(port).collect(),
            variables: BTreeMap::new(),
            system: System { devices: vec![gpu], ..System::default() },
        };
        JobHost { name: name.to_owned(), survey }
    }
}

#[cfg(test)]
impl Here {
    /// The same job on these hosts.
    pub(super) fn on(self, hosts: Vec<JobHost>) -> Here {
        Here { interfaces: interfaces(&hosts), ports: ports(&hosts), hosts, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one host lacks no rank can be told to use.
    #[test]
    fn what_all_hosts_have() {
        let a = JobHost::made_up(
            "a",
            &[("eth0", 1.0), ("eth1", 1.0), ("lo", 1.0)],
            &[("mlx5_0", false)],
            None,
        );
        let b = JobHost::made_up("b", &[("eth0", 1.0), ("lo", 1.0)], &[("mlx5_0", true)], None);
        let here = Here::rehearsal(2).on(vec![a, b]);
        let why: Vec<(&str, Option<&str>)> = here
            .interfaces
            .iter()
            .map(|one| (one.name.as_str(), one.unusable.as_deref()))
            .collect();
        let expected = [
            ("eth0", None),
            ("eth1", Some("on b there is no eth1")),
            ("lo", Some("lo reaches its own host only")),
        ];
        assert_eq!(why, expected);
        let why: Vec<&str> =
            here.ports.iter().filter_map(|port| port.unusable.as_deref()).collect();
        assert_eq!(why, ["on b there is no port mlx5_0/1", "on a there is no port mlx5_0/1"]);
    }

    /// NVLink spans hosts whose GPUs are in one clique.
    #[test]
    fn cliques_of_hosts() {
        let here = |cliques: [Option<u32>; 2]| {
            let host = |(name, clique)| JobHost::made_up(name, &[], &[], clique);
            Here::rehearsal(2).on(["a", "b"].into_iter().zip(cliques).map(host).collect())
        };
        assert_eq!(here([Some(1), Some(1)]).no_mnnvl(), None);
        assert!(here([Some(1), Some(2)]).no_mnnvl().unwrap().contains("a and b"));
        assert!(here([Some(1), None]).no_mnnvl().unwrap().contains("GPUs of b are not registered"));
        assert!(Here::rehearsal(2).no_mnnvl().unwrap().starts_with("one host"));
    }

    #[test]
    fn lists_of_devices() {
        let mut here = Here::rehearsal(2);
        for (list, device, out) in [
            ("eth", "eth0", false),
            ("=eth", "eth0", true),
            ("^eth", "eth0", true),
            ("^=eth", "eth0", false),
            ("mlx5_1:1,mlx5_2", "mlx5_2", false),
            ("mlx5_1", "mlx5_10", false),
            ("=mlx5_1", "mlx5_10", true),
            ("", "x", false),
        ] {
            here.variables.insert("L".to_owned(), list.to_owned());
            assert_eq!(here.leaves_out("L", device).is_some(), out, "{list} {device}");
        }
    }
}
