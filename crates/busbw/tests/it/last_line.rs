//! The line that ends every run on stderr, and where the commands that it names find the run.
//! Not the explanation itself (explain.rs), and not what stdout has (golden.rs).

use std::{
    fs,
    io::{Read, Write},
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use crate::processes::aftermath::{interrupt, signal};

fn command(home: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_busbw"));
    command.args(line.split_whitespace()).env("XDG_DATA_HOME", home).env("BUSBW_BACKEND", "host");
    command.env_remove("BUSBW_NO_RECORD").stdin(Stdio::null()).current_dir(home);
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

fn busbw(home: &Path, line: &str) -> Output {
    command(home, line).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The last line on stderr, which no other line repeats.
fn last_line(output: &Output) -> String {
    let said = stderr(output);
    assert_eq!(said.matches("; next: ").count(), 1, "{said}");
    let last = said.lines().last().unwrap();
    last.strip_prefix("busbw: ").unwrap_or_else(|| panic!("{said}")).to_owned()
}

/// Ids of the runs in the data folder, the oldest first.
fn ids(home: &Path) -> Vec<String> {
    let folder = fs::read_dir(home.join("busbw/runs")).unwrap();
    let name = |entry: fs::DirEntry| entry.path().file_stem().unwrap().to_str().unwrap().to_owned();
    let mut all: Vec<String> = folder.map(|entry| name(entry.unwrap())).collect();
    all.sort();
    all
}

#[test]
fn a_run_ends_with_figure_share_finding_and_next_command() {
    let home = tempfile::tempdir().unwrap();
    let run = busbw(home.path(), "all_reduce -b 8 -e 64K -f 8 -g 2 -n 5");
    let line = last_line(&run);
    assert!(line.contains(" GB/s at 32 KiB"), "{line}");
    assert!(line.contains("; limit unknown"), "{line}");
    // Nothing of it is on stdout, whose last line is nccl-tests'.
    assert!(String::from_utf8_lossy(&run.stdout).ends_with("all_reduce_perf\n#\n\n"));
    let id = ids(home.path()).remove(0);
    let next = line.rsplit("next: ").next().unwrap();
    assert!(
        next == format!("busbw explain {id}") || next.starts_with("busbw all_reduce "),
        "{next}"
    );

    for (words, figure) in [
        ("latency -b 8 -e 64 --batches 5", " us at 64 B; a latency has no limit here"),
        ("all_reduce --latency -b 8 -e 64 -g 2 -n 50", " us at 64 B; "),
        ("osu_allreduce -m 4:64", " us at 64 B; "),
        ("all_reduce -b 8 -e 8 -g 2 -n 5", " us at 8 B; limit unknown"),
        ("barrier -g 2", " us at 0 B; "),
        // In place one rank copies nothing: none of its figures is a speed.
        (
            "all_reduce -b 1K -e 1K -t 1 -g 1 -n 5",
            "and busbw is 0 by definition; next: busbw all_reduce -g 2",
        ),
    ] {
        let run = busbw(home.path(), words);
        assert!(run.status.success(), "{words}: {}", stderr(&run));
        let line = last_line(&run);
        assert!(line.contains(figure), "{words}: {line}");
    }
    let unrecorded = busbw(home.path(), "all_reduce -b 8 -e 8 -g 2 -n 5 --no-record");
    assert!(!last_line(&unrecorded).contains("busbw explain 2"), "{}", stderr(&unrecorded));
}

#[test]
fn wrong_data_come_first_and_a_lost_rank_and_an_interruption_have_the_line() {
    let home = tempfile::tempdir().unwrap();
    let few = "all_reduce -b 1K -e 8K -g 2 -n 1 --batches 1";
    let wrong = format!("{few} --fault rank=1,phase=timed,row=1,do=corrupt:3");
    let run = busbw(home.path(), &wrong);
    assert_eq!(run.status.code(), Some(7));
    let line = last_line(&run);
    assert!(line.starts_with("Wrong data: elements have unexpected values at 2 KiB; "), "{line}");
    assert!(line.contains(" GB/s at 8 KiB"), "{line}");

    let run = busbw(home.path(), &format!("{few} --fault rank=1,phase=timed,row=2,do=kill"));
    assert_eq!(run.status.code(), Some(6));
    let line = last_line(&run);
    assert!(line.starts_with("failed, ") && line.contains(" at 2 KiB"), "{line}");
    let newest = ids(home.path()).pop().unwrap();
    assert!(line.ends_with(&format!("next: busbw explain {newest}")), "{line}");

    for (words, figure, line) in [
        ("all_reduce -b 8 -e 64 -g 2 -n 20 -N 0", "interrupted, 0.", "row"),
        (
            "all_reduce -b 8 -e 64 -g 2 -n 20 -N 0 --fault rank=1,phase=timed,row=1,do=corrupt:0",
            "Wrong data: elements have unexpected values; interrupted, 0.",
            "row",
        ),
        (
            "all_reduce -b 1K -e 8K -g 2 -n 1 --fault rank=1,phase=timed,row=0,do=stop",
            "interrupted, no size",
            "run",
        ),
    ] {
        let mut child = command(home.path(), words)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        until_recorded(home.path(), child.id(), line);
        signal(child.id(), interrupt());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
        let line = said.lines().last().unwrap();
        assert!(line.starts_with(&format!("busbw: {figure}")), "{words}: {said}");
        assert!(line.contains("; next: busbw explain "), "{said}");
    }
}

/// Waits until the record of process `pid` has a line of this kind; of rows, two of each size.
fn until_recorded(home: &Path, pid: u32, line: &str) {
    let wanted = format!("{{\"kind\":\"{line}\"");
    let least = if line == "row" { 8 } else { 1 };
    let patience = Instant::now() + Duration::from_secs(30);
    loop {
        let found = ids(home).into_iter().find(|id| id.ends_with(&format!("-{pid}")));
        let text = found.and_then(|id| {
            fs::read_to_string(home.join("busbw/runs").join(format!("{id}.jsonl"))).ok()
        });
        if text.is_some_and(|text| text.matches(&wanted).count() >= least) {
            return;
        }
        assert!(Instant::now() < patience, "no {line} in 30 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn launches_of_a_sweep_have_no_line_of_their_own() {
    let home = tempfile::tempdir().unwrap();
    let run = busbw(home.path(), "sweep -x A=1,2 --launches 1 all_reduce -b 8 -e 8 -g 2 -n 5");
    assert!(run.status.success(), "{}", stderr(&run));
    assert!(!stderr(&run).contains("; next: "), "{}", stderr(&run));
}

#[test]
fn reading_commands_take_the_newest_run_and_ids() {
    let home = tempfile::tempdir().unwrap();
    let missing = busbw(home.path(), "explain");
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("there is no record yet"), "{}", stderr(&missing));

    let run = command(home.path(), "all_reduce -b 8 -e 64 -f 8 -g 2 -n 5")
        .env("NCCL_ALGOO", "ring")
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", stderr(&run));
    let id = ids(home.path()).remove(0);
    for words in ["explain", "import", &format!("explain {}", &id[..10]), &format!("import {id}")] {
        let output = busbw(home.path(), words);
        assert!(output.status.success(), "{words}: {}", stderr(&output));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(&format!("{id}.jsonl")), "{words}: {said}");
    }
    // The settings that were recorded with the run.
    for words in [format!("lint {id}"), format!("lint busbw/runs/{id}.jsonl")] {
        let lint = busbw(home.path(), &words);
        assert_eq!(lint.status.code(), Some(1), "{}", stderr(&lint));
        assert!(String::from_utf8_lossy(&lint.stdout).contains("NCCL_ALGOO"), "{lint:?}");
    }
    for words in ["explain 1999", "import 1999", "lint 1999"] {
        let output = busbw(home.path(), words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(stderr(&output).contains("no run in "), "{words}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{words}");
    }
    let piped = command(home.path(), "explain").stdin(Stdio::piped()).output().unwrap();
    assert!(stderr(&piped).contains("is empty"), "{}", stderr(&piped));
}

/// `words` with a terminal as stdin, on which Ctrl-D is typed twice; its output.
fn at_a_terminal(home: &Path, words: &str) -> Option<String> {
    let line = format!("timeout --foreground 20 {} {words}", env!("CARGO_BIN_EXE_busbw"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("XDG_DATA_HOME", home).current_dir(home);
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = script.spawn().ok()?;
    let mut keyboard = running.stdin.take().unwrap();
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(300));
        // It may have ended without reading.
        let _ = keyboard.write_all(b"\x04");
    }
    let output = running.wait_with_output().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn nothing_waits_silently_for_a_keyboard() {
    let home = tempfile::tempdir().unwrap();
    assert!(busbw(home.path(), "all_reduce -b 8 -e 8 -g 2 -n 5").status.success());
    let id = ids(home.path()).remove(0);
    let Some(said) = at_a_terminal(home.path(), "explain") else {
        println!("waived: there is no script(1), which opens a terminal");
        return;
    };
    assert!(said.contains(&id), "{said}");
    assert!(at_a_terminal(home.path(), "import").unwrap().contains(&id));
    let lint = at_a_terminal(home.path(), "lint").unwrap();
    assert!(lint.contains("there is nothing to check"), "{lint}");
    for words in ["explain -", "import -", "lint -", "compare - -", "report - -o -", "topo -"] {
        let said = at_a_terminal(home.path(), words).unwrap();
        assert!(said.contains("reading from the keyboard"), "{words}: {said}");
    }
}
