//! `explain` on what busbw's net plugin counted: files of real runs over a bed of links (docs/netlab.md) with and without
//! faults, and drawn ones, in which links are shared by chance.
//! Not the counting (the plugin's own tests).

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
};

use busbw_analysis::explain::{self, Explanation, Hardware};
use busbw_core::finding::Severity;
use busbw_logs::import;
use busbw_logs::measurement::{Form, Measurement, Source};
use nccl_plugin_abi::net_stats::{
    NetConnection, NetInterface, NetPath, NetStats, PathState, VERSION,
};

fn measurement(name: &str) -> Measurement {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explain_paths").join(name);
    let mut read = import::read_path(&file.with_extension("json")).unwrap();
    assert_eq!(read.measurements.len(), 1, "{name}");
    read.measurements.remove(0)
}

fn explained(runs: Vec<Measurement>) -> Explanation {
    let mut all = explain::explain(runs, &Hardware::read(None, None).unwrap());
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn rules(told: &Explanation) -> Vec<(&str, Severity)> {
    told.findings.iter().map(|one| (&*one.rule, one.severity)).collect()
}

/// Each with what its first finding says.
#[test]
fn runs_over_a_bed_of_links() {
    use Severity::{Note, Slow};
    for (name, expected, says) in [
        ("even", &[("paths", Note)][..], "carry 3.96 Gb/s together"),
        ("loopback", &[("paths", Note)], "no path was lost"),
        // The other end closed first.
        ("loopback-closed", &[("paths", Note)], "no path was lost"),
        ("quarter", &[("slow-paths", Slow)], "4 of 16 paths to 10.77.2.1 are up to 16.1 times"),
        ("quarter-again", &[("slow-paths", Slow)], "2 of 16 paths to 10.77.2.1"),
        ("loss", &[("loss-on-paths", Slow)], "6 of 16 paths to 10.77.2.1 retransmitted 1.04 %"),
        (
            "loss-of-4",
            &[("loss-on-paths", Slow)],
            "15 of 32 paths of 2 connections retransmitted 1.74 %",
        ),
        ("silent", &[("lost-paths", Note)], "2 of 16 paths were lost, 2 times"),
        ("killed", &[("lost-paths", Slow)], "16 of 16 paths were lost, 96 times"),
        ("congested", &[("loss-everywhere", Note), ("lost-paths", Note)], "the median path 12.2 %"),
    ] {
        let told = explained(vec![measurement(name)]);
        assert_eq!(rules(&told), expected, "{name}: {told:#?}");
        assert!(told.findings[0].cause.contains(says), "{name}: {}", told.findings[0].cause);
        let sentence = told.sentence.to_lowercase();
        assert!(sentence.starts_with(&told.findings[0].cause.to_lowercase()), "{name}");
        assert!(told.missing.is_empty(), "{name}");
    }
}

#[test]
fn processes_of_one_job_are_told_together() {
    let told = explained(vec![measurement("even"), measurement("quarter"), measurement("loss")]);
    let slow = [("slow-paths", Severity::Slow), ("loss-on-paths", Severity::Slow)];
    assert_eq!(rules(&told), slow);
    assert_eq!(told.subject, "busbw's net plugin in 3 processes");
    assert!(told.source.name.ends_with("even.json and 2 more"), "{}", told.source.name);
}

#[test]
fn files_are_read_one_after_the_other_and_newer_ones_are_refused() {
    let text = |stats: &NetStats| serde_json::to_string(stats).unwrap() + "\n";
    let one = stats(vec![connection(&vec![link(0.5); 16])]);
    let both = text(&one) + &text(&one);
    let read = import::read(both.as_bytes(), "both").unwrap();
    assert_eq!(read.measurements.len(), 2);
    assert_eq!(read.measurements[1].paths, std::slice::from_ref(&one));
    assert_eq!(read.measurements[1].source.form, Form::NetStats);
    let pretty = serde_json::to_string_pretty(&one).unwrap();
    let pretty = import::read(pretty.as_bytes(), "one").unwrap();
    assert_eq!(pretty.measurements[0].paths, std::slice::from_ref(&one));
    let newer = NetStats { busbw_net_stats: VERSION + 1, ..one.clone() };
    let refused = import::read(text(&newer).as_bytes(), "newer").unwrap_err();
    assert!(refused.to_string().contains("use a newer one"), "{refused}");
    let large = stats(vec![connection(&[]); 5000]);
    assert!(import::read(text(&large).as_bytes(), "large").is_err());
}

// --- Drawn ones.

const SECONDS: u64 = 20;

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

/// A path that carries so many GB/s.
fn link(rate: f64) -> NetPath {
    let bytes = (rate * 1e9 * SECONDS as f64) as u64;
    NetPath {
        local: Some(SocketAddr::new(address(1), 40_000)),
        remote: SocketAddr::new(address(2), 50_000),
        port: None,
        state: PathState::Up,
        bytes,
        timed_bytes: bytes,
        timed_us: SECONDS * 1_000_000,
        rtt_us: Some(400),
        min_rtt_us: Some(20),
        segments: bytes / 8948,
        retransmitted: 0,
        doubled: 0,
        again: 0,
        lost: 0,
    }
}

fn connection(paths: &[NetPath]) -> NetConnection {
    NetConnection {
        peer: address(2),
        opened: 1000,
        closed: true,
        broken: None,
        paths: paths.to_vec(),
    }
}

fn stats(connections: Vec<NetConnection>) -> NetStats {
    let interface = |name: &str, last| NetInterface {
        name: name.to_owned(),
        address: address(last),
        speed_mbps: Some(10_000),
    };
    NetStats {
        busbw_net_stats: VERSION,
        host: "n1".to_owned(),
        written: 1000 + SECONDS,
        interfaces: vec![interface("eth0", 1)],
        connections,
        ..NetStats::default()
    }
}

fn found(connections: Vec<NetConnection>) -> Vec<Cow<'static, str>> {
    found_in(stats(connections))
}

