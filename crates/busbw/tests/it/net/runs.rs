//! Runs of the `net` backend: what is measured is right, wrong data is found, and whatever ends a run ends it.
//! Not the plugin's own contract (`check`).

use std::time::Duration;

use busbw_analysis::explain::{Hardware, explain};
use busbw_logs::import;
use serde_json::Value;

use crate::{
    built_shims::folder,
    processes::bench::{Bench, Ended},
};

const LIMIT: Duration = Duration::from_secs(30);

fn plugin() -> String {
    folder().join("libnccl-net-shim.so").to_string_lossy().into_owned()
}

fn bench(words: &str) -> Bench {
    let mut bench = Bench::new(&format!("{words} --backend net --net {}", plugin()));
    // It talks over sockets on purpose, and TCP's ends linger.
    bench.looks_for_sockets = false;
    bench
}

/// Runs it, which must go well; what it compared was right, and `show` prints the same.
#[track_caller]
fn well(words: &str) -> Ended {
    let ended = bench(words).start().end(LIMIT);
    assert_eq!(ended.code(), Some(0), "{words}\n{}\n{}", ended.stdout, ended.stderr);
    let rows = ended.read_record().rows;
    assert!(!rows.is_empty(), "{words}");
    for row in &rows {
        assert_eq!(row.waived, None, "{words}");
        let half = row.out_of_place.as_ref().unwrap();
        assert_eq!(half.figures.wrong, Some(0), "{words}");
    }
    assert_eq!(ended.shown(), ended.stdout, "{words}");
    ended
}

#[test]
fn messages() {
    let few = "-n 5 -w 1 --batches 1";
    for words in [
        format!("latency -b 0 -e 0 {few}"),
        format!("latency -b 1 -e 64K -f 16 {few}"),
        format!("bw -b 1 -e 1M -f 32 {few}"),
        format!("bibw -b 1 -e 256K -f 8 -W 70 {few}"),
        format!("mbw_mr -g 4 -b 8 -e 8K -f 32 {few}"),
        format!("multi_lat -g 4 -b 8 -e 8 {few}"),
        "pairs -g 3 -b 8 -e 8K".to_owned(),
    ] {
        match words.starts_with("pairs") {
            true => drop(bench(&words).start().end(LIMIT).exits(0)),
            false => rates_and_bandwidths_agree(well(&words)),
        }
    }
}

/// Also where pairs differ: both are of their mean time.
fn rates_and_bandwidths_agree(ended: Ended) {
    for row in ended.read_record().rows {
        let half = row.out_of_place.unwrap();
        let (algbw, messages) = (half.figures.algbw.unwrap(), half.messages.unwrap());
        let moved = messages.rate * row.size as f64 / 1e9;
        assert!((moved - algbw).abs() <= 1e-6 * algbw, "{moved} {algbw}");
    }
}

/// More ranks than elements, chunks of different lengths, several slices of each.
#[test]
fn all_reduce() {
    let few = "-n 2 -w 1 --batches 1";
    for words in [
        format!("all_reduce -g 1 -b 8 -e 1K -f 4 {few}"),
        format!("all_reduce -g 2 -b 4 -e 64M -f 4096 {few}"),
        format!("all_reduce -g 3 -b 4 -e 4M -f 8 {few}"),
        format!("all_reduce -g 4 -b 20 -e 2M -f 7 -u 1 {few}"),
        format!("all_reduce_perf -g 4 -b 1K -e 1K {few}"),
    ] {
        let ended = well(&words);
        for row in ended.read_record().rows {
            let in_place = row.in_place.unwrap();
            assert_eq!(in_place.figures.wrong, Some(0), "{words}");
        }
    }
}

