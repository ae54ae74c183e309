//! `busbw list`: past runs, sweeps in one line, and the removal of old records.
//! Not what is compared of them (compare.rs).

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::compare::{busbw, home, text};

#[test]
fn past_runs_are_listed_and_a_damaged_one_breaks_nothing() {
    let home = home();
    assert_eq!(
        busbw(home.path(), &["list"]).status.code(),
        Some(0),
        "an empty history is no failure"
    );
    for collective in ["all_reduce", "all_gather"] {
        let words = [collective, "--backend", "fake", "-g", "4", "-b", "1K", "-e", "4K"];
        assert_eq!(busbw(home.path(), &words).status.code(), Some(0));
    }
    let runs = home.path().join("busbw/runs");
    let whole = fs::read_dir(&runs).expect("runs").next().expect("one").expect("one").path();
    let content = fs::read_to_string(&whole).expect("a record");
    fs::write(runs.join("20200101-000000-cut-1.jsonl"), &content[..content.len() / 2])
        .expect("cut");
    fs::write(runs.join("20200101-000000-junk-1.jsonl"), "no record\n").expect("junk");
    fs::write(runs.join("20200101-000000-empty-1.jsonl"), "").expect("empty");
    fs::write(runs.join("20200101-000000-binary-1.jsonl"), b"\xff\xfe\0").expect("binary");
    let listed = busbw(home.path(), &["list"]);
    assert_eq!(listed.status.code(), Some(0), "{}", text(&listed.stderr));
    let table = text(&listed.stdout);
    assert_eq!(table.lines().count(), 7, "{table}");
    assert_eq!(table.matches(" ok ").count(), 2, "{table}");
    assert_eq!(table.matches("DAMAGED").count(), 3, "{table}");
    assert_eq!(table.matches("no end").count(), 1, "{table}");
    let json = text(&busbw(home.path(), &["list", "--collective", "all_gather", "--json"]).stdout);
    let one: serde_json::Value = json.lines().next().expect("a line").parse().expect("JSON");
    assert_eq!(one["collective"], "all_gather");
    assert_eq!(json.lines().filter(|line| line.contains("all_reduce\"")).count(), 0, "{json}");
    let id = one["id"].as_str().expect("an id");
    assert_eq!(busbw(home.path(), &["show", id]).status.code(), Some(0));
    assert_eq!(text(&busbw(home.path(), &["list", "-n", "1"]).stdout).lines().count(), 2);
}

/// The launches of a sweep are one line, whose id other commands take; times of latency tests are times.
#[test]
fn a_sweep_is_one_line_of_the_list() {
    let home = home();
    let words = ["sweep", "-x", "A=1,2", "--launches", "2", "all_reduce", "--backend", "fake"];
    let words = [&words[..], &["-g", "2", "-b", "8", "-e", "64"]].concat();
    assert_eq!(busbw(home.path(), &words).status.code(), Some(0));
    let latency = ["latency", "--backend", "host", "-b", "8", "-e", "64", "--batches", "5"];
    assert_eq!(busbw(home.path(), &latency).status.code(), Some(0));
    let table = text(&busbw(home.path(), &["list"]).stdout);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[1].contains("ok; sweep, 4 launches") && lines[1].contains(" fake "), "{table}");
    assert!(lines[2].contains(" us ") && !lines[2].contains("GB/s"), "{table}");
    assert_eq!(text(&busbw(home.path(), &["list", "--all"]).stdout).lines().count(), 6);
    let sweep = lines[1].split_whitespace().last().expect("an id");
    let shown = busbw(home.path(), &["show", sweep]);
    assert!(text(&shown.stdout).contains("fastest"), "{}", text(&shown.stderr));
    let explained = busbw(home.path(), &["explain", sweep]);
    assert_eq!(text(&explained.stdout).matches("all_reduce, 2 ranks").count(), 4);
    let report = busbw(home.path(), &["report", sweep, "-o", "page.html"]);
    assert_eq!(report.status.code(), Some(0), "{}", text(&report.stderr));
    // Its result is its owner's alone, as records are.
    use std::os::unix::fs::PermissionsExt;
    for folder in ["busbw/sweeps", "busbw/runs"] {
        for file in fs::read_dir(home.path().join(folder)).expect("a folder") {
            let mode = file.expect("a file").metadata().expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{folder}");
        }
    }
}

