//! Hosts with planted differences and findings: who is named.
//! Not reading hosts.

use proptest::prelude::*;

use super::*;

fn fact(name: &str, severity: Severity, groups: &[(Option<&str>, &[&str])]) -> Differing {
    let group = |(value, who): &(Option<&str>, &[&str])| {
        (value.map(str::to_owned), who.iter().map(|w| (*w).to_owned()).collect())
    };
    Differing {
        fact: name.to_owned(),
        severity,
        groups: groups.iter().map(group).collect(),
        remedy: None,
        confirm: None,
    }
}

fn hosts(names: &[&str]) -> Survey {
    let host = |name: &&str| HostFindings { host: (*name).to_owned(), findings: Vec::new() };
    Survey { hosts: names.iter().map(host).collect(), ..Survey::default() }
}

fn said(lines: &[CheckLine]) -> Vec<String> {
    let subject =
        |line: &CheckLine| line.subject.as_ref().map_or("-".to_owned(), ToString::to_string);
    let one = |l: &CheckLine| {
        format!("{} {} {}: {}", l.check.name(), subject(l), l.verdict.name(), l.text)
    };
    lines.iter().map(one).collect()
}

#[test]
fn an_outlier_is_named_when_it_is_read_twice() {
    let groups: &[(Option<&str>, &[&str])] =
        &[(Some("9000"), &["a", "b", "d"]), (Some("1500"), &["c"])];
    let survey = Survey {
        differing: vec![fact("MTU", Severity::Slow, groups)],
        ..hosts(&["a", "b", "c", "d"])
    };
    assert!(has_faults(&survey));
    assert_eq!(
        said(&lines(&survey, Some(&survey))),
        ["doctor - pass: 4 hosts: no fault", "settings c fail: MTU 1500 where 3 others have 9000"]
    );
    let once = lines(&survey, None);
    assert_eq!((once[1].verdict, once[1].measured), (Verdict::CannotTell, 1));
    let gone = lines(&survey, Some(&hosts(&["a", "b", "c", "d"])));
    assert!(gone.iter().all(|line| line.verdict == Verdict::Pass), "{gone:?}");
}

#[test]
fn of_two_hosts_both_are_named() {
    let groups: &[(Option<&str>, &[&str])] = &[(Some("2.28"), &["a"]), (Some("2.27"), &["b"])];
    let survey =
        Survey { differing: vec![fact("NCCL", Severity::Error, groups)], ..hosts(&["a", "b"]) };
    let found = lines(&survey, Some(&survey));
    assert_eq!(said(&found)[1], "settings a, b fail: NCCL 2.28 on a; 2.27 on b");
}

#[test]
fn a_missing_library_is_a_fact_and_an_unreadable_one_is_not() {
    let groups: &[(Option<&str>, &[&str])] = &[(Some("x"), &["a", "b"]), (None, &["c"])];
    let of = |name, severity| {
        let differing = vec![fact(name, severity, groups)];
        let survey = Survey { differing, ..hosts(&["a", "b", "c"]) };
        said(&lines(&survey, Some(&survey)))[1].clone()
    };
    assert_eq!(of("NCCL", Severity::Error), "settings c fail: NCCL missing where 2 others have x");
    assert_eq!(
        of("GPU ECC", Severity::Slow),
        "settings c cannot tell: GPU ECC unknown where 2 others have x"
    );
}

#[test]
fn what_costs_speed_everywhere_does_not_block() {
    let slow = |mtu: u32| {
        Finding::new("network", Severity::Slow, format!("eth0 has MTU {mtu}: RDMA MTU 1024"))
    };
    let with = |on: &[usize], error: bool| {
        let mut survey = hosts(&["a", "b", "c"]);
        for at in on {
            survey.hosts[*at].findings.push(match error {
                true => Finding::new("memory", Severity::Error, "64 KiB may be locked"),
                false => slow(1500 + *at as u32),
            });
        }
        said(&lines(&survey, Some(&survey)))
    };
    assert_eq!(
        with(&[0, 1, 2], false)[0],
        "doctor - pass: 3 hosts: no fault; noted: eth0 has MTU 1500: RDMA MTU 1024 (3 of 3 hosts)"
    );
    assert_eq!(with(&[1], false)[0], "doctor b fail: eth0 has MTU 1501: RDMA MTU 1024");
    assert_eq!(with(&[0, 1, 2], true).iter().filter(|l| l.contains("fail")).count(), 3);
}

#[test]
fn a_rank_that_differs_is_a_rank() {
    let groups: &[(Option<&str>, &[&str])] =
        &[(Some("x16"), &["a rank 0", "a rank 1", "b rank 2"]), (Some("x8"), &["b rank 3"])];
    let survey = Survey {
        differing: vec![fact("GPU PCIe lanes", Severity::Slow, groups)],
        ..hosts(&["a", "b"])
    };
    let found = lines(&survey, Some(&survey));
    assert_eq!(found[1].subject, Some(Subject::Rank { rank: "b rank 3".to_owned() }));
}

proptest! {
    /// Exactly the planted hosts are named, whatever their number, below half.
    #[test]
    fn exactly_the_outliers_are_named(
        all in 3..200_usize,
        odd in prop::collection::btree_set(0..200_usize, 0..40),
    ) {
        let odd: BTreeSet<usize> = odd.into_iter().map(|host| host % all).collect();
        prop_assume!(2 * odd.len() < all && !odd.is_empty());
        let names: Vec<String> = (0..all).map(|host| format!("n{host:04}")).collect();
        let of = |wanted: bool| -> Vec<&str> {
            let is = |(at, _): &(usize, &String)| odd.contains(at) == wanted;
            names.iter().enumerate().filter(is).map(|(_, name)| name.as_str()).collect()
        };
        let (usual, outlying) = (of(false), of(true));
        let groups: &[(Option<&str>, &[&str])] =
            &[(Some("9000"), usual.as_slice()), (Some("1500"), outlying.as_slice())];
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let survey = Survey { differing: vec![fact("MTU", Severity::Slow, groups)], ..hosts(&all) };
        let found = lines(&survey, Some(&survey));
        let named: Vec<String> = found
            .iter()
            .filter(|line| line.blocks())
            .filter_map(|line| line.subject.as_ref().map(ToString::to_string))
            .collect();
        prop_assert_eq!(named, outlying);
    }
}