#[test]
fn every_type_and_operator() {
    let ended = bench("all_reduce -g 3 -d all -o all -b 1000 -e 1000 -n 1 -w 0 --batches 1");
    let rows = ended.start().end(Duration::from_secs(60)).exits(0).read_record().rows;
    assert_eq!(rows.len(), 12 * 6);
    let waived: Vec<_> = rows.iter().filter_map(|row| row.waived.as_deref()).collect();
    assert_eq!(waived.len(), 12);
    assert!(waived.iter().all(|why| why.contains("has no averages")), "{waived:?}");
    for row in rows.iter().filter(|row| row.waived.is_none()) {
        for half in [&row.out_of_place, &row.in_place] {
            assert_eq!(half.as_ref().unwrap().figures.wrong, Some(0), "{row:?}");
        }
    }
}

#[test]
fn sendrecv() {
    for ranks in [1, 2, 3] {
        let ended = well(&format!("sendrecv -g {ranks} -b 4 -e 4M -f 32 -n 2 --batches 1"));
        assert!(ended.read_record().rows.iter().all(|row| row.in_place.is_none()));
    }
}

#[test]
fn communicators_of_some_ranks() {
    let mut bench = bench("all_reduce -g 4 -b 1K -e 1M -f 1024 -n 2 --batches 1");
    bench.command.env("NCCL_TESTS_SPLIT", "%2");
    bench.start().end(LIMIT).exits(0);
}

#[test]
fn the_record_says_which_plugin() {
    let ended = well("latency -b 8 -e 8 -n 5 --batches 1");
    let text = std::fs::read_to_string(&ended.record).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: Vec<Value> = lines.filter(|line| line["kind"] == "net").collect();
    assert_eq!(told.len(), 2, "{text}");
    for (rank, facts) in told.iter().enumerate() {
        let known = [&facts["plugin"], &facts["path"], &facts["device_name"]];
        assert_eq!(known, ["shim", plugin().as_str(), "lo"]);
        let numbers = ["version", "speed", "device"].map(|name| facts[name].as_u64().unwrap());
        assert_eq!(numbers, [12, 10_000, 0], "rank {rank}");
    }
    assert!(
        ended.stderr.contains("net plugin shim (table v12, ")
            && ended.stderr.contains("over lo, which it says has 10 Gb/s"),
        "{}",
        ended.stderr
    );
}