/// Old runs go, and only runs, and only when asked twice.
#[test]
fn only_old_records_are_pruned_and_only_when_confirmed() {
    let home = home();
    for words in [
        &["all_reduce", "--backend", "fake", "-g", "2", "-b", "8", "-e", "8"][..],
        &[
            "sweep",
            "-x",
            "A=1,2",
            "--launches",
            "1",
            "all_reduce",
            "--backend",
            "fake",
            "-g",
            "2",
            "-b",
            "8",
            "-e",
            "8",
        ],
    ] {
        assert_eq!(busbw(home.path(), words).status.code(), Some(0));
    }
    let (runs, sweeps) = (home.path().join("busbw/runs"), home.path().join("busbw/sweeps"));
    let files = |folder: &Path| {
        let mut all: Vec<PathBuf> = fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("a file").path())
            .collect();
        all.sort();
        all
    };
    let mine = files(&runs);
    let old = fs::read_to_string(&mine[0]).expect("a record");
    let today = old.split("\"started\":\"").nth(1).expect("a start")[..10].to_owned();
    // An old one, one that may still run, and what is no record of ours.
    let aged = old.replace(&format!("\"started\":\"{today}"), "\"started\":\"2020-01-01");
    let open: String = aged
        .lines()
        .filter(|l| !l.contains("\"kind\":\"end\""))
        .map(|l| format!("{l}\n"))
        .collect();
    for (name, content) in [
        ("20200101-a", &aged),
        ("20200101-open", &open),
        ("20200101-junk", &"no record\n".to_owned()),
    ] {
        fs::write(runs.join(format!("{name}.jsonl")), content).expect("a file");
    }
    fs::write(runs.join("notes.txt"), "mine").expect("a file");
    fs::write(home.path().join("elsewhere.jsonl"), &aged).expect("a file");
    std::os::unix::fs::symlink(
        home.path().join("elsewhere.jsonl"),
        runs.join("20200101-link.jsonl"),
    )
    .expect("a link");
    let before = files(&runs);

    let dry = busbw(home.path(), &["list", "--prune", "30d"]);
    assert_eq!(dry.status.code(), Some(0));
    assert!(text(&dry.stderr).contains("would remove 1 run in 1 file"), "{}", text(&dry.stderr));
    assert!(text(&dry.stdout).contains("20200101-a"), "{}", text(&dry.stdout));
    assert_eq!(files(&runs), before);
    let done = busbw(home.path(), &["list", "--prune", "30d", "--yes"]);
    assert!(text(&done.stderr).contains("removed 1 run in 1 file"), "{}", text(&done.stderr));
    let gone = runs.join("20200101-a.jsonl");
    assert_eq!(files(&runs), before.into_iter().filter(|path| *path != gone).collect::<Vec<_>>());
    assert!(home.path().join("elsewhere.jsonl").is_file());

    // A sweep goes with its result.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(files(&sweeps).len(), 1);
    let all = busbw(home.path(), &["list", "--prune", "1s", "--yes"]);
    assert!(text(&all.stderr).contains("removed 2 runs in 4 files"), "{}", text(&all.stderr));
    assert!(files(&sweeps).is_empty());
    for left in ["20200101-open.jsonl", "20200101-junk.jsonl", "20200101-link.jsonl", "notes.txt"] {
        assert!(runs.join(left).exists(), "{left}");
    }
    assert_eq!(busbw(home.path(), &["list", "--yes"]).status.code(), Some(2));
    assert_eq!(busbw(home.path(), &["list", "--prune", "soon"]).status.code(), Some(2));
}