fn found_in(stats: NetStats) -> Vec<Cow<'static, str>> {
    let source = Source { form: Form::NetStats, ..Source::default() };
    let run = Measurement { source, paths: vec![stats], ..Measurement::default() };
    explained(vec![run]).findings.into_iter().map(|one| one.rule).collect()
}

/// Numbers that look like chance.
struct Chance(u64);

impl Chance {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % below as u64) as usize
    }

    /// Paths that ports spread over links of these GB/s; each link is shared out evenly, and noise moves each path by up
    /// to a fifth.
    fn spread(&mut self, links: &[f64], paths: usize) -> NetConnection {
        let taken: Vec<usize> = (0..paths).map(|_| self.below(links.len())).collect();
        let paths: Vec<NetPath> = taken
            .iter()
            .map(|link_of| {
                let sharing = taken.iter().filter(|other| *other == link_of).count();
                let noise = 0.8 + 0.4 * self.below(1000) as f64 / 1000.0;
                link(links[*link_of] / sharing as f64 * noise)
            })
            .collect();
        connection(&paths)
    }
}

/// Whoever shares a link with more others is slower for that alone.
#[test]
fn chance_is_not_blamed() {
    for links in [1, 2, 3, 4, 6, 8, 16] {
        let mut chance = Chance(links as u64);
        let blamed = (0..2000)
            .filter(|_| found(vec![chance.spread(&vec![0.125; links], 16)]) != ["paths"])
            .count();
        assert!(blamed <= 2000 / 25, "{links} links: {blamed} of 2000");
        // And hardly ever in a job of many connections.
        let many = |chance: &mut Chance| {
            (0..64).map(|_| chance.spread(&vec![0.125; links], 16)).collect::<Vec<_>>()
        };
        let blamed = (0..100).filter(|_| found(many(&mut chance)) != ["paths"]).count();
        assert_eq!(blamed, 0, "{links} links");
    }
}

#[test]
fn a_slow_link_is_found_however_ports_fall() {
    let mut chance = Chance(7);
    let links = [0.125, 0.125, 0.125, 0.0125];
    let all: Vec<NetConnection> = (0..500).map(|_| chance.spread(&links, 16)).collect();
    let slow = |one: &&NetConnection| one.paths.iter().any(|path| path.rate().unwrap() < 0.0125);
    let has_slow = all.iter().filter(slow).count();
    let found = all.iter().filter(|one| found(vec![(*one).clone()]) == ["slow-paths"]).count();
    assert!(found * 100 >= has_slow * 80, "{found} of {has_slow}");
}

