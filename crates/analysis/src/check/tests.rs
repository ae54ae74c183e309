//! Checks of hosts that exist only here: the order of stages, the time, and what is measured twice.
//! Not the rates of false faults (`tests/check.rs`).

use busbw_core::{
    finding::Severity,
    messages::Messages,
    pairs::{
        Unit,
        assessment::{Basis, Level, PairsAssessment, SlowSubject, Unjudged, Why},
        subject::Subject as Slow,
    },
};
use busbw_logs::measurement::Figure;

use super::*;
use crate::comparison::{Point, Side, Times};

/// The figures of one launch of 8 MiB in so many microseconds.
pub(super) fn figures(us: f64) -> CollectiveFigures {
    CollectiveFigures { side: side_of("one", &[us]), ranks: 4, limit: None }
}

pub(super) fn launch(us: f64) -> CollectiveLaunch {
    CollectiveLaunch { outcome: Ok(figures(us)), took_s: 4.0 }
}

pub(super) fn side_of(name: &str, launches_us: &[f64]) -> Side {
    let point = Point {
        test: "all_reduce".to_owned(),
        figure: Figure::Bandwidths,
        datatype: Some("float".to_owned()),
        redop: Some("sum".to_owned()),
        root: None,
        group: None,
        ranks: Some(4),
        variant: None,
        size: 8 << 20,
        in_place: false,
    };
    let time_us = busbw_stats::median(launches_us).unwrap();
    let times = Times {
        launches_us: launches_us.to_vec(),
        time_us,
        wrong: 0,
        // 10 GB/s at 110 us.
        busbw: Some(1100.0 / time_us),
    };
    Side { name: name.to_owned(), points: [(point, times)].into() }
}

/// Hosts with a clock of their own.
#[derive(Default)]
struct Fake {
    clock_s: f64,
    survey_s: f64,
    /// What differs, as it is read in turn; the last one stays.
    surveys: Vec<Result<Survey, Unable>>,
    /// Times of launches, in turn; the last one stays.
    times_us: Vec<f64>,
    launch_s: f64,
    /// Who is slow in each launch of pairs.
    slow: Vec<Vec<Slow>>,
    pairs_s: f64,
    /// The launches of pairs, from 0, that are disturbed.
    disturbed: Vec<usize>,
    /// GB/s of each transport's launches, in turn; the last one stays.
    transports: Vec<(&'static str, Vec<f64>)>,
    busy: Option<String>,
    interrupted_at_s: Option<f64>,
    said: Vec<&'static str>,
}

fn turn<T: Clone>(of: &mut Vec<T>) -> Option<T> {
    if of.len() > 1 { Some(of.remove(0)) } else { of.first().cloned() }
}

impl Stages for Fake {
    fn elapsed_s(&self) -> f64 {
        self.clock_s
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted_at_s.is_some_and(|at| self.clock_s >= at)
    }

    fn survey(&mut self, _: f64) -> Result<Survey, Unable> {
        self.clock_s += self.survey_s;
        self.said.push("survey");
        turn(&mut self.surveys).unwrap_or(Ok(healthy()))
    }

    fn may_load(&mut self, _: Option<&Survey>) -> Result<(), String> {
        self.busy.clone().map_or(Ok(()), Err)
    }

    fn collective(&mut self, limit_s: f64) -> CollectiveLaunch {
        self.said.push("collective");
        if self.launch_s > limit_s {
            self.clock_s += limit_s;
            let outcome = Err(Failure::Tool("its time was over".to_owned()));
            return CollectiveLaunch { outcome, took_s: limit_s };
        }
        self.clock_s += self.launch_s;
        let us = turn(&mut self.times_us).unwrap_or(110.0);
        CollectiveLaunch { outcome: Ok(figures(us)), took_s: self.launch_s }
    }

