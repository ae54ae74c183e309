//! The form of nccl-tests 2.20.0 beside what others published of it.
//! Not output of the compiled program: there is none yet, and what is not published stays 2.19.6's.

use std::process::Command;

use super::{
    run::{BUSBW, Backend, bounded},
    table,
};

/// The line's text: published copies have lost the blanks behind it.
fn trimmed(text: &str) -> Vec<String> {
    text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Ours with `options`, its record shown, and the -J report's version.
fn ran(options: &str) -> (String, String, i64) {
    let folder = tempfile::tempdir().unwrap();
    let (record, report) = (folder.path().join("run.jsonl"), folder.path().join("report.json"));
    let mut command = Command::new(BUSBW);
    command.args(options.split(' ')).arg("--record").arg(&record).arg("-J").arg(&report);
    let ran = bounded(&mut command);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let shown = bounded(Command::new(BUSBW).arg("show").arg(&record));
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let writes = ran.stdout.lines().next().unwrap().starts_with("# Writing JSON output to ");
    assert!(writes, "{}", ran.stdout);
    let table = ran.stdout.split_once('\n').unwrap().1.to_owned();
    let shown = shown.stdout.split_once('\n').unwrap().1.to_owned();
    (table, shown, report["version"].as_i64().unwrap())
}

const OPTIONS: &str = "all_reduce_perf -b 8192 -e 65536 -f 2 -w 10 -n 100 -g 2 --backend fake";

#[test]
fn the_form_of_2_20_0_is_as_published() {
    let (table, shown, report) = ran(&format!("{OPTIONS} --nccl-tests-version 2.20.0"));
    assert_eq!(table, shown, "show prints something else");
    let two_processes = include_str!("../../golden/published/2.20.0_gb10.txt");
    // Theirs has two processes of one device each, ours one process of two devices.
    let two_processes = two_processes
        .replace("nGpus 1", "nGpus 2")
        .replace("maxBytes 8589934592", "maxBytes 65536")
        .replace("spark-dbf4 device  0", "spark-dbf4 device  1");
    let theirs = trimmed(&two_processes);
    let ours: String = trimmed(&table)[..theirs.len()].join("\n");
    let found = table::compare(&theirs, &ours, Backend::Fake);
    assert!(found.is_empty(), "{}", found.join("\n"));
    let foot = trimmed(include_str!("../../golden/published/2.20.0_gb200.txt"));
    // Its publisher left out the empty comment behind the last line.
    let foot = &foot[foot.len() - 4..];
    let ours: String = trimmed(&table)[theirs.len()..][..4].join("\n");
    let found = table::compare(foot, &ours, Backend::Fake);
    assert!(found.is_empty(), "{}", found.join("\n"));
    // No published output shows another report than 2.19.6's.
    assert_eq!(report, 3);
}

/// The two forms differ in the version alone, and 2.19.6's is the default.
#[test]
fn only_the_version_line_differs() {
    let (default, _, _) = ran(OPTIONS);
    let (old, _, _) = ran(&format!("{OPTIONS} --nccl-tests-version 2.19.6"));
    let (new, _, _) = ran(&format!("{OPTIONS} --nccl-tests-version 2.20.0"));
    let version = |text: &str| text.lines().next().unwrap().to_owned();
    let old_version = "# nccl-tests version 2.19.6 nccl-headers=0 nccl-library=0";
    assert_eq!([version(&default), version(&old)], [old_version, old_version]);
    assert_eq!(version(&new), old_version.replace("2.19.6", "2.20.0 (b4d5bee)"));
    let rest = |text: &str| {
        let lines = text.lines().skip(1).filter(|line| !table::is_row(line));
        lines.filter(|line| !line.starts_with("#  Rank")).map(table::digits).collect::<Vec<_>>()
    };
    assert_eq!(rest(&old), rest(&new));
}

#[test]
fn other_tables_refuse_it() {
    for line in ["latency", "pairs", "all_reduce --latency", "osu_latency"] {
        let line = format!("{line} --nccl-tests-version 2.20.0 --backend host");
        let ran = bounded(Command::new(BUSBW).args(line.split(' ')).env("BUSBW_NO_RECORD", "1"));
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{line}: {}", ran.stderr);
        assert!(ran.stderr.contains("nccl-tests-version"), "{line}: {}", ran.stderr);
    }
}
