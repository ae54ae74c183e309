//! `busbw compare` and `busbw references` as people call them: verdicts, gates, exit codes.
//! Not the statistics, which `busbw-stats` tests.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

const HEADER: &str = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong";

pub(crate) fn busbw(home: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_busbw"))
        .args(arguments)
        .current_dir(home)
        .env("XDG_DATA_HOME", home)
        .env("NO_COLOR", "1")
        .env_remove("BUSBW_NO_RECORD")
        .output()
        .expect("the program starts")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A log of all_reduce on 8 ranks, with these times at 64 MiB and 128 MiB.
fn log(ranks: usize, times: [f64; 2]) -> String {
    let mut text = format!(
        "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus {ranks} minBytes 8 maxBytes 8\n"
    );
    for rank in 0..ranks {
        text += &format!(
            "#  Rank {rank:2} Group  0 Pid      1 on     node1 device {rank:2} [0000:0{rank}:00] NVIDIA H100\n"
        );
    }
    text += &format!("{HEADER}\n");
    for (at, time) in times.iter().enumerate() {
        let size = (64u64 << 20) << at;
        let algbw = size as f64 / 1e3 / time;
        let busbw = algbw * 2.0 * (ranks as f64 - 1.0) / ranks as f64;
        text += &format!(
            "{size} {} float sum -1 {time:.1} {algbw:.2} {busbw:.2} 0 {time:.1} {algbw:.2} {busbw:.2} 0\n",
            size / 4
        );
    }
    text + "# Out of bounds values : 0 OK\n"
}

/// A folder with a launch a file.
fn launches(home: &Path, name: &str, factor: f64) -> PathBuf {
    let folder = home.join(name);
    fs::create_dir(&folder).expect("a folder");
    for (at, noise) in [1.0, 1.004, 0.997, 1.002, 0.999, 1.001].iter().enumerate() {
        let times = [400.0, 800.0].map(|time| time * factor * noise);
        fs::write(folder.join(format!("{at}.log")), log(8, times)).expect("a log");
    }
    folder
}

pub(crate) fn home() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn launches_decide_and_a_gate_names_what_is_slower() {
    let home = home();
    launches(home.path(), "before", 1.0);
    launches(home.path(), "after", 1.2);
    let same = busbw(home.path(), &["compare", "before", "before", "--fail-below", "0.95"]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    assert!(text(&same.stdout).contains("4 points: 4 same"), "{}", text(&same.stdout));
    let slower = busbw(home.path(), &["compare", "before", "after", "--fail-below", "0.95"]);
    assert_eq!(slower.status.code(), Some(1));
    assert!(text(&slower.stdout).contains("4 points: 4 slower"), "{}", text(&slower.stdout));
    let said = text(&slower.stderr);
    assert_eq!(
        said.lines()
            .filter(|line| line.contains("below 0.95: all_reduce float sum, 8 ranks, "))
            .count(),
        4,
        "{said}"
    );
    assert!(said.contains("128 MiB in place: 0.83"), "{said}");
    let allowed = busbw(home.path(), &["compare", "before", "after", "--fail-below", "0.8"]);
    assert_eq!(allowed.status.code(), Some(0));
    let faster = busbw(home.path(), &["compare", "after", "before", "--json"]);
    let json: serde_json::Value = text(&faster.stdout).parse().expect("JSON");
    assert_eq!(json["comparisons"][0]["rows"][0]["verdict"], "faster");
    assert_eq!(
        json["comparisons"][0]["rows"][0]["baseline"]["launches_us"].as_array().map(Vec::len),
        Some(6)
    );
    let markdown = text(&busbw(home.path(), &["compare", "before", "after", "--markdown"]).stdout);
    assert!(markdown.contains("| 64MiB | out | "), "{markdown}");
}

/// The first line says where a side is faster, and small sizes are times.
#[test]
fn a_summary_comes_first_and_small_sizes_have_times() {
    let home = home();
    launches(home.path(), "before", 1.0);
    launches(home.path(), "after", 1.25);
    let compared = text(&busbw(home.path(), &["compare", "before", "after"]).stdout);
    let second = compared.lines().nth(1).unwrap_or_default().to_owned();
    assert_eq!(second, "# all_reduce float sum, 8 ranks, B against A: 20.0 % slower at all sizes");
    let small = log(8, [400.0, 800.0]).replace("67108864 16777216", "1024 256");
    fs::write(home.path().join("small"), small).expect("a log");
    let one = text(&busbw(home.path(), &["compare", "small", "small"]).stdout);
    let row = one.lines().find(|line| line.trim_start().starts_with("1KiB")).expect("a row");
    assert!(row.contains("400 us"), "{row}");
    let large = one.lines().find(|line| line.trim_start().starts_with("128MiB")).expect("a row");
    assert!(!large.contains(" us"), "{large}");
}

/// A share of the limit as a gate: passed, missed, and never passed where no limit is known.
#[test]
fn a_gate_on_the_limit_passes_only_what_has_one() {
    let home = home();
    fs::write(home.path().join("run"), log(8, [400.0, 800.0])).expect("a log");
    let gate = |least: &str, more: &[&str]| {
        let words = [&["compare", "run", "--fail-below-limit", least], more].concat();
        busbw(home.path(), &words)
    };
    // 293.6 GB/s of 8 H100: the sizes are too few to say that it grows no more, the share is known.
    let h100 = ["--machine", "dgx-h100", "--nodes", "1"];
    let passed = gate("10%", &h100);
    assert_eq!(passed.status.code(), Some(0), "{}", text(&passed.stderr));
    assert!(text(&passed.stdout).contains("limit, 10.0 % wanted: passed: "), "{passed:?}");
    let missed = gate("0.99", &h100);
    assert_eq!(missed.status.code(), Some(1), "{}", text(&missed.stderr));
    assert!(text(&missed.stderr).contains("below 99.0 % of the limit: run: "), "{missed:?}");
    let json = gate("99%", &[&h100[..], &["--json"]].concat());
    let json: serde_json::Value = text(&json.stdout).parse().expect("JSON");
    assert_eq!(json["limit_gate"]["held"], false);
    assert_eq!(json["limit_gate"]["runs"][0]["state"], "below");

    // An unknown limit is an error, whatever is wanted.
    let cards = log(8, [400.0, 800.0]).replace("NVIDIA H100", "A card of tomorrow");
    fs::write(home.path().join("run"), cards).expect("a log");
    let unknown = gate("1%", &[]);
    assert_eq!(unknown.status.code(), Some(2), "{}", text(&unknown.stdout));
    assert!(text(&unknown.stderr).contains("no limit is known, so it cannot pass"), "{unknown:?}");
    for wrong in ["0", "101%", "much", "-5%", "80"] {
        assert_eq!(gate(wrong, &[]).status.code(), Some(2), "{wrong}");
    }
}

#[test]
fn one_launch_a_side_tells_nothing_and_nothing_compared_fails() {
    let home = home();
    for (name, ranks, time) in [("a", 8, 400.0), ("b", 8, 500.0), ("c", 4, 400.0)] {
        fs::write(home.path().join(name), log(ranks, [time, time * 2.0])).expect("a log");
    }
    let one = busbw(home.path(), &["compare", "a", "b"]);
    assert_eq!(one.status.code(), Some(0));
    assert!(
        text(&one.stdout).contains("4 inconclusive (at least 4 launches a side are needed"),
        "{}",
        text(&one.stdout)
    );
    let gate = busbw(home.path(), &["compare", "a", "b", "--fail-below", "0.95"]);
    assert_eq!(gate.status.code(), Some(1));
    assert!(
        text(&gate.stderr).contains("0.800 times as fast, from 1 launch against 1 launch"),
        "{}",
        text(&gate.stderr)
    );
    // What the baseline has must be there, and be right.
    let cut = log(8, [400.0, 800.0]);
    let cut = &cut[..cut.find("134217728").expect("the second size")];
    fs::write(home.path().join("cut"), cut).expect("a log");
    let missing = busbw(home.path(), &["compare", "a", "cut", "--fail-below", "0.95"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        text(&missing.stderr).contains("missing in the candidate: 2 points"),
        "{}",
        text(&missing.stderr)
    );
    fs::write(home.path().join("wrong"), log(8, [400.0, 800.0]).replacen(" 0\n", " 4\n", 1))
        .expect("a log");
    let wrong = busbw(home.path(), &["compare", "a", "wrong", "--fail-below", "0.95"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        text(&wrong.stderr).contains("wrong data: all_reduce float sum, 8 ranks, 64 MiB in place"),
        "{}",
        text(&wrong.stderr)
    );
    assert!(text(&wrong.stdout).contains("WRONG data"), "{}", text(&wrong.stdout));
    assert_eq!(
        busbw(home.path(), &["compare", "a", "b", "--fail-below", "1.05"]).status.code(),
        Some(2)
    );
    let nothing = busbw(home.path(), &["compare", "a", "c"]);
    assert_eq!(nothing.status.code(), Some(1));
    let said = text(&nothing.stderr);
    assert!(said.contains("nothing was compared"), "{said}");
    assert!(
        said.contains(
            "a has all_reduce float sum, 8 ranks, 64 MiB to 128 MiB; c has all_reduce float sum, 4 ranks, 64 MiB to 128 MiB"
        ),
        "{said}"
    );
    let missing = busbw(home.path(), &["compare", "a", "nowhere"]);
    assert_eq!(missing.status.code(), Some(2));
    assert_eq!(text(&missing.stderr).lines().count(), 1, "{}", text(&missing.stderr));
}

#[test]
fn efficiency_by_nodes() {
    let home = home();
    // busbw 476.4 on 8 ranks and 469.7 on 16, in time.
    let time =
        |ranks: f64, busbw: f64| (64u64 << 20) as f64 / 1e3 * 2.0 * (ranks - 1.0) / ranks / busbw;
    for (name, ranks, busbw) in [("one", 8, 476.4), ("two", 16, 469.7)] {
        let time = time(ranks as f64, busbw);
        fs::write(home.path().join(name), log(ranks, [time, time * 2.0])).expect("a log");
    }
    let scaled = busbw(home.path(), &["compare", "--by", "nodes", "two", "one"]);
    assert_eq!(scaled.status.code(), Some(0), "{}", text(&scaled.stderr));
    let table = text(&scaled.stdout);
    assert!(table.contains("8 ranks") && table.contains("98.6"), "{table}");
    let gate =
        busbw(home.path(), &["compare", "--by", "nodes", "two", "one", "--fail-below", "0.99"]);
    assert_eq!(gate.status.code(), Some(1));
    assert!(
        text(&gate.stderr)
            .contains("on 1 host, 16 ranks, 98.6 % of the bus bandwidth on the fewest"),
        "{}",
        text(&gate.stderr)
    );
    assert_eq!(busbw(home.path(), &["compare", "--by", "nodes", "one"]).status.code(), Some(1));
    let markdown = busbw(home.path(), &["compare", "--by", "nodes", "two", "one", "--markdown"]);
    let markdown = text(&markdown.stdout);
    assert!(
        markdown.contains("| size | place | 1 host, 8 ranks | 1 host, 16 ranks | % |"),
        "{markdown}"
    );
    let words = ["compare", "--by", "nodes", "two", "one", "--json", "--fail-below", "0.99"];
    let json: serde_json::Value = text(&busbw(home.path(), &words).stdout).parse().expect("JSON");
    assert_eq!((&json["compare_schema"], &json["gate"]["held"]), (&3.into(), &false.into()));
    assert_eq!(json["gate"]["failed"].as_array().map(Vec::len), Some(4));
    assert_eq!(json["scaled"][0]["steps"][1]["ranks"], 16);
    // A second launch on 8 ranks counts as well.
    fs::write(home.path().join("again"), log(8, [time(8.0, 400.0), 2.0 * time(8.0, 400.0)]))
        .expect("a log");
    let table =
        text(&busbw(home.path(), &["compare", "--by", "nodes", "two", "one", "again"]).stdout);
    assert!(table.contains("medians of 1 to 2 launches"), "{table}");
    assert!(!table.contains("98.6"), "{table}");
}

#[test]
fn what_differs_was_not_read_or_was_read_twice_stands_above_the_table() {
    let home = home();
    let run = |name: &str, more: &[&str]| {
        let report = format!("{name}/report.json");
        let record = format!("{name}/record.jsonl");
        fs::create_dir(home.path().join(name)).expect("a folder");
        let mut words = vec!["all_reduce", "--backend", "fake", "-g", "4", "-b", "1K", "-e", "1M"];
        words.extend(["--record", &record, "-J", &report]);
        words.extend(more);
        let done = busbw(home.path(), &words);
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        fs::write(home.path().join(name).join("run.log"), &done.stdout).expect("a log");
    };
    run("a", &["-n", "20"]);
    run("b", &["-n", "50", "-w", "7"]);
    fs::copy(home.path().join("b/run.log"), home.path().join("b/copy.log")).expect("a copy");
    fs::write(home.path().join("b/notes.log"), format!("what is this\n{}", log(2, [1.0, 2.0])))
        .expect("a log");
    let told = busbw(home.path(), &["compare", "a", "b"]);
    assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
    let table = text(&told.stdout);
    let differ = table.lines().find(|line| line.starts_with("# A and B differ: "));
    assert!(
        differ.is_some_and(|line| line.contains("; -n 20 | 50") && line.contains("; -w ")),
        "{table}"
    );
    assert!(table.contains("# A, 2 runs left out as duplicates"), "{table}");
    assert!(table.contains("# B, 3 runs left out as duplicates"), "{table}");
    assert!(table.contains("# B, not read: 1 line not recognised"), "{table}");
    let json = text(&busbw(home.path(), &["compare", "a", "b", "--json"]).stdout);
    let json: serde_json::Value = json.parse().expect("JSON");
    assert_eq!(json["comparisons"][0]["candidate"]["unread"]["lines_unrecognised"], 1);
    assert_eq!(
        json["comparisons"][0]["rows"][0]["candidate"]["launches_us"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(json["comparisons"][0]["candidate"]["repeated"].as_array().map(Vec::len), Some(3));
}

#[test]
fn groups_of_a_split_run_are_compared_with_the_same_group() {
    let home = home();
    for name in ["a", "b"] {
        let words = [
            "all_reduce",
            "--backend",
            "host",
            "-g",
            "4",
            "-b",
            "1K",
            "-e",
            "1K",
            "-n",
            "2",
            "--batches",
            "1",
            "--record",
            name,
        ];
        let done = Command::new(env!("CARGO_BIN_EXE_busbw"))
            .args(words)
            .current_dir(home.path())
            .env("XDG_DATA_HOME", home.path())
            .env("NCCL_TESTS_SPLIT", "MOD 2")
            .output()
            .expect("the program starts");
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        fs::write(home.path().join(format!("{name}.log")), &done.stdout).expect("a log");
    }
    for words in [["compare", "a", "b"], ["compare", "a.log", "b.log"], ["compare", "a", "b.log"]] {
        let table = text(&busbw(home.path(), &words).stdout);
        assert!(table.contains("all_reduce float sum, 2 ranks, group 0:"), "{table}");
        assert!(table.contains("all_reduce float sum, 2 ranks, group 1:"), "{table}");
        assert!(table.contains("4 points: "), "{table}");
    }
    let told = text(&busbw(home.path(), &["explain", "a"]).stdout);
    assert!(told.contains("group 0") && told.contains("group 1"), "{told}");
}

#[test]
fn sides_beyond_z_have_letters_of_their_own() {
    let home = home();
    fs::write(home.path().join("a"), log(8, [400.0, 800.0])).expect("a log");
    let mut words = vec!["compare"];
    words.extend(["a"; 28]);
    let table = text(&busbw(home.path(), &words).stdout);
    assert!(table.contains("\n# Z a: ") && table.contains("\n# AA a: "), "{table}");
    assert!(table.contains("AB/A"), "{table}");
    assert_eq!(table.matches("\n# B a: ").count(), 1, "{table}");
}

#[test]
fn references_are_there_and_the_nearest_is_taken() {
    let home = home();
    fs::write(home.path().join("mine"), log(8, [400.0, 800.0])).expect("a log");
    let listed = text(&busbw(home.path(), &["references"]).stdout);
    assert!(
        listed.contains("8x-h800-nvlink\n") && listed.contains("best 366.8 GB/s at 8 GiB"),
        "{listed}"
    );
    let json = text(&busbw(home.path(), &["references", "--json"]).stdout);
    assert_eq!(json.lines().count(), 12);
    let with = busbw(home.path(), &["compare", "mine", "--with", "8x-h800"]);
    assert_eq!(with.status.code(), Some(0), "{}", text(&with.stderr));
    assert!(text(&with.stdout).contains("\n# A 8x-h800-nvlink: all_reduce, 8 ranks"));
    let nearest = busbw(home.path(), &["compare", "mine"]);
    assert!(text(&nearest.stderr).contains("none has the same GPU"), "{}", text(&nearest.stderr));
    let unknown = busbw(home.path(), &["compare", "mine", "--with", "9x"]);
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn the_history_tells_noise_where_sides_have_one_launch() {
    let home = home();
    // Records of the fake backend: 24 runs of history, then one that is slower by half.
    let run = |more: &[&str]| {
        let mut words = vec!["all_reduce", "--backend", "fake", "-g", "4", "-b", "1M", "-e", "1M"];
        words.extend(more);
        let done = busbw(home.path(), &words);
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    };
    (0..24).for_each(|_| run(&[]));
    // A run with a fault tells nothing of what is usual.
    run(&["--fault", "rank=0,phase=timed,do=slow:9"]);
    run(&[]);
    run(&["--fault", "rank=0,phase=timed,do=slow:3"]);
    let told = busbw(home.path(), &["compare", "--last", "2"]);
    assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
    let table = text(&told.stdout);
    assert!(
        table.contains("slower") && table.contains("by the history of this machine"),
        "{table}"
    );
}
