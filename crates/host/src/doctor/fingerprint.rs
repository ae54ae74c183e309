//! The fingerprint of each rank (its software and hardware), and the facts in which ranks differ.
//! Not the checks of a single node, and not the transfer of fingerprints.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use busbw_ffi::nvml::{Gpu, Reading};
use serde::{Deserialize, Serialize};

use busbw_core::finding::Finding;
use busbw_core::quantity::ranged;

use super::{
    Node,
    advice::{About, Advice},
    network, priorities,
};
use crate::machine::{self, Limit};
use busbw_store as store;

/// One rank's software and hardware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Its host.
    pub host: String,
    /// Its number.
    pub rank: usize,
    /// Facts by name. Facts that cannot be read are left out.
    pub facts: BTreeMap<String, String>,
}

impl Fingerprint {
    /// Reads the fingerprint of rank `rank`, whose GPU has NVML's number `gpu`.
    pub fn take(node: &Node, host: &str, rank: usize, gpu: Option<u32>) -> Fingerprint {
        let mut facts = BTreeMap::new();
        let mut add = |name: &str, value: Option<String>| {
            facts.extend(value.map(|value| (name.to_owned(), value)));
        };
        add("kernel", node.root.text("proc/sys/kernel/osrelease"));
        add("driver", node.driver.as_ref().ok().and_then(|d| d.version.value().cloned()));
        add("NCCL", node.used_nccl().and_then(|nccl| nccl.version.clone()));
        let devices = node.rdma.iter();
        add("NIC firmware", counted(devices.clone().filter_map(|d| d.firmware.clone())));
        let ports = devices.clone().flat_map(|device| &device.ports);
        add("NIC ports", counted(ports.map(|port| format!("{} {}", port.state, port.rate))));
        add("NIC driver", counted(devices.clone().filter_map(|d| network::kernel_driver(node, d))));
        add("NIC priorities", counted(priorities::of_ports(node).into_iter()));
        add("NIC PFC", counted(priorities::pauses_of_ports(node).into_iter()));
        let interfaces = devices.flat_map(|device| &device.interfaces);
        let mtu = |name: &String| node.root.text(format!("sys/class/net/{name}/mtu"));
        add("NIC MTU", counted(interfaces.filter_map(mtu)));
        let links =
            node.adapters().filter_map(|(_, device)| Some(device.link.now.link()?.to_string()));
        add("NIC PCIe links", counted(links));
        add("memlock", locked_memory(node));
        for interface in machine::interfaces(&node.root, |_| None) {
            // By network: the same interface may have another name on another host.
            if let (Some(mtu), None) = (interface.mtu, interface.unusable) {
                let facts_of = interface.subnets.iter().map(|net| format!("MTU on {net}"));
                facts_of.for_each(|name| add(&name, Some(mtu.to_string())));
            }
        }
        if let Some(gpu) = node.gpus().find(|known| Some(known.index) == gpu) {
            facts.extend(gpu_facts(gpu));
        }
        let variables = node.environment.all().filter(|(name, _)| is_variable(name));
        facts.extend(
            variables
                .map(|(name, value)| (name.clone(), store::shown(name, &value.to_string_lossy()))),
        );
        Fingerprint { host: host.to_owned(), rank, facts }
    }
}

/// NCCL's variables, and those that give the queue pairs of others their place in the network.
fn is_variable(fact: &str) -> bool {
    let of_class = |(class, level): &(&str, &str)| fact == *class || fact == *level;
    fact.starts_with("NCCL_") || priorities::VARIABLES.iter().any(of_class)
}

/// How much memory a process may lock: RDMA registers all that it sends from.
fn locked_memory(node: &Node) -> Option<String> {
    if machine::may_lock(&node.root) == Some(true) {
        return Some("unlimited (CAP_IPC_LOCK)".to_owned());
    }
    Some(match machine::locked_memory(&node.root)? {
        Limit::Unlimited => "unlimited".to_owned(),
        Limit::Bytes(bytes) => format!("{bytes} B"),
    })
}

