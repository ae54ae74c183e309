//! Sweeps that do not run to their full length: for want of time, by Ctrl-C, with their own death.
//! What was measured is shown, and nothing goes on.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::ChildStderr,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::command::{LIMIT, command, end, run};

#[test]
fn time_cuts_iterations_and_launches_never_sizes() {
    cut("all_reduce");
}

#[test]
fn time_cuts_messages_too() {
    cut("bw");
}

fn cut(benchmark: &str) {
    let ended = run(
        &format!(
            "sweep -x NCCL_ALGO=Ring,Tree {benchmark} --backend host -g 2 -b 64K -e 4M -f 8 -n 100000 --launches 20 --time 4 --json"
        ),
        &[],
    );
    let outcome = ended.exits(0).json();
    let rows = outcome["rows"].as_array().unwrap();
    let sizes: Vec<u64> = rows.iter().map(|row| row["size"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [64 << 10, 512 << 10, 4 << 20]);
    for row in rows {
        for cell in row["cells"].as_array().unwrap() {
            assert_eq!(cell["cut"], true, "{ended}");
            assert!((1..100_000).contains(&cell["iterations"].as_u64().unwrap()), "{ended}");
        }
    }
    assert_eq!(outcome["time_limit_s"], 4.0);
}

/// Reads stderr until a line contains `text`.
fn read_until(stderr: &mut BufReader<ChildStderr>, text: &str) -> String {
    let mut all = String::new();
    while !all.contains(text) {
        assert!(stderr.read_line(&mut all).unwrap() > 0, "{text:?} is not in {all}");
    }
    all
}

/// Whether these tests were started to ignore a signal (SigIgn of /proc/self/status).
fn is_ignored(signal: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 == 1
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let words =
        "sweep -x NCCL_ALGO=Ring,Tree all_reduce --backend host -g 2 -b 1K -e 1K --launches 500";
    let (mut command, home) = command(words, &[]);
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    read_until(&mut stderr, "launch 3 of 1000");
    let _drained = thread::spawn(move || stderr.lines().count());
    // Who was started to ignore Ctrl-C goes on ignoring it (`command &` in a script).
    let signal = if is_ignored(2) { Signal::TERM } else { Signal::INT };
    kill_process(Pid::from_child(&child), signal).unwrap();
    let ended = end(child, home);
    ended.exits(130).prints("; interrupted\n").prints("\n    1K  ");
    ended.prints("of 500 launches (interrupted)");
}

/// The second signal kills the launch under way: that is an interruption too, and no failure.
#[test]
fn insisting_is_no_failure() {
    let words = "sweep -x A=1,2 all_reduce --backend host -g 2 -b 1M -e 1M -n 100000000";
    let (mut command, home) = command(&format!("{words} --record {{home}}/kept"), &[]);
    let mut child = command.spawn().unwrap();
    let record = home.path().join("kept/1-1.jsonl");
    let begun = Instant::now();
    while !record.exists() {
        assert!(begun.elapsed() < LIMIT, "no launch began");
        thread::sleep(Duration::from_millis(10));
    }
    let stderr = child.stderr.take().unwrap();
    let _drained = thread::spawn(move || BufReader::new(stderr).lines().count());
    for _ in 0..2 {
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    let ended = end(child, home);
    ended.exits(130).prints("0 of 6 launches (interrupted)");
    assert!(!ended.stdout.contains("FAILED"), "{ended}");
}

/// What was measured is kept, though the table has no reader.
#[test]
fn a_full_disk_behind_stdout_keeps_the_result() {
    let words =
        "sweep -x A=1 all_reduce --backend fake -b 8 -e 8 --launches 1 --record {home}/kept";
    let (mut command, home) = command(words, &[]);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let status = command.stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(home.path().join("kept/result.json").exists());
}

/// Whether a process with this word in its command line is there.
fn is_running(word: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.map(|entry| entry.path().join("cmdline")).any(|path| {
        let line = std::fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    })
}

#[test]
fn its_death_ends_the_launch_under_way() {
    let (mut command, home) = command(
        "sweep -x NCCL_ALGO=Ring all_reduce --backend host -g 2 -b 1M -e 1M -n 100000000 --record {home}/dead",
        &[],
    );
    let mut child = command.spawn().unwrap();
    let record = home.path().join("dead/1-1.jsonl");
    let begun = Instant::now();
    while !Path::new(&record).exists() {
        assert!(begun.elapsed() < LIMIT, "no launch began");
        thread::sleep(Duration::from_millis(20));
    }
    let word = record.to_str().unwrap();
    assert!(is_running(word));
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    while is_running(word) {
        assert!(killed.elapsed() < LIMIT, "a launch outlives its sweep");
        thread::sleep(Duration::from_millis(50));
    }
}