/// What busbw's own plugin counted, as the record keeps it and `explain` tells it.
#[test]
fn paths_are_in_the_record() {
    let words = "bw -b 1M -e 1M -n 20 --batches 1 --backend net";
    let well = |bench: Bench| {
        let ended = bench.start().end(LIMIT);
        ended.exits(0);
        let run = import::read_path(&ended.record).unwrap().measurements.remove(0);
        let ranks: Vec<Option<usize>> = run.paths.iter().map(|stats| stats.rank).collect();
        assert_eq!(ranks.len(), 2, "{}", ended.stderr);
        assert!(ranks.contains(&Some(0)) && ranks.contains(&Some(1)), "{ranks:?}");
        assert!(run.paths[0].connections.iter().all(|one| one.closed), "{:?}", run.paths);
        // Rank 0 sends all of it.
        let first = run.paths.iter().find(|stats| stats.rank == Some(0)).unwrap();
        assert!(first.totals().bytes >= 20 << 20, "{first:?}");
        let told = explain(vec![run], &Hardware::read(None, None).unwrap());
        let paths = told[0].findings.iter().find(|one| one.rule == "paths").unwrap();
        assert!(paths.cause.contains("no path was lost"), "{}", paths.cause);
    };
    let ours = || {
        let mut bench = Bench::new(words);
        bench.looks_for_sockets = false;
        bench
    };
    well(ours());
    // The user's own file is read as well, and stays.
    let folder = tempfile::tempdir().unwrap();
    let mut named = ours();
    named.command.env("BUSBW_NET_STATS", folder.path().join("%p.json"));
    well(named);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

/// What the plugin breaks on its way is found, by us and not by it.
#[test]
fn wrong_data_is_found() {
    let mut broken = bench("bw -b 65537 -e 65537 -n 2 --batches 1");
    broken.command.env("BUSBW_SHIM_NET_BREAK", "sizes");
    broken.start().end(LIMIT).exits(7);
    let words = "all_reduce -g 2 -b 1M -e 1M -n 2 --batches 1 --fault rank=1,phase=timed,row=0,do=corrupt:77";
    bench(words).start().end(LIMIT).exits(7);
}

#[test]
fn a_rank_that_is_lost_ends_the_others() {
    let words = "all_reduce -g 3 -b 1M -e 8M -f 2 -n 50 --fault rank=1,phase=timed,row=2,do=kill";
    let ended = bench(words).start().end(LIMIT);
    ended.exits(6);
    assert!(ended.stderr.contains("rank 1"), "{}", ended.stderr);
}

/// A plugin that hangs does not hang the run beyond -T.
#[test]
fn a_plugin_that_hangs_is_a_timeout() {
    let mut broken = bench("latency -b 0 -e 0 -n 2 --batches 1 -T 2");
    broken.command.env("BUSBW_SHIM_NET_BREAK", "zero");
    broken.start().end(LIMIT).exits(4);
}

#[test]
fn what_cannot_be() {
    let run = |words: &str| Bench::new(words).start().end(LIMIT);
    let none = run("latency --backend net --net /nowhere/libnccl-net.so");
    none.exits(5);
    assert!(none.stderr.contains("/nowhere/libnccl-net.so"), "{}", none.stderr);
    let other = run("latency --backend net --net libc.so.6");
    other.exits(5);
    assert!(other.stderr.contains("ncclNetPlugin_v12"), "{}", other.stderr);
    let collective = run("all_gather --backend net --net x");
    collective.exits(5);
    assert!(collective.stderr.contains("all_reduce and sendrecv"), "{}", collective.stderr);
}

/// On GPUs it is NCCL that loads the plugin: its ranks' processes have the variable.
#[test]
fn nccl_is_told_of_a_plugin() {
    for (words, wanted) in [
        ("--net /x/libnccl-net-y.so", "NCCL_NET_PLUGIN=/x/libnccl-net-y.so"),
        ("--net busbw", "/libnccl-net-busbw.so"),
    ] {
        let mut bench = Bench::new(&format!("all_reduce -g 2 -b 8 -e 16 -N 0 {words}"));
        bench.looks_for_sockets = false;
        bench.command.env("LD_LIBRARY_PATH", folder());
        let mut running = bench.start();
        let ranks = running.at_row(2);
        assert_eq!(ranks.len(), 2, "{words}");
        for pid in ranks {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
            let environment = String::from_utf8_lossy(&environment).into_owned();
            let has = environment.split('\0').any(|one| one.ends_with(wanted));
            assert!(has, "{words}: {environment}");
        }
    }
}

/// Processes of a launcher, each with one rank.
#[test]
fn under_a_launcher() {
    let home = tempfile::tempdir().unwrap();
    let processes: Vec<_> = (0..3)
        .map(|rank: u32| {
            let mut command = std::process::Command::new(crate::processes::bench::BUSBW);
            command
                .args([
                    "all_reduce",
                    "-b",
                    "1K",
                    "-e",
                    "1M",
                    "-f",
                    "32",
                    "-n",
                    "2",
                    "--batches",
                    "1",
                ])
                .args(["--backend", "net", "--net", &plugin(), "--no-record"])
                .env_clear()
                .env("HOME", home.path())
                .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
                .env("OMPI_COMM_WORLD_SIZE", "3")
                .env("OMPI_COMM_WORLD_RANK", rank.to_string())
                .env("OMPI_COMM_WORLD_LOCAL_SIZE", "3")
                .env("OMPI_COMM_WORLD_LOCAL_RANK", rank.to_string())
                .env("PMIX_NAMESPACE", format!("net-{}", std::process::id()))
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let ended: Vec<_> = processes.into_iter().map(|p| p.wait_with_output().unwrap()).collect();
    for one in &ended {
        let said = String::from_utf8_lossy(&one.stderr);
        assert_eq!(one.status.code(), Some(0), "{said}");
    }
    let printed = String::from_utf8_lossy(&ended[0].stdout);
    assert!(printed.contains("# Out of bounds values : 0 OK"), "{printed}");
    assert!(ended[1].stdout.is_empty() && ended[2].stdout.is_empty());
}
