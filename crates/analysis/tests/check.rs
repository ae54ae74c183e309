//! The rate of false blocks: whole checks of simulated healthy clusters, with the noise that the tests of pairs have.
//! Not the order of stages (`check::tests`), and not real hosts (tests/check.sh).
//!
//! `BUSBW_CHECKS=1000 cargo test --release -p busbw-analysis --test check -- --ignored --nocapture` gives the figures of
//! docs/check.md. The runs in CI are fewer: of N checks without a false block, the rate is below 3/N with 95 % confidence.

#![allow(clippy::unwrap_used)]

#[path = "../../core/tests/pairs/machine.rs"]
mod machine;
#[path = "../../core/tests/pairs/noise.rs"]
#[allow(dead_code)]
mod noise;

use busbw_analysis::{
    check::{
        Asked, Check, CheckLine, CollectiveFigures, CollectiveLaunch, Decision, HostFindings,
        LimitShare, Look, NamedTransport, PairsLaunch, Stages, Survey, TransportFigures,
        TransportLaunch, Unable, Verdict, conduct, decide,
    },
    comparison::{Point, Side, Times},
};
use busbw_core::{
    messages::Messages,
    pairs::{
        Unit,
        assessment::{Mover, Rule},
        judge::{confirm, judge},
        retest::{FIRST_PASSES, PASSES, plan},
        schedule::Schedule,
        subject::Subject,
    },
};
use busbw_logs::measurement::Figure;
use busbw_stats::Random;
use machine::Machine;
use noise::{Noise, Weather, generator};

/// Peers of a rank where all pairs would be too many (`busbw pairs`, beyond 128 ranks).
const PEERS: usize = 16;
/// Batches of a launch of the collective, and operations of a batch: the least that a row has, and the default.
const BATCHES: usize = 5;
const OPERATIONS: usize = 20;
/// What a healthy cluster of this simulation reaches of its limit, percent.
const HEALTHY_PERCENT: f64 = 85.0;
/// Networks of one rate between the hosts.
const RAILS: usize = 8;
/// The limit over all of them, GB/s.
const LIMIT: f64 = 50.0;

/// A cluster of hosts with one rank each.
struct Cluster {
    machine: Machine,
    schedule: Schedule,
    rng: Random,
    clock_s: f64,
    /// The usual time of a collective, microseconds: what its limit follows from.
    usual_us: f64,
    /// A rail that has half its rate.
    slow_rail: Option<usize>,
}

impl Cluster {
    fn new(noise: Noise, hosts: usize, seed: u64, usual_us: f64) -> Cluster {
        let machine = Machine { seed, ..Machine::new(Unit::GigabytesPerSecond, noise, hosts, 1) };
        let schedule = match hosts {
            0..=128 => machine.schedule(),
            _ => Schedule::sample(hosts, PEERS, 0),
        };
        Cluster {
            machine,
            schedule,
            rng: generator(seed + 77),
            clock_s: 0.0,
            usual_us,
            slow_rail: None,
        }
    }

    /// One launch: the median of batches. Each operation is as slow as the slowest of all hosts, and a batch has their
    /// mean.
    fn launch_us(&mut self) -> f64 {
        let hosts = self.machine.hosts.len();
        let mut weather = Weather::new(self.machine.noise, hosts);
        let mut batches: Vec<f64> = (0..BATCHES)
            .map(|_| {
                weather.next_round(&mut self.rng);
                let operations = (0..OPERATIONS).map(|_| {
                    (0..hosts)
                        .map(|host| weather.sample([host, host], &mut self.rng))
                        .fold(f64::MIN, f64::max)
                        .exp()
                });
                1000.0 * operations.sum::<f64>() / OPERATIONS as f64
            })
            .collect();
        batches.sort_by(f64::total_cmp);
        batches[BATCHES / 2]
    }

    fn faulty(&self) -> f64 {
        if self.machine.faults.is_empty() { 1.0 } else { 1.25 }
    }

    fn look(&mut self) -> Look {
        let unit = self.machine.unit;
        let first = judge(
            &self.machine.measure(&self.schedule, FIRST_PASSES, &mut self.rng),
            &Rule::liberal(unit, Mover::Devices),
        );
        let hosts = self.machine.hosts.clone();
        let class = |a: usize, b: usize| Some(usize::from(hosts[a] != hosts[b]));
        let verdict = match plan(&first, &self.schedule, class) {
            None => first,
            Some(retest) => {
                assert_eq!(retest.passes, PASSES);
                let again = self.machine.measure(&retest.schedule, retest.passes, &mut self.rng);
                confirm(&first, &again, &Rule::strict(unit, Mover::Devices))
            }
        };
        let labels = (0..hosts.len()).map(|host| format!("n{host} gpu 0")).collect();
        Look { test: Messages::Bandwidth, labels, verdict }
    }
}