fn gpu_facts(gpu: &Gpu) -> impl Iterator<Item = (String, String)> {
    fn fact<T>(reading: &Reading<T>, show: impl Fn(&T) -> String) -> Option<String> {
        reading.value().map(show)
    }
    [
        ("GPU", Some(gpu.name.clone())),
        ("GPU firmware", fact(&gpu.vbios, String::clone)),
        ("GPU PCIe lanes", fact(&gpu.pcie, |(_, width)| format!("x{width}"))),
        ("GPU SM clock limit", fact(&gpu.sm_max_mhz, |mhz| format!("{mhz} MHz"))),
        ("GPU memory clock limit", fact(&gpu.memory_max_mhz, |mhz| format!("{mhz} MHz"))),
        ("GPU power limit", fact(&gpu.power_limit_mw, |mw| format!("{} W", mw / 1000))),
        ("GPU ECC", fact(&gpu.ecc, |on| if *on { "on" } else { "off" }.to_owned())),
        ("NVLinks up", fact(&gpu.nvlinks, |links| links.up.to_string())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
}

/// `7 x ACTIVE 400 Gb/sec, 1 x DOWN`, in an order that does not depend on names; none of nothing.
fn counted(values: impl Iterator<Item = String>) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let each: Vec<String> =
        counts.iter().map(|(value, count)| format!("{count} x {value}")).collect();
    (!each.is_empty()).then(|| each.join(", "))
}

/// A fact in which ranks differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which.
    pub fact: String,
    /// Values and the ranks that have them, the most frequent first; none where it cannot be read.
    pub groups: Vec<(Option<String>, Vec<String>)>,
}

/// The facts in which ranks differ. Hosts are named where all ranks of each host agree, else ranks.
pub fn compare(ranks: &[Fingerprint]) -> Vec<Difference> {
    let facts: BTreeSet<&String> = ranks.iter().flat_map(|rank| rank.facts.keys()).collect();
    facts.into_iter().filter_map(|fact| difference(fact, ranks)).collect()
}

fn difference(fact: &String, ranks: &[Fingerprint]) -> Option<Difference> {
    let first = ranks.first()?.facts.get(fact);
    if ranks.iter().all(|rank| rank.facts.get(fact) == first) {
        return None;
    }
    let mut hosts: BTreeMap<&str, BTreeSet<Option<&String>>> = BTreeMap::new();
    for rank in ranks {
        hosts.entry(&rank.host).or_default().insert(rank.facts.get(fact));
    }
    let by_host = hosts.values().all(|values| values.len() == 1);
    let one_host = hosts.len() == 1;
    let mut groups: BTreeMap<Option<&String>, Vec<String>> = BTreeMap::new();
    for rank in ranks {
        let name = match (by_host, one_host) {
            (true, _) => rank.host.clone(),
            (false, true) => format!("rank {}", rank.rank),
            (false, false) => format!("{} rank {}", rank.host, rank.rank),
        };
        let members = groups.entry(rank.facts.get(fact)).or_default();
        if !by_host || !members.contains(&name) {
            members.push(name);
        }
    }
    let mut groups: Vec<(Option<String>, Vec<String>)> =
        groups.into_iter().map(|(value, members)| (value.cloned(), members)).collect();
    groups.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
    Some(Difference { fact: fact.clone(), groups })
}

impl Difference {
    /// The most frequent value; none where two are equally frequent.
    fn majority(&self) -> Option<(&Option<String>, usize)> {
        let (value, members) = self.groups.first()?;
        let next = self.groups.get(1).map_or(0, |(_, members)| members.len());
        (members.len() > next).then_some((value, members.len()))
    }