#[test]
fn what_is_known_of_too_little_is_not_blamed() {
    let mut paths = vec![link(0.125); 16];
    paths[3] = NetPath { timed_bytes: 1 << 20, bytes: 1 << 20, ..link(0.001) };
    assert_eq!(found(vec![connection(&paths)]), ["paths"]);
    paths[3] = NetPath { timed_us: 100_000, timed_bytes: 4 << 20, ..link(0.125) };
    paths[3].timed_bytes = (0.03 * 1e8) as u64;
    assert_eq!(found(vec![connection(&paths)]), ["paths"]);
    paths[3] = link(0.03);
    assert_eq!(found(vec![connection(&paths)]), ["slow-paths"]);
    // There are no links within a host.
    let mut within = connection(&paths);
    within.peer = address(1);
    assert_eq!(found(vec![within]), ["paths"]);
}

/// Two interfaces of different speed: each is as fast as it should be, or one is not.
#[test]
fn interfaces_are_compared_by_their_speed() {
    let path = |last: u8, rate: f64| NetPath {
        local: Some(SocketAddr::new(address(last), 40_000)),
        ..link(rate)
    };
    let two = |rates: [f64; 2]| {
        let mut paths = vec![path(1, rates[0]); 8];
        paths.extend(vec![path(3, rates[1]); 8]);
        let mut stats = stats(vec![connection(&paths)]);
        stats.interfaces.push(NetInterface {
            name: "eth1".to_owned(),
            address: address(3),
            speed_mbps: Some(1000),
        });
        stats
    };
    assert_eq!(found_in(two([1.2, 0.12])), ["paths"]);
    assert_eq!(found_in(two([1.2, 0.02])), ["slow-paths"]);
    // The fast one is far from what the slow one lets expect.
    assert_eq!(found_in(two([0.2, 0.12])), ["slow-paths"]);
    let mut alone = two([1.2, 0.12]);
    alone.connections[0].paths.truncate(8);
    assert_eq!(found_in(alone.clone()), ["one-interface-of-several"]);
    alone.interfaces.truncate(1);
    assert_eq!(found_in(alone), ["paths"]);
}

/// Over RDMA the addresses are those of the handshakes: an interface without messages is idle as it should be.
#[test]
fn rdma_ports_are_named_and_their_interfaces_are_not() {
    let path = |port: &str, rate: f64| NetPath {
        port: Some(port.to_owned()),
        segments: 0,
        rtt_us: None,
        min_rtt_us: None,
        ..link(rate)
    };
    let two = |rates: [f64; 2]| {
        let paths = [path("mlx5_0:1", rates[0]), path("mlx5_1:1", rates[1])];
        let mut stats = stats(vec![connection(&[&paths[..], &paths[..]].concat())]);
        stats.interfaces.push(NetInterface {
            name: "eth1".to_owned(),
            address: address(3),
            speed_mbps: Some(100_000),
        });
        stats
    };
    assert_eq!(found_in(two([12.0, 12.0])), ["paths"]);
    assert_eq!(found_in(two([12.0, 1.0])), ["slow-paths"]);
}

#[test]
fn losses_and_missing_paths() {
    let mut paths = vec![link(0.125); 16];
    paths[5].lost = 1;
    paths[5].again = 3;
    assert_eq!(found(vec![connection(&paths)]), ["lost-paths"]);
    paths[5] = NetPath { state: PathState::Absent, ..link(0.125) };
    assert_eq!(found(vec![connection(&paths)]), ["lost-paths"]);
    // All of them are missing, as the other end has closed: no loss.
    let closed = NetPath { state: PathState::Absent, again: 2, ..link(0.125) };
    let mut all = connection(&vec![closed; 16]);
    all.closed = true;
    assert_eq!(found(vec![all.clone()]), ["paths"]);
    all.paths[0].lost = 1;
    all.closed = false;
    all.broken = Some("the other side refuses connections".to_owned());
    assert_eq!(found(vec![all]), ["lost-paths"]);
    // It has just begun.
    let mut young = stats(vec![connection(&paths)]);
    young.written = 1001;
    assert_eq!(found_in(young), ["paths"]);
}
