//! `busbw explain` of folders of jobs that hang or went wrong: what is printed beside the verdict, and exit codes.
//! Not whether a verdict is right: `busbw_analysis::hang` tests that.

use std::path::PathBuf;
use std::process::{Command, Output};

fn job(fault: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../analysis/src/hang/data/nccl").join(fault)
}

fn explain(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_busbw")).arg("explain").args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A folder with a job's files and others, as a job leaves them.
fn folder(fault: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(job(fault)).unwrap() {
        let file = file.unwrap();
        // RAS is asked where a job runs: its report is no file.
        if file.file_name() != "ras.json" {
            std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
        }
    }
    for name in ["go", "out.0", "out.1", "out.2", "out.3"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    folder
}

#[test]
fn a_hang_has_no_bandwidth_and_no_list_of_files() {
    for fault in ["never-comes", "other-size", "other-operation"] {
        let folder = folder(fault);
        let path = folder.path().to_str().unwrap();
        let said = explain(&[path]);
        assert_eq!(said.status.code(), Some(0), "{fault}: {}", text(&said.stderr));
        let out = text(&said.stdout);
        assert!(out.contains("number 6") && !out.contains("GB/s"), "{out}");
        assert_eq!(text(&said.stderr), "", "{fault}");
        let json = explain(&[path, "--json"]);
        assert_eq!(text(&json.stdout).lines().count(), 1, "{}", text(&json.stdout));
        let said = explain(&[path, "-v"]);
        let expected =
            "5 files of the folders cannot be read as logs or dumps: go, out.0, out.1, 2 more";
        assert!(text(&said.stderr).contains(expected), "{}", text(&said.stderr));
        assert!(!text(&said.stdout).contains("GB/s"), "{}", text(&said.stdout));
    }
}

#[test]
fn a_ras_that_does_not_answer_leaves_the_files_their_verdict() {
    // A port that was free a moment ago.
    let free =
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let folder = folder("never-comes");
    let said = explain(&[folder.path().to_str().unwrap(), "--ras", &free, "--json"]);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    assert!(text(&said.stdout).contains("\"verdict\":\"never-came\""), "{}", text(&said.stdout));
    assert!(text(&said.stdout).contains("a report of NCCL's RAS: cannot connect"));
    let alone = explain(&["--ras", &free]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(text(&alone.stderr).contains("cannot connect to NCCL's RAS"));
}

/// As NCCL 2.28 prints it: without a comma.
#[test]
fn a_report_of_ras_with_a_missing_rank() {
    let said = explain(&[job("killed").join("ras.json").to_str().unwrap()]);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    assert!(text(&said.stdout).starts_with("died (likely): Rank 2"), "{}", text(&said.stdout));
}
