//! Interfaces that are slow by themselves, and interfaces whose paths share a link: by what busbw's net plugin counted on each with
//! all of them in use, with one alone, and with those that are in doubt.
//! Not the launches that this needs (`busbw tune` makes them), and not the paths of one interface (`explain::rules::paths`).
//!
//! Rates of one launch cannot tell a slow link from a link that two interfaces share: both are slower than the others. Alone, the
//! first stays slow, and the second is as fast as any.

use std::{collections::BTreeSet, net::IpAddr};

use busbw_core::{
    finding::{Confidence, Finding, Severity},
    quantity::{list, rate},
};
use nccl_plugin_abi::net_stats::{NetConnection, NetPath, NetStats};

/// Bytes over an interface from which its rate is known.
const MIN_BYTES: u64 = 1 << 20;
/// An interface is in doubt below this share of its host's fastest. Healthy ones of a shared machine had 0.9 and more.
const DOUBTED_BELOW: f64 = 0.8;
/// Alone it is slow below this share of the fastest alone.
const SLOW_BELOW: f64 = 0.7;
/// Interfaces share one link if together they carry less than so many times what the fastest of them carries alone.
const SHARED_BELOW: f64 = 1.4;
/// Interfaces that are looked at one by one, at most: each needs a launch.
const MAX_DOUBTED: usize = 8;

/// What the paths of an interface carried in a launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Carried {
    /// The host that sends.
    pub host: String,
    /// The interface's name, and its address.
    pub interface: String,
    /// See above.
    pub address: IpAddr,
    /// GB/s of its paths while they were busy, all of them together.
    pub rate: f64,
    /// Its nominal speed as a share of the fastest of its host; 1 where that is not known of all.
    pub share: f64,
}

impl Carried {
    /// The rate of an interface of the full nominal speed that is as good.
    fn normal(&self) -> f64 {
        self.rate / self.share
    }
}

/// Interfaces that are slower than another of their host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubted {
    /// The fastest, to hold the others against.
    pub fastest: String,
    /// The slower ones.
    pub slower: Vec<String>,
}

/// What each interface carried to other hosts, host by host.
#[must_use]
pub fn carried(all: &[NetStats]) -> Vec<Carried> {
    let hosts: BTreeSet<&str> = all.iter().map(|process| process.host.as_str()).collect();
    let mut carried = Vec::new();
    for host in hosts {
        let processes: Vec<&NetStats> = all.iter().filter(|one| one.host == host).collect();
        let paths: Vec<&NetPath> = processes
            .iter()
            .flat_map(|process| process.connections.iter().filter(|one| leaves(process, one)))
            .flat_map(|connection| &connection.paths)
            .collect();
        let first = carried.len();
        for one in processes.first().map(|process| &process.interfaces).into_iter().flatten() {
            let of_it = |path: &&&NetPath| path.local.is_some_and(|at| at.ip() == one.address);
            let own: Vec<&&NetPath> = paths.iter().filter(of_it).collect();
            let bytes = own.iter().fold(0_u64, |sum, path| sum.saturating_add(path.timed_bytes));
            if bytes >= MIN_BYTES {
                carried.push(Carried {
                    host: host.to_owned(),
                    interface: one.name.clone(),
                    address: one.address,
                    rate: own.iter().filter_map(|path| path.rate()).sum(),
                    share: f64::from(one.speed_mbps.unwrap_or(0)),
                });
            }
        }
        let of_host = &mut carried[first..];
        let fastest = of_host.iter().map(|one| one.share).fold(0.0, f64::max);
        let is_known = of_host.iter().all(|one| one.share > 0.0);
        for one in of_host {
            one.share = if is_known { one.share / fastest } else { 1.0 };
        }
    }
    carried
}

/// Whether a connection leaves its host.
fn leaves(process: &NetStats, connection: &NetConnection) -> bool {
    let peer = connection.peer;
    !peer.is_loopback() && process.interfaces.iter().all(|one| one.address != peer)
}

/// The least share that interface `this` has of what `other` carries, over hosts; `None` where none has figures of both.
fn share(this: (&str, &[Carried]), other: (&str, &[Carried])) -> Option<f64> {
    let find = |(interface, all): (&str, &[Carried]), host: &str| {
        all.iter().find(|one| one.host == host && one.interface == interface).map(Carried::normal)
    };
    let hosts = this.1.iter().filter(|one| one.interface == this.0);
    let shares = hosts.filter_map(|one| Some(one.normal() / find(other, &one.host)?));
    shares.min_by(f64::total_cmp)
}

