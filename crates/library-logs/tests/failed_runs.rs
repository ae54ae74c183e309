//! The logs of tests/failed_runs, made by real runs that failed, hung or ended well: the sentence about the cause
//! must be what kinds.tsv says, which was written from knowledge of what was done, before this code.
//! Not texts of other programs and releases; those are in failure_texts.rs.
#![allow(clippy::expect_used)]

use std::{collections::BTreeMap, path::PathBuf};

use busbw_library_logs::{
    failure::{Ending, FailureFacts, Kind, Parser, sentence},
    nccl,
};
use regex::RegexBuilder;

/// Rows whose log does not hold what they ask for, and why. They must fail: one that passes leaves this list.
const NOT_IN_THE_LOG: [(&str, &str); 2] = [
    ("nccl_net_missing", "NCCL 2.28.9 prints no line with the value of NCCL_NET"),
    (
        "nccl_wrong_collective",
        "both ranks' messages name all_reduce only; the flight recorder's dump names the broadcast",
    ),
];

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/failed_runs"))
}

fn read(text: &str) -> FailureFacts {
    let mut parser = Parser::new();
    text.lines().for_each(|line| {
        parser.line(line);
    });
    parser.finish(&nccl::parse(text))
}

fn first_line(facts: &FailureFacts) -> Option<String> {
    facts.cause().map(|cause| sentence(cause, facts))
}

/// Every row with a log: name, outcome, must, must_not.
fn rows() -> Vec<(String, String, String, String)> {
    let kinds = std::fs::read_to_string(folder().join("kinds.tsv")).expect("kinds.tsv");
    let rows = kinds.lines().filter(|line| !line.starts_with('#')).skip(1);
    rows.map(|row| row.split('\t').map(str::to_owned).collect::<Vec<_>>())
        .map(|row| (row[0].clone(), row[1].clone(), row[4].clone(), row[5].clone()))
        .filter(|row| folder().join("logs").join(format!("{}.log", row.0)).exists())
        .collect()
}

fn log(name: &str) -> String {
    std::fs::read_to_string(folder().join("logs").join(format!("{name}.log"))).expect("a log")
}

fn wrong(outcome: &str, must: &str, must_not: &str, facts: &FailureFacts) -> Option<String> {
    let said = first_line(facts);
    if outcome == "harmless" {
        return said;
    }
    let Some(said) = said else { return Some("no cause".to_owned()) };
    let matches = |pattern: &str| {
        let regex = RegexBuilder::new(pattern).case_insensitive(true).build().expect("a pattern");
        regex.is_match(&said)
    };
    let ending = if outcome == "hung" { Ending::Waiting } else { Ending::Failed };
    let right = must.split(" ; ").all(|pattern| matches(pattern.trim())) && !matches(must_not);
    (!right || facts.ending() != ending).then_some(said)
}

#[test]
fn the_cause_of_every_failed_run() {
    let excused: BTreeMap<&str, &str> = NOT_IN_THE_LOG.into();
    let rows = rows();
    assert!(rows.len() >= 43, "{} rows with a log", rows.len());
    let mut failures = Vec::new();
    for (name, outcome, must, must_not) in &rows {
        let facts = read(&log(name));
        if std::env::var_os("SHOW").is_some() {
            println!("{name}: {}", first_line(&facts).unwrap_or_default());
        }
        match (wrong(outcome, must, must_not, &facts), excused.get(name.as_str())) {
            (Some(said), None) => failures.push(format!("{name}: {said}")),
            (None, Some(_)) => failures.push(format!("{name}: is right, and excused")),
            _ => {}
        }
    }
    assert_eq!(failures, [""; 0]);
}

#[test]
fn harmless_runs_end_well_and_their_warnings_are_known() {
    let facts = read(&log("nccl_plugin_missing"));
    assert_eq!(facts.ending(), Ending::Well);
    let plugin = facts.harmless().into_iter().find(|one| one.kind == Kind::PluginMissing);
    assert!(plugin.is_some_and(|one| one.count >= 2));
    let facts = read(&log("mpi_harmless_warnings"));
    let kinds: Vec<Kind> = facts.harmless().iter().map(|one| one.kind).collect();
    assert!(
        kinds.contains(&Kind::InterfaceIgnored) && kinds.contains(&Kind::NotBound),
        "{kinds:?}"
    );
    assert_eq!(facts.ending(), Ending::Unknown, "no line of a solver tells that it ended well");
}

#[test]
fn prefixes_of_collectors_change_no_cause() {
    let cause = |text: &str| read(text).cause().map(|cause| (cause.kind, cause.ranks.clone()));
    for (name, ..) in rows() {
        let plain = log(&name);
        let want = cause(&plain);
        for prefix in ["[pod/trainer-0/worker] ", "2026-11-24T08:32:19.NZ stderr F ", "node7: "] {
            let tagged = |(at, line): (usize, &str)| {
                format!("{}{line}\n", prefix.replace('N', &(at * 7919 % 1000).to_string()))
            };
            let tagged: String = plain.lines().enumerate().map(tagged).collect();
            // A shell's "Killed" has no mark of its own behind a prefix.
            if name != "nccl_peer_killed" {
                assert_eq!(cause(&tagged), want, "{name} with {prefix}");
            }
        }
        let docker: String = plain
            .lines()
            .map(|line| format!("{{\"log\":\"{line}\\n\",\"stream\":\"stderr\",\"time\":\"x\"}}\n"))
            .collect();
        // NCCL's own facts are read by another parser, which does not know this form.
        if name != "nccl_init_hang" {
            assert_eq!(cause(&docker), want, "{name} in Docker's JSON");
        }
    }
}

#[test]
fn noise_changes_no_cause() {
    for (name, ..) in rows() {
        let plain = log(&name);
        let want = read(&plain).cause().map(|cause| (cause.kind, cause.ranks.clone()));
        for noise in ["epoch 3 loss 0.25 lr 1e-4", "", "INFO:root:saved checkpoint to /x/y.pt"] {
            let noisy: String = plain.lines().map(|line| format!("{line}\n{noise}\n")).collect();
            let got = read(&noisy).cause().map(|cause| (cause.kind, cause.ranks.clone()));
            assert_eq!(got, want, "{name} with {noise:?}");
        }
    }
}

#[test]
fn facts_go_through_json() {
    for (name, ..) in rows() {
        let facts = read(&log(&name));
        let json = serde_json::to_string(&facts).expect("json");
        assert_eq!(serde_json::from_str::<FailureFacts>(&json).expect("and back"), facts, "{name}");
    }
}