    fn shown<'a>(&self, value: &'a Option<String>) -> &'a str {
        match value {
            Some(value) => value,
            None if is_variable(&self.fact) => "unset",
            None => "unknown",
        }
    }

    /// One sentence for each group that differs from the majority: ranks, and value.
    fn sentences(&self) -> Vec<(String, String)> {
        let Some((usual, others)) = self.majority() else {
            let each = self.groups.iter();
            let each = each.map(|(value, who)| format!("{} on {}", self.shown(value), listed(who)));
            let all = each.collect::<Vec<String>>().join("; ");
            return vec![("ranks".to_owned(), format!("{} {all}", self.fact))];
        };
        let usual = self.shown(usual);
        let outlying = self.groups.iter().skip(1);
        outlying
            .map(|(value, who)| {
                let (fact, value) = (&self.fact, self.shown(value));
                let have = if others == 1 { "other has" } else { "others have" };
                (listed(who), format!("{fact} {value} where {others} {have} {usual}"))
            })
            .collect()
    }

    /// The findings.
    pub fn findings(&self) -> Vec<Finding> {
        const ABOUT: About = About("ranks");
        let confirm = match self.fact.as_str() {
            "NCCL" => "NCCL_DEBUG=VERSION on every node",
            "driver" | "GPU" | "GPU firmware" => "nvidia-smi -q on each",
            name if is_variable(name) => "env | grep -e NCCL_ -e _IB_ on each",
            "NIC priorities" => "mlnx_qos -i INTERFACE; env | grep _IB_T on each",
            "NIC PFC" => "dcb pfc show dev INTERFACE on each",
            name if name.starts_with("NIC") => "ibstat; ip link on each",
            name if name.starts_with("MTU") => "ip link on each",
            "memlock" => "ulimit -l on each, as the job daemon starts processes",
            "kernel" => "uname -r on each",
            _ => "nvidia-smi -q on each",
        };
        let judge = |(who, what): (String, String)| match weight(&self.fact) {
            Weight::Breaks => {
                let advice = Advice {
                    cost: "ranks may choose different algorithms, and hang or fail at the start",
                    remedy: "make it the same on every rank",
                    confirm,
                };
                ABOUT.error(&who, what, &advice)
            }
            Weight::Costs => {
                let advice = Advice {
                    cost: "every collective waits for the slowest rank",
                    remedy: "find out what is different there; busbw doctor on that node says more",
                    confirm,
                };
                ABOUT.slow(&who, what, &advice)
            }
            Weight::Tells => ABOUT.note(&who, what, confirm),
        };
        self.sentences().into_iter().map(judge).collect()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.sentences().into_iter().map(|(who, what)| format!("{who}: {what}"));
        f.write_str(&all.collect::<Vec<_>>().join("\n"))
    }
}

/// What a difference in a fact means.
enum Weight {
    Breaks,
    Costs,
    Tells,
}

fn weight(fact: &str) -> Weight {
    // Where output goes and what this host's devices are called may well differ.
    const OWN: [&str; 7] = [
        "NCCL_DEBUG",
        "NCCL_DEBUG_FILE",
        "NCCL_HOSTID",
        "NCCL_IB_HCA",
        "NCCL_SOCKET_IFNAME",
        "NCCL_TOPO_FILE",
        "NCCL_TOPO_DUMP_FILE",
    ];
    match fact {
        "kernel" | "driver" | "NIC firmware" | "NIC driver" | "GPU firmware" => Weight::Tells,
        name if OWN.contains(&name) => Weight::Tells,
        // All ranks must decide alike: see NCCL's troubleshooting, and tuner_v*.h.
        "NCCL" => Weight::Breaks,
        name if name.starts_with("NCCL_") => Weight::Breaks,
        _ => Weight::Costs,
    }
}