/// The interfaces that need a look alone, by a launch with all of them in use; `None` where each is as fast as the others.
#[must_use]
pub fn doubted(together: &[Carried]) -> Option<Doubted> {
    let names: BTreeSet<&str> = together.iter().map(|one| one.interface.as_str()).collect();
    // The one that is good on every host.
    let worst = |name: &str| {
        let others = names.iter().filter(|other| **other != name);
        let shares = others.filter_map(|other| share((name, together), (other, together)));
        shares.min_by(f64::total_cmp)
    };
    let known = names.iter().filter_map(|name| Some((*name, worst(name)?)));
    let (fastest, _) = known.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let is_slower = |name: &&str| {
        share((name, together), (fastest, together)).is_some_and(|s| s < DOUBTED_BELOW)
    };
    let slower: Vec<String> =
        names.iter().copied().filter(is_slower).take(MAX_DOUBTED).map(str::to_owned).collect();
    (!slower.is_empty()).then(|| Doubted { fastest: fastest.to_owned(), slower })
}

/// Those of the doubted that are as fast as the fastest when each is alone: what slows them is the others.
#[must_use]
pub fn fast_alone(doubted: &Doubted, alone: &[Carried]) -> Vec<String> {
    let is_fast = |name: &&String| {
        share((name.as_str(), alone), (doubted.fastest.as_str(), alone))
            .is_some_and(|share| share >= SLOW_BELOW)
    };
    doubted.slower.iter().filter(is_fast).cloned().collect()
}

/// What holds: `together` is a launch with all interfaces, `alone` has one each for the doubted ones and the fastest, `several` is
/// one with all that are [fast alone](fast_alone) and no other.
#[must_use]
pub fn judge(
    doubted: &Doubted,
    together: &[Carried],
    alone: &[Carried],
    several: &[Carried],
) -> Vec<Finding> {
    let fast = fast_alone(doubted, alone);
    let slow = doubted.slower.iter().filter(|name| !fast.contains(name));
    let mut findings: Vec<Finding> =
        slow.filter_map(|name| slow_path(name, &doubted.fastest, together, alone)).collect();
    findings.extend(collision(&fast, doubted, together, alone, several));
    findings
}

/// `eth1 (10.0.0.1 on host-a)`.
fn named(one: &Carried) -> String {
    format!("{} ({} on {})", one.interface, one.address, one.host)
}

/// GB/s as Gb/s.
fn gbps(gigabytes: f64) -> String {
    rate(gigabytes * 8.0)
}

/// The figure of an interface on a host.
fn figure(all: &[Carried], host: &str, interface: &str) -> Option<f64> {
    all.iter().find(|one| one.host == host && one.interface == interface).map(|one| one.rate)
}

fn slow_path(
    name: &str,
    fastest: &str,
    together: &[Carried],
    alone: &[Carried],
) -> Option<Finding> {
    let of_host = |one: &&Carried| {
        let beside =
            alone.iter().find(|other| other.host == one.host && other.interface == fastest);
        beside.map_or(f64::INFINITY, |other| one.normal() / other.normal())
    };
    let here = alone.iter().filter(|one| one.interface == name);
    let worst = here.min_by(|a, b| of_host(a).total_cmp(&of_host(b)))?;
    let other = figure(alone, &worst.host, fastest)?;
    let beside = together.iter().filter(|one| one.host == worst.host);
    let beside: Vec<String> =
        beside.map(|one| format!("{} {}", one.interface, gbps(one.rate))).collect();
    let cause = format!(
        "slow path: {} carries {} Gb/s alone, {fastest} {} Gb/s alone; in Gb/s with all in use: {}",
        named(worst),
        gbps(worst.rate),
        gbps(other),
        beside.join(", "),
    );
    Some(
        Finding::new("slow-path", Severity::Slow, cause)
            .confidence(Confidence::Likely)
            .remedy(format!("check {name} on both hosts, its cable, its switch port, and what else uses its link"))
            .confirm(format!("ethtool {name} | grep Speed, at both ends; busbw doctor")),
    )
}

