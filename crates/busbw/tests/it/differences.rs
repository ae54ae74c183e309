//! Wrong behaviour of nccl-tests that we do not copy: one test for each line of docs/differences.md.
//! Not the layout, which we do copy: that is held against the original in golden.rs.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// Runs busbw with words from a line, and some environment, without a record, on the host where the line says nothing.
fn busbw(line: &str, environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_busbw"))
        .args(line.split_whitespace())
        .env("BUSBW_NO_RECORD", "1")
        .env("BUSBW_BACKEND", "host")
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

fn busbw_fake(line: &str) -> Output {
    busbw(&format!("{line} --backend fake"), &[])
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Lines that are rows.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| line.split_whitespace().collect())
        .collect()
}

/// The value after "Avg bus bandwidth    : ".
fn average(text: &str) -> &str {
    text.lines().find_map(|l| l.strip_prefix("# Avg bus bandwidth    : ")).unwrap().trim()
}

#[test]
fn zero_bytes_do_not_hang() {
    let output = busbw("all_reduce_perf -b 0 -e 1K -f 2 -g 2", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("-b 0 with the factor 2 never grows"));
    let alone = busbw("all_reduce_perf -b 0 -e 0 -f 2 -g 2", &[]);
    assert_eq!(alone.status.code(), Some(0));
    assert_eq!(rows(&stdout(&alone)).len(), 1);
    let by_bytes = busbw("all_reduce_perf -b 0 -e 64 -i 32 -g 2", &[]);
    assert_eq!(rows(&stdout(&by_bytes)).len(), 3);
}

#[test]
fn what_is_not_understood_exits_with_2_and_starts_nothing() {
    for line in [
        "all_reduce_perf --bogus",
        "all_reduce_perf -q",
        "all_reduce_perf -o bogus",
        "all_reduce_perf -d bogus",
        "all_reduce_perf -n abc",
        "all_reduce_perf -b 4T",
        "all_reduce_perf -g 0",
    ] {
        let output = busbw(line, &[]);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert_eq!(stdout(&output), "", "{line}");
        assert!(!stderr(&output).is_empty(), "{line}");
    }
}

#[test]
fn r_all_means_every_root() {
    let text = stdout(&busbw("broadcast_perf -b 64 -e 64 -g 3 -r all", &[]));
    let roots: Vec<&str> = rows(&text).iter().map(|row| row[4]).collect();
    assert_eq!(roots, ["0", "1", "2"]);
}

#[test]
fn nothing_lands_inside_a_row() {
    let summary = [("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", "1")];
    let text = stdout(&busbw("alltoallv_perf -b 1K -e 4K -f 2 -g 2", &summary));
    assert_eq!(rows(&text).len(), 3);
    assert!(rows(&text).iter().all(|row| row.len() == 13), "{text}");
    // Two placements a row, a head and a line a rank each.
    assert_eq!(text.matches("# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=generated").count(), 6);
    assert_eq!(text.matches("#   rank=").count(), 12);
}

#[test]
fn halves_that_mean_nothing_are_not_averaged() {
    let text = stdout(&busbw_fake("alltoall_perf -b 64M -e 256M -f 2 -g 2"));
    let busbw: Vec<f64> = rows(&text).iter().map(|row| row[7].parse().unwrap()).collect();
    let mean = busbw.iter().sum::<f64>() / busbw.len() as f64;
    // Rows print two decimals.
    assert!((average(&text).parse::<f64>().unwrap() - mean).abs() < 0.006, "{text}");
    // Sizes that round to nothing move nothing: they do not pull the average down.
    let some = stdout(&busbw_fake("all_gather_perf -b 8 -e 64 -f 2 -g 4"));
    let only = stdout(&busbw_fake("all_gather_perf -b 64 -e 64 -f 2 -g 4"));
    assert_eq!(average(&some), average(&only));
}

#[test]
fn cpu_time_counts_graph_launches() {
    let time = |graph: u32| {
        let line = format!("all_reduce_perf -b 1M -e 1M -g 4 -C 1 -G {graph}");
        rows(&stdout(&busbw_fake(&line)))[0][5].to_owned()
    };
    assert_eq!(time(1), time(8));
}

#[test]
fn one_rank_has_no_bus() {
    let output = busbw("all_reduce_perf -b 1K -e 1K -g 1", &[]);
    assert_eq!(average(&stdout(&output)), "N/A");
    assert!(stderr(&output).contains("the average algorithm bandwidth is"));
    let none = busbw_fake("hypercube_perf -b 1K -e 1K -g 3");
    assert_eq!(average(&stdout(&none)), "N/A");
}

#[test]
fn a_gate_on_a_missing_average_fails() {
    let output = busbw("all_reduce_perf -b 1K -e 1K -g 1", &[("NCCL_TESTS_MIN_BW", "0.001")]);
    assert_eq!(output.status.code(), Some(7));
    let garbage = busbw("all_reduce_perf -b 1K -e 1K -g 2", &[("NCCL_TESTS_MIN_BW", "fast")]);
    assert_eq!(garbage.status.code(), Some(2));
}

#[test]
fn every_group_is_printed() {
    let split = [("NCCL_TESTS_SPLIT", "MOD 2")];
    let text = stdout(&busbw("all_gather_perf -b 1K -e 2K -f 2 -g 4", &split));
    assert_eq!(rows(&text).len(), 2, "{text}");
    let others: Vec<&str> = text.lines().filter(|l| l.starts_with("# Group  1 ")).collect();
    assert_eq!(others.len(), 2, "{text}");
    assert_eq!(others[0].split_whitespace().nth(3), Some("1024"), "{text}");
    let both = stdout(&busbw("all_gather_perf -b 1K -e 1K -g 4 --csv", &split));
    assert_eq!(both.lines().count(), 1 + 2 * 2, "{both}");
    let zero = busbw("all_gather_perf -g 2", &[("NCCL_TESTS_SPLIT", "MOD 0")]);
    assert_eq!(zero.status.code(), Some(2));
}

#[test]
fn the_json_report_lists_every_device_and_keeps_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.txt");
    let line = format!("all_reduce_perf -b 1K -e 1K -g 2 -t 2 -J {}", path.display());
    let environment = [
        ("NCCL_DEBUG", "WARN"),
        ("NCCL_SECRET_TOKEN", "not-to-be-seen"),
        ("AWS_SECRET_ACCESS_KEY", "not-to-be-seen"),
    ];
    let output = busbw(&line, &environment);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&path);
    assert_eq!(report["config"]["devices"].as_array().unwrap().len(), 4);
    let env = report["env"].as_array().unwrap();
    assert!(env.contains(&"NCCL_DEBUG=WARN".into()), "{env:?}");
    assert!(env.contains(&"NCCL_SECRET_TOKEN=***".into()), "{env:?}");
    assert!(!env.iter().any(|e| e.as_str().unwrap().contains("not-to-be-seen")), "{env:?}");
    assert!(!env.iter().any(|e| e.as_str().unwrap().starts_with("PATH=")), "{env:?}");
    assert!(stdout(&output).starts_with(&format!("# Writing JSON output to {}\n", path.display())));
    // A second run does not overwrite the first.
    busbw(&line, &environment);
    assert_eq!(json(&folder.path().join("report.txt.0"))["version"], 3);
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Those that can are in tests/launchers.sh.
#[test]
fn launched_ranks_that_cannot_join_print_no_table() {
    let launched = [("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "1")];
    let output = busbw("all_reduce_perf -g 2", &launched);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("OMPI_COMM_WORLD_SIZE=2"));
    assert!(stdout(&output).is_empty());
}