fn side(launches_us: Vec<f64>, ranks: usize) -> Side {
    let point = Point {
        test: "all_reduce".to_owned(),
        figure: Figure::Bandwidths,
        datatype: None,
        redop: None,
        root: None,
        group: None,
        ranks: Some(ranks),
        variant: None,
        size: 256 << 20,
        in_place: false,
    };
    let time_us = busbw_stats::median(&launches_us).unwrap();
    let times = Times { launches_us, time_us, wrong: 0, busbw: Some(1e4 / time_us) };
    Side { name: "last night".to_owned(), points: [(point, times)].into() }
}

impl Stages for Cluster {
    fn elapsed_s(&self) -> f64 {
        self.clock_s
    }

    fn is_interrupted(&self) -> bool {
        false
    }

    fn survey(&mut self, _: f64) -> Result<Survey, Unable> {
        self.clock_s += 2.0;
        let host = |host| HostFindings { host: format!("n{host}"), findings: Vec::new() };
        let hosts = (0..self.machine.hosts.len()).map(host).collect();
        Ok(Survey { hosts, ..Survey::default() })
    }

    fn may_load(&mut self, _: Option<&Survey>) -> Result<(), String> {
        Ok(())
    }

    fn collective(&mut self, _: f64) -> CollectiveLaunch {
        self.clock_s += 4.0;
        let us = self.launch_us() * self.faulty();
        let ranks = self.machine.hosts.len();
        let percent = HEALTHY_PERCENT * self.usual_us / us;
        let share = LimitShare {
            size: 256 << 20,
            busbw: percent / 2.0,
            limit: LIMIT,
            percent,
            set_by: "the NIC".to_owned(),
        };
        let figures =
            CollectiveFigures { side: side(vec![us], ranks), ranks, limit: Some(Ok(share)) };
        CollectiveLaunch { outcome: Ok(figures), took_s: 4.0 }
    }

    fn pairs(&mut self, _: Option<Messages>, _: f64) -> PairsLaunch {
        self.clock_s += 10.0;
        PairsLaunch { outcome: Ok(vec![self.look()]), took_s: 10.0 }
    }

    fn transports(&self) -> Vec<NamedTransport> {
        let named = |name: String, kind: Option<&str>| NamedTransport {
            name,
            kind: kind.map(str::to_owned),
            waived: None,
        };
        let rails = (0..RAILS).map(|rail| named(format!("ib:mlx5_{rail}"), Some("ib")));
        rails.chain([named("ib:all".to_owned(), None)]).collect()
    }

    fn transport(&mut self, name: &str, _: f64) -> TransportLaunch {
        self.clock_s += 4.0;
        let rail = name.strip_prefix("ib:mlx5_").map(|rail| rail.parse::<usize>().unwrap());
        let share = rail.map_or(1.0, |_| RAILS as f64);
        let slower = if rail.is_some() && rail == self.slow_rail { 2.0 } else { 1.0 };
        let ranks = self.machine.hosts.len();
        let us = self.launch_us() * share * slower;
        let collective = CollectiveFigures { side: side(vec![us], ranks), ranks, limit: None };
        let limit = Some(LIMIT / share);
        let figures = TransportFigures { collective, limit, unproven: None };
        TransportLaunch { outcome: Ok(figures), took_s: 4.0 }
    }
}

/// The lines of one check. Half of the checks have a baseline, of another launch of the same cluster, and a gate on the
/// limit; the others have pairs.
fn check(
    noise: Noise,
    hosts: usize,
    seed: u64,
    usual_us: f64,
    fault: Option<Subject>,
) -> Vec<CheckLine> {
    let mut cluster = Cluster::new(noise, hosts, seed, usual_us);
    let mut asked = Asked { within_s: 600.0, ..Asked::default() };
    if seed % 2 == 1 {
        let launches: Vec<f64> = (0..4).map(|_| cluster.launch_us()).collect();
        asked.baseline = Some(side(launches, hosts));
        asked.least_percent = Some(80.0);
    }
    cluster.machine.faults.extend(fault);
    conduct(&mut cluster, &asked)
}

/// The usual time of a collective on such clusters.
fn usual_us(noise: Noise, hosts: usize) -> f64 {
    let launches = (0..20).map(|seed| Cluster::new(noise, hosts, 9000 + seed, 1.0).launch_us());
    busbw_stats::median(&launches.collect::<Vec<_>>()).unwrap()
}