fn collision(
    fast: &[String],
    doubted: &Doubted,
    together: &[Carried],
    alone: &[Carried],
    several: &[Carried],
) -> Option<Finding> {
    if fast.len() < 2 {
        return None;
    }
    let hosts: BTreeSet<&str> = several.iter().map(|one| one.host.as_str()).collect();
    let shared = hosts.into_iter().filter_map(|host| {
        let each = |all: &[Carried]| -> Option<Vec<f64>> {
            fast.iter().map(|name| figure(all, host, name)).collect()
        };
        let sum: f64 = each(several)?.iter().sum();
        let most = each(alone)?.into_iter().fold(0.0, f64::max);
        Some((host, sum, sum / most))
    });
    let (host, sum, times) = shared.min_by(|a, b| a.2.total_cmp(&b.2))?;
    if times >= SHARED_BELOW {
        return None;
    }
    let here = |name: &String| alone.iter().find(|one| one.host == host && one.interface == *name);
    let names: Vec<String> = fast.iter().filter_map(here).map(named).collect();
    let rates = |all: &[Carried]| -> String {
        let rates = fast.iter().filter_map(|name| figure(all, host, name));
        list(&rates.map(gbps).collect::<Vec<_>>(), "and")
    };
    let cause = format!(
        "collision: the paths of {} share one link: {} Gb/s each alone, {} Gb/s together; with all in use {} Gb/s, and {} {} Gb/s",
        list(&names, "and"),
        rates(alone),
        gbps(sum),
        rates(together),
        doubted.fastest,
        figure(together, host, &doubted.fastest).map_or("?".to_owned(), gbps),
    );
    Some(
        Finding::new("path-collision", Severity::Slow, cause)
            .confidence(Confidence::Likely)
            .remedy("find where their routes meet (a hash of ECMP or of a bond, VLANs on one uplink), and give each a link of its own")
            .confirm("the counters of the switches' ports while both send"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `host interface rate` each.
    fn all(text: &str) -> Vec<Carried> {
        let one = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            Carried {
                host: words[0].to_owned(),
                interface: words[1].to_owned(),
                address: "10.0.0.1".parse().unwrap(),
                rate: words[2].parse().unwrap(),
                share: words.get(3).map_or(1.0, |share| share.parse().unwrap()),
            }
        };
        text.split(',').map(one).collect()
    }

    #[test]
    fn even_interfaces_are_not_doubted() {
        assert_eq!(doubted(&all("a e1 .23,a e2 .22,a e3 .20,b e1 .25,b e2 .24,b e3 .23")), None);
        assert_eq!(doubted(&all("a e1 .23,b e1 .11")), None);
        // A quarter of the speed is what an interface of a quarter of the nominal speed should carry.
        assert_eq!(doubted(&all("a e1 .24,a e2 .06 .25")), None);
        assert_eq!(doubted(&[]), None);
    }

    #[test]
    fn a_slow_path_is_slow_alone_too() {
        let together = all("a e1 .23,a e2 .09,a e3 .25,b e1 .25,b e2 .24,b e3 .24");
        let doubted = doubted(&together).unwrap();
        assert_eq!((doubted.fastest.as_str(), &doubted.slower[..]), ("e3", &["e2".to_owned()][..]));
        let alone = all("a e2 .07,a e3 .24,b e2 .24,b e3 .22");
        assert_eq!(fast_alone(&doubted, &alone), Vec::<String>::new());
        let found = judge(&doubted, &together, &alone, &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].cause.starts_with("slow path: e2 (10.0.0.1 on a)"), "{}", found[0].cause);
    }

    #[test]
    fn interfaces_that_are_fast_alone_and_not_together_collide() {
        let together = all("a e1 .14,a e2 .11,a e3 .25,b e1 .12,b e2 .13,b e3 .26");
        let doubted = doubted(&together).unwrap();
        let alone = all("a e1 .23,a e2 .22,a e3 .24,b e1 .24,b e2 .23,b e3 .23");
        assert_eq!(fast_alone(&doubted, &alone), ["e1", "e2"]);
        let found = judge(&doubted, &together, &alone, &all("a e1 .13,a e2 .11,b e1 .12,b e2 .12"));
        assert_eq!(found.len(), 1);
        assert!(found[0].cause.starts_with("collision: the paths of e1"), "{}", found[0].cause);
        // Both are fast with each other: something else slowed them down, and it is not named.
        let apart = all("a e1 .23,a e2 .22,b e1 .24,b e2 .23");
        assert_eq!(judge(&doubted, &together, &alone, &apart), []);
        // One of several that is fast alone has nothing to collide with.
        let one = Doubted { slower: vec!["e1".to_owned()], ..doubted };
        assert_eq!(judge(&one, &together, &alone, &[]), []);
    }
}