    fn pairs(&mut self, _: Option<Messages>, _: f64) -> PairsLaunch {
        let earlier = self.said.iter().filter(|said| **said == "pairs").count();
        let disturbed = self.disturbed.contains(&earlier);
        self.said.push("pairs");
        self.clock_s += self.pairs_s;
        let slow = match disturbed {
            false => turn(&mut self.slow).unwrap_or_default(),
            true => Vec::new(),
        };
        let slow = slow.into_iter().map(|subject| SlowSubject {
            subject,
            alternatives: Vec::new(),
            class: None,
            slower_percent: 20.0,
            longer_us: None,
            slow_cells: 6,
            cells: 6,
            confidence: 0.9999,
        });
        let verdict = PairsAssessment {
            basis: Basis::Retest,
            unit: Unit::GigabytesPerSecond,
            hosts: vec![0, 1, 2, 3],
            levels: vec![Level {
                class: "between hosts".to_owned(),
                value: 12.0,
                spread_percent: None,
                cells: 12,
                samples: 9,
            }],
            slow: slow.collect(),
            unjudged: match disturbed {
                false => Vec::new(),
                true => vec![Unjudged { class: "between hosts".to_owned(), why: Why::Disturbed }],
            },
            cleared: Vec::new(),
        };
        let labels = ["a", "b", "c", "d"].map(|host| format!("{host} core 0")).to_vec();
        let look = Look { test: Messages::Bandwidth, labels, verdict };
        PairsLaunch { outcome: Ok(vec![look]), took_s: self.pairs_s }
    }

    fn transports(&self) -> Vec<NamedTransport> {
        let named = |(name, _): &(&'static str, _)| NamedTransport {
            name: (*name).to_owned(),
            kind: name.split(':').next().map(str::to_owned),
            waived: None,
        };
        self.transports.iter().map(named).collect()
    }