#[derive(Default)]
struct Counted {
    checks: u64,
    blocked: u64,
    untold: u64,
    seen_once: u64,
}

fn healthy(noise: Noise, hosts: usize, seeds: impl Iterator<Item = u64>) -> Counted {
    let usual = usual_us(noise, hosts);
    let mut counted = Counted::default();
    for seed in seeds {
        let lines = check(noise, hosts, seed, usual, None);
        let decision = decide(&lines, false, false).decision;
        counted.checks += 1;
        counted.seen_once += u64::from(lines.iter().any(|line| line.measured == 1));
        counted.untold += u64::from(decision == Decision::LetThrough);
        if decision == Decision::Blocked {
            counted.blocked += 1;
            let who = lines.iter().find(|line| line.blocks()).unwrap();
            println!("# {noise:?}, {hosts} hosts, seed {seed}: {}: {}", who.check.name(), who.text);
        }
    }
    counted
}

fn checks(default: u64) -> u64 {
    std::env::var("BUSBW_CHECKS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

#[test]
fn healthy_clusters_of_16_hosts_are_not_blocked() {
    for noise in Noise::ALL {
        let counted = healthy(noise, 16, 0..300);
        assert_eq!(counted.blocked, 0, "{noise:?}: {} of {}", counted.blocked, counted.checks);
    }
}

/// A few only: at this size a check simulates 300,000 messages.
#[test]
fn healthy_clusters_of_1250_hosts_are_not_blocked() {
    for noise in Noise::ALL {
        let counted = healthy(noise, 1250, 0..4);
        assert_eq!(counted.blocked, 0, "{noise:?}: {} of {}", counted.blocked, counted.checks);
    }
}

#[test]
fn a_slow_host_is_blocked_and_named() {
    for noise in Noise::ALL {
        let usual = usual_us(noise, 16);
        let mut named = 0;
        for seed in 0..20 {
            let rank = seed as usize * 7 % 16;
            let lines = check(noise, 16, 2 * seed, usual, Some(Subject::Rank { rank }));
            let wanted = format!("n{rank} gpu 0");
            let blocking = lines.iter().find(|line| line.check == Check::Pairs && line.blocks());
            let who = blocking.and_then(|line| line.subject.as_ref().map(ToString::to_string));
            named += u32::from(who.as_ref() == Some(&wanted));
        }
        assert!(named >= 19, "{noise:?}: {named} of 20");
    }
}

#[test]
fn a_slow_rail_is_blocked_and_named() {
    for noise in Noise::ALL {
        let usual = usual_us(noise, 16);
        let mut named = 0;
        for seed in 0..20 {
            let rail = seed as usize * 3 % RAILS;
            let mut cluster = Cluster::new(noise, 16, seed, usual);
            cluster.slow_rail = Some(rail);
            let asked = Asked { within_s: 600.0, ..Asked::default() };
            let lines = conduct(&mut cluster, &asked);
            let wanted = format!("ib:mlx5_{rail} reaches ");
            let is_it = |line: &CheckLine| line.blocks() && line.text.starts_with(&wanted);
            named += u32::from(lines.iter().filter(|line| line.blocks()).all(is_it));
            assert!(lines.iter().any(CheckLine::blocks), "{noise:?}: {lines:?}");
        }
        assert!(named >= 19, "{noise:?}: {named} of 20");
    }
}

#[test]
#[ignore = "minutes to hours; prints the rates of docs/check.md"]
fn rates() {
    let all = checks(1000);
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    for noise in Noise::ALL {
        let begun = std::time::Instant::now();
        let part =
            |at: u64| healthy(noise, 1250, (0..all).filter(move |seed| seed % threads == at));
        let parts: Vec<Counted> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|at| scope.spawn(move || part(at))).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let sum = |of: fn(&Counted) -> u64| parts.iter().map(of).sum::<u64>();
        println!(
            "1250 hosts, {noise:?}: {} checks, {} blocked, {} cannot tell, a fault seen once in {}; {:.0} s",
            sum(|c| c.checks),
            sum(|c| c.blocked),
            sum(|c| c.untold),
            sum(|c| c.seen_once),
            begun.elapsed().as_secs_f64()
        );
    }
}

#[test]
fn what_cannot_be_told_is_not_a_pass() {
    let line = CheckLine::new(Check::Pairs, Verdict::CannotTell, "there was no time");
    assert_eq!(decide(&[line], true, false).decision, Decision::BlockedUntold);
}
