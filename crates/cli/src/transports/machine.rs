//! The facts about this machine that transports depend on: interfaces, RDMA ports, GPUs, and the
//! user's environment.
//! Not which transports follow from them (`profile`).

use std::{collections::BTreeMap, path::PathBuf};

use busbw_core::{Benchmark, plan::MovedBy};

use crate::{options::TransportsArguments, sweep::Prepared};
use busbw_host::machine::{self, Root};

/// The machine and the job, as far as transports depend on them.
#[derive(Debug, Clone)]
pub struct Here {
    /// Whether NCCL moves the bytes.
    pub is_nccl: bool,
    /// What is measured.
    pub benchmark: Benchmark,
    /// Ranks.
    pub ranks: usize,
    /// Virtual nodes of this host (`--virtual-nodes`).
    pub nodes: usize,
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
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Why NCCL would not use it.
    pub why_not: Option<String>,
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
    /// Whether it is up.
    pub active: bool,
    /// As the kernel says it.
    pub state: String,
}

impl Port {
    /// `ib` or `roce`.
    pub fn family(&self) -> &'static str {
        if self.ethernet { "roce" } else { "ib" }
    }
}

impl Here {
    /// Reads the machine under `root` for a job.
    pub fn look(root: &Root, prepared: &Prepared, arguments: &TransportsArguments) -> Here {
        let plan = prepared.plan();
        let own =
            |(name, value): (String, String)| name.starts_with("NCCL_").then_some((name, value));
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Here {
            is_nccl: plan.backend.spec().moved_by == MovedBy::Nccl,
            benchmark: prepared.benchmark(),
            ranks: plan.ranks(),
            nodes: usize::from(arguments.virtual_nodes.unwrap_or(1)),
            multicast: prepared.gpus().and_then(busbw_runner::backend::nccl::Gpus::multicast),
            interfaces: interfaces(root),
            ports: ports(root),
            variables: variables.filter_map(own).collect(),
            wanted: arguments.only.clone(),
            net_plugin: arguments.net_plugin.clone(),
        }
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
            _ if self.nodes < 2 => return None,
            // Rank i and rank i + n/2.
            Some(_) => {
                "the ranks of a pair are on different virtual nodes: there is no traffic within a node"
            }
            None if self.ranks <= self.nodes => {
                "each virtual node has one rank: there is no traffic within a node"
            }
            None => return None,
        };
        Some(why.to_owned())
    }
}

fn left_so(name: &str, value: &str) -> String {
    format!("{name}={value} is set in the environment, and is not changed")
}

/// Interfaces that are up and have an address, in NCCL's order (src/misc/socket.cc,
/// ncclFindInterfaces): ib*, others, docker*, lo, virbr*.
fn interfaces(root: &Root) -> Vec<Interface> {
    let route = root.text("proc/net/route").unwrap_or_default();
    let six = root.text("proc/net/if_inet6").unwrap_or_default();
    let first = route.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let last = six.lines().filter_map(|line| line.split_whitespace().last());
    let addressed: Vec<&str> = first.chain(last).chain(["lo"]).collect();
    let mut all: Vec<Interface> = root
        .names("sys/class/net")
        .into_iter()
        .filter(|name| name != "bonding_masters")
        .map(|name| {
            let state = root.text(format!("sys/class/net/{name}/operstate")).unwrap_or_default();
            let why_not = match state.trim() {
                "up" | "unknown" if addressed.contains(&name.as_str()) => None,
                "up" | "unknown" => Some(format!("{name} has no address")),
                "" => Some(format!("{name} does not say whether it is up")),
                other => Some(format!("{name} is {other}")),
            };
            Interface { name, why_not }
        })
        .collect();
    let place = |name: &str| match name {
        ib if ib.starts_with("ib") => 0,
        docker if docker.starts_with("docker") => 2,
        "lo" => 3,
        bridge if bridge.starts_with("virbr") => 4,
        _ => 1,
    };
    all.sort_by_key(|one| (place(&one.name), one.name.clone()));
    all
}

fn ports(root: &Root) -> Vec<Port> {
    let of_device = |device: machine::RdmaDevice| {
        let ports = device.ports.into_iter().map(move |port| Port {
            device: device.name.clone(),
            number: port.number,
            ethernet: port.ethernet,
            active: port.state == "ACTIVE",
            state: port.state,
        });
        ports.collect::<Vec<_>>()
    };
    machine::rdma(root).into_iter().flat_map(of_device).collect()
}

#[cfg(test)]
impl Here {
    /// A host with GPUs, an adapter and loopback.
    pub(super) fn rehearsal(ranks: usize) -> Here {
        let interface = |name: &str| Interface { name: name.to_owned(), why_not: None };
        Here {
            is_nccl: true,
            benchmark: busbw_core::Collective::AllReduce.into(),
            ranks,
            nodes: 1,
            multicast: Some(true),
            interfaces: vec![interface("eth0"), interface("lo")],
            ports: Vec::new(),
            variables: BTreeMap::new(),
            wanted: Vec::new(),
            net_plugin: None,
        }
    }

    /// The same with InfiniBand and RoCE.
    pub(super) fn with_rdma(mut self) -> Here {
        let port = |device: &str, ethernet| Port {
            device: device.to_owned(),
            number: 1,
            ethernet,
            active: true,
            state: "ACTIVE".to_owned(),
        };
        self.ports = vec![port("mlx5_0", false), port("mlx5_1", true)];
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_of_a_recorded_tree() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (name, state) in
            [("lo", "unknown"), ("docker0", "up"), ("eno2", "up"), ("eno1", "down"), ("ib0", "up")]
        {
            write(&format!("sys/class/net/{name}/operstate"), state);
        }
        write("proc/net/route", "Iface Destination\neno2 0000\neno1 0000\nib0 0000\n");
        let found = interfaces(&Root::new(folder.path()));
        let told: Vec<(&str, Option<&str>)> =
            found.iter().map(|one| (one.name.as_str(), one.why_not.as_deref())).collect();
        let expected = [
            ("ib0", None),
            ("eno1", Some("eno1 is down")),
            ("eno2", None),
            ("docker0", Some("docker0 has no address")),
            ("lo", None),
        ];
        assert_eq!(told, expected);
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