    fn transport(&mut self, name: &str, _: f64) -> TransportLaunch {
        let (said, launches) =
            self.transports.iter_mut().find(|(known, _)| *known == name).unwrap();
        self.said.push(said);
        self.clock_s += self.launch_s;
        let collective = figures(1100.0 / turn(launches).unwrap());
        let figures = TransportFigures { collective, limit: Some(12.5), unproven: None };
        TransportLaunch { outcome: Ok(figures), took_s: self.launch_s }
    }
}

fn healthy() -> Survey {
    let host = |name: &str| HostFindings { host: name.to_owned(), findings: Vec::new() };
    Survey { hosts: ["a", "b", "c", "d"].map(host).to_vec(), ..Survey::default() }
}

fn wrong_mtu() -> Survey {
    let groups = vec![
        (Some("9000".to_owned()), ["a", "b", "d"].map(str::to_owned).to_vec()),
        (Some("1500".to_owned()), vec!["c".to_owned()]),
    ];
    let mtu = Differing {
        fact: "MTU".to_owned(),
        severity: Severity::Slow,
        groups,
        remedy: None,
        confirm: None,
    };
    Survey { differing: vec![mtu], ..healthy() }
}

fn fast() -> Fake {
    Fake { survey_s: 2.0, launch_s: 4.0, pairs_s: 8.0, ..Fake::default() }
}

fn minute() -> Asked {
    Asked { within_s: 60.0, ..Asked::default() }
}

fn verdicts(lines: &[CheckLine]) -> Vec<(Check, Verdict)> {
    lines.iter().map(|line| (line.check, line.verdict)).collect()
}

#[test]
fn a_healthy_set_is_measured_once_each() {
    let mut fake = fast();
    let lines = conduct(&mut fake, &minute());
    assert_eq!(fake.said, ["survey", "collective", "collective", "collective", "pairs"]);
    let passed = [Check::Doctor, Check::Settings, Check::Collective, Check::Pairs];
    assert_eq!(verdicts(&lines), passed.map(|check| (check, Verdict::Pass)));
    assert_eq!(decide(&lines, true, false).decision, Decision::Pass);
}

#[test]
fn a_fault_is_read_again_before_it_blocks() {
    let mut fake = Fake { surveys: vec![Ok(wrong_mtu())], ..fast() };
    let lines = conduct(&mut fake, &minute());
    assert_eq!(fake.said[..2], ["survey", "survey"]);
    let decided = decide(&lines, false, false);
    assert_eq!(decided.decision, Decision::Blocked);
    assert_eq!(decided.reason, "settings: c: MTU 1500 where 3 others have 9000");
    let mut passing = Fake { surveys: vec![Ok(wrong_mtu()), Ok(healthy())], ..fast() };
    let lines = conduct(&mut passing, &minute());
    assert_eq!(decide(&lines, true, false).decision, Decision::Pass);
    let lost = Err(Unable("ssh failed".to_owned()));
    let mut failing = Fake { surveys: vec![Ok(wrong_mtu()), lost], ..fast() };
    let lines = conduct(&mut failing, &minute());
    assert_eq!(decide(&lines, false, false).decision, Decision::LetThrough);
}

#[test]
fn a_slow_rank_is_measured_in_a_second_launch() {
    let rank = vec![Slow::Rank { rank: 2 }];
    let mut fake = Fake { slow: vec![rank.clone()], ..fast() };
    let lines = conduct(&mut fake, &minute());
    assert_eq!(fake.said.iter().filter(|said| **said == "pairs").count(), 2);
    assert_eq!(decide(&lines, false, false).decision, Decision::Blocked);
    let mut fake = Fake { slow: vec![rank.clone(), Vec::new()], ..fast() };
    assert_eq!(decide(&conduct(&mut fake, &minute()), true, false).decision, Decision::Pass);
    assert_eq!(fake.said.iter().filter(|said| **said == "pairs").count(), 3);
    let mut fake = Fake { slow: vec![rank.clone(), Vec::new(), rank.clone()], ..fast() };
    assert_eq!(decide(&conduct(&mut fake, &minute()), true, false).decision, Decision::Blocked);
    let mut slow = Fake { slow: vec![rank], pairs_s: 30.0, ..fast() };
    let lines = conduct(&mut slow, &minute());
    assert_eq!(decide(&lines, false, false).decision, Decision::LetThrough);
    assert!(lines.last().unwrap().text.ends_with("there was no time to measure it again"));
}

#[test]
fn a_disturbed_launch_is_no_launch() {
    let rank = vec![Slow::Rank { rank: 2 }];
    let many = |fake: &Fake| fake.said.iter().filter(|said| **said == "pairs").count();
    let mut fake = Fake { slow: vec![rank.clone()], disturbed: vec![0], ..fast() };
    let lines = conduct(&mut fake, &minute());
    assert_eq!((many(&fake), decide(&lines, false, false).decision), (3, Decision::Blocked));
    assert_eq!(lines.last().unwrap().took_s, 24.0);
    let mut always = Fake { slow: vec![rank.clone()], disturbed: (0..9).collect(), ..fast() };
    let lines = conduct(&mut always, &minute());
    assert_eq!((many(&always), decide(&lines, false, false).decision), (3, Decision::LetThrough));
    // The launch that is to decide, too: one that is disturbed clears nobody.
    let mut second = Fake { slow: vec![rank.clone()], disturbed: vec![1], ..fast() };
    let lines = conduct(&mut second, &minute());
    assert_eq!((many(&second), decide(&lines, false, false).decision), (3, Decision::Blocked));
    let mut from_second = Fake { slow: vec![rank], disturbed: (1..9).collect(), ..fast() };
    let lines = conduct(&mut from_second, &minute());
    assert_eq!(many(&from_second), 4);
    assert_eq!(decide(&lines, false, false).decision, Decision::LetThrough);
    assert!(lines.last().unwrap().text.contains("the second launch was disturbed"));
}

#[test]
fn no_stage_begins_after_its_time() {
    let mut fake = Fake { launch_s: 45.0, ..fast() };
    let lines = conduct(&mut fake, &minute());
    assert_eq!(fake.said, ["survey", "collective", "pairs"]);
    assert!(fake.clock_s <= 60.0);
    assert_eq!(lines[2].verdict, Verdict::Pass);
    let mut never = Fake { launch_s: 100.0, ..fast() };
    let lines = conduct(&mut never, &minute());
    assert_eq!(never.clock_s, 60.0);
    let untold = [(Check::Collective, Verdict::CannotTell), (Check::Pairs, Verdict::CannotTell)];
    assert_eq!(verdicts(&lines)[2..], untold);
    assert_eq!(decide(&lines, false, false).decision, Decision::LetThrough);
    assert_eq!(decide(&lines, true, false).decision, Decision::BlockedUntold);
}

#[test]
fn a_baseline_has_four_launches_and_four_more_where_they_are_slower() {
    let baseline = Some(side_of("last night", &[110.0, 111.0, 109.0, 110.5]));
    let asked = Asked { baseline, within_s: 120.0, ..Asked::default() };
    let mut fake = fast();
    let lines = conduct(&mut fake, &asked);
    let many = |fake: &Fake| fake.said.iter().filter(|said| **said == "collective").count();
    assert_eq!(many(&fake), 4);
    assert!(!fake.said.contains(&"pairs"), "a collective that is as fast as it was needs no pairs");
    assert_eq!(verdicts(&lines).last(), Some(&(Check::Pairs, Verdict::Waived)));
    assert_eq!(decide(&lines, true, false).decision, Decision::Pass);
    let mut slow = Fake { times_us: vec![150.0], ..fast() };
    let lines = conduct(&mut slow, &asked);
    assert_eq!(many(&slow), 8);
    assert!(slow.said.contains(&"pairs"));
    let decided = decide(&lines, false, false);
    assert_eq!(decided.decision, Decision::Blocked, "{lines:?}");
    assert!(decided.reason.starts_with("baseline: 7.33 GB/s at 8 MiB"), "{}", decided.reason);
}

#[test]
fn nothing_is_loaded_that_others_use() {
    let mut fake = Fake { busy: Some("GPU 3 of b is in use".to_owned()), ..fast() };
    let lines = conduct(&mut fake, &minute());
    assert_eq!(fake.said, ["survey"]);
    assert_eq!(decide(&lines, false, false).decision, Decision::LetThrough);
    assert!(lines[2].text.contains("in use"));
}

#[test]
fn only_what_is_asked_for() {
    let only = vec![Check::Doctor, Check::Settings];
    let mut fake = fast();
    let lines = conduct(&mut fake, &Asked { only, ..minute() });
    assert_eq!(fake.said, ["survey"]);
    assert_eq!(decide(&lines, true, false).decision, Decision::Pass);
    let waived = lines.iter().filter(|line| line.verdict == Verdict::Waived).count();
    assert_eq!(waived, 2);
}

#[test]
fn an_interruption_begins_no_stage() {
    let mut fake = Fake { interrupted_at_s: Some(5.0), ..fast() };
    let lines = conduct(&mut fake, &minute());
    assert_eq!(fake.said, ["survey", "collective"]);
    assert_eq!(decide(&lines, false, true).decision, Decision::Interrupted);
}

#[test]
fn a_launcher_that_fails_lets_the_job_start() {
    let lost = || Err(Unable("ssh: host d: connection refused".to_owned()));
    let mut fake = Fake { surveys: vec![lost()], launch_s: 100.0, ..fast() };
    let lines = conduct(&mut fake, &minute());
    assert_eq!(decide(&lines, false, false).decision, Decision::LetThrough);
    assert!(lines.iter().all(|line| line.measured == 0 && line.verdict == Verdict::CannotTell));
}

/// Each network once, and those that a fault rests on twice.
#[test]
fn transports_are_measured_where_there_is_time() {
    let rails = || vec![("ib:a", vec![10.0]), ("ib:b", vec![5.0]), ("socket:eth0", vec![3.0])];
    let mut fake = Fake { transports: rails(), ..fast() };
    let lines = conduct(&mut fake, &minute());
    assert_eq!(verdicts(&lines).last(), Some(&(Check::Transports, Verdict::Waived)));
    assert_eq!(fake.said.last(), Some(&"pairs"));
    let ample = Asked { within_s: 300.0, ..Asked::default() };
    let mut fake = Fake { transports: rails(), ..fast() };
    let lines = conduct(&mut fake, &ample);
    assert_eq!(fake.said[5..], ["ib:a", "ib:b", "socket:eth0", "ib:b", "ib:a"]);
    let decided = decide(&lines, false, false);
    assert_eq!(decided.decision, Decision::Blocked);
    assert!(decided.reason.starts_with("transports: ib:b reaches 5.00 GB/s"), "{decided:?}");
    // Without a fault each is measured once, and asked for by itself also in a minute.
    let healthy = vec![("ib:a", vec![10.0]), ("ib:b", vec![9.9])];
    let only = Asked { only: vec![Check::Transports], ..minute() };
    let mut fake = Fake { transports: healthy, ..fast() };
    let lines = conduct(&mut fake, &only);
    assert_eq!(fake.said.iter().filter(|said| said.starts_with("ib")).count(), 2);
    assert!(!fake.said.contains(&"pairs"));
    assert_eq!(decide(&lines, true, false).decision, Decision::Pass, "{lines:?}");
    // One host has none.
    let lines = conduct(&mut fast(), &ample);
    assert!(lines.iter().all(|line| line.check != Check::Transports));
}