/// The first names, and how many more.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let first = ranged(&names[..names.len().min(SHOWN)]);
    match names.len().saturating_sub(SHOWN) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rank(host: usize, rank: usize, facts: &[(&str, &str)]) -> Fingerprint {
        let facts = facts.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Fingerprint { host: format!("node{host}"), rank, facts }
    }

    fn printed(ranks: &[Fingerprint]) -> Vec<String> {
        compare(ranks).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_host_of_sixteen() {
        let ranks: Vec<Fingerprint> = (0..128)
            .map(|r| {
                rank(
                    r / 8,
                    r,
                    &[("NCCL", if r / 8 == 7 { "2.27" } else { "2.28" }), ("driver", "580")],
                )
            })
            .collect();
        assert_eq!(printed(&ranks), ["node7: NCCL 2.27 where 15 others have 2.28"]);
    }

    #[test]
    fn one_gpu_of_a_host() {
        let lanes = |r| if r == 3 { "x8" } else { "x16" };
        let one: Vec<Fingerprint> =
            (0..8).map(|r| rank(0, r, &[("GPU PCIe lanes", lanes(r))])).collect();
        assert_eq!(printed(&one), ["rank 3: GPU PCIe lanes x8 where 7 others have x16"]);
        let two: Vec<Fingerprint> =
            (0..16).map(|r| rank(r / 8, r, &[("GPU PCIe lanes", lanes(r))])).collect();
        assert_eq!(printed(&two), ["node0 rank 3: GPU PCIe lanes x8 where 15 others have x16"]);
    }

    #[test]
    fn halves_and_what_is_unset() {
        let half = |r: usize| if r < 2 { "4096" } else { "1024" };
        let ranks: Vec<Fingerprint> = (0..4).map(|r| rank(r, r, &[("NIC MTU", half(r))])).collect();
        assert_eq!(printed(&ranks), ["ranks: NIC MTU 1024 on node2-3; 4096 on node0-1"]);
        let mut ranks: Vec<Fingerprint> =
            (0..3).map(|r| rank(r, r, &[("NCCL_ALGO", "RING"), ("driver", "580")])).collect();
        ranks[1].facts.clear();
        let want = [
            "node1: NCCL_ALGO unset where 2 others have RING",
            "node1: driver unknown where 2 others have 580",
        ];
        assert_eq!(printed(&ranks), want);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Of up to a thousand ranks, exactly the planted outliers are named, once each.
        #[test]
        fn outliers_are_found(
            hosts in 1..125_usize,
            per_host in 1..9_usize,
            odd in prop::collection::btree_set(0..1000_usize, 0..20),
        ) {
            let count = hosts * per_host;
            let odd: BTreeSet<usize> = odd.into_iter().map(|r| r % count).collect();
            prop_assume!(odd.len() * 2 < count);
            let ranks: Vec<Fingerprint> = (0..count)
                .map(|r| {
                    let clock = if odd.contains(&r) { "1200 MHz" } else { "1980 MHz" };
                    rank(r / per_host, r, &[("GPU SM clock limit", clock), ("driver", "580")])
                })
                .collect();
            let found = compare(&ranks);
            prop_assert_eq!(found.len(), usize::from(!odd.is_empty()));
            for difference in &found {
                prop_assert_eq!(&difference.fact, "GPU SM clock limit");
                let members: usize = difference.groups.iter().map(|(_, who)| who.len()).sum();
                let by_host = difference.groups.iter().all(|(_, who)| who.iter().all(|n| !n.contains("rank")));
                prop_assert_eq!(members, if by_host { hosts } else { count });
                let slow = difference.groups.iter().find(|(v, _)| v.as_deref() == Some("1200 MHz")).unwrap();
                let named = if by_host { slow.1.len() * per_host } else { slow.1.len() };
                prop_assert_eq!(named, odd.len());
            }
        }

        #[test]
        fn equal_ranks_differ_in_nothing(count in 1..1000_usize, value in "[a-z0-9.]{0,8}") {
            let ranks: Vec<Fingerprint> =
                (0..count).map(|r| rank(r / 8, r, &[("NCCL", value.as_str())])).collect();
            prop_assert!(compare(&ranks).is_empty());
        }
    }
}
