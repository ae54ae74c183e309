//! busbw's net plugin over queue pairs of adapters that are shims: both ports together, ports that go down, queue pairs that fail.
//! Not GPUs' memory (tests/gpu/rdma.sh has NCCL for that), and no rate means anything.

use std::{
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use nccl_plugin_abi::net_stats::NetPath;

use super::adapters::{Host, LIMIT};
use crate::processes::bench::{BUSBW, Ended};

const RDMA: (&str, &str) = ("BUSBW_NET", "rdma");
const MERGED: (&str, &str) = ("BUSBW_NET_MERGE", "1");
const UNRELIABLE: (&str, &str) = ("BUSBW_NET_CONNECTION", "UC");

/// The sum of a count of all paths of a run.
fn of_paths(ended: &Ended, count: impl Fn(&NetPath) -> u64) -> u64 {
    let stats = ended.read_record().paths;
    let connections = stats.iter().flat_map(|stats| &stats.connections);
    connections.flat_map(|connection| &connection.paths).map(count).sum()
}

/// How often they were lost.
fn lost(ended: &Ended) -> u64 {
    of_paths(ended, |path| path.lost)
}

#[test]
fn the_plugin_keeps_nccls_contract_over_queue_pairs() {
    let host = Host::new();
    let all = [(vec![RDMA], true), (vec![RDMA, MERGED], false), (vec![RDMA, UNRELIABLE], true)];
    for (variables, merges) in all {
        let plugin = Command::new(BUSBW).args(["plugin", "path"]).output().unwrap();
        let plugin = String::from_utf8(plugin.stdout).unwrap();
        let mut command = Command::new(BUSBW);
        command.args(["plugin", "check", plugin.trim()]).envs(variables);
        let output = host.on(&mut command).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let line = said.lines().find(|line| line.contains("merge")).unwrap_or_default();
        assert_eq!(line.trim_start().starts_with("fine"), merges, "{said}");
    }
}

#[test]
fn ports_carry_a_collective_together() {
    let host = Host::new();
    let words = "all_reduce --backend net -g 3 -b 1 -e 1M -f 32 -n 3 --batches 1";
    for variables in [vec![RDMA], vec![RDMA, MERGED], vec![RDMA, MERGED, UNRELIABLE]] {
        let ended = host.well(words, &variables);
        assert_eq!(lost(&ended), 0);
    }
}

#[test]
fn what_unreliable_queue_pairs_lose_is_sent_again() {
    let host = Host::new();
    let words = "bw --backend net -b 1 -e 1M -f 64 -n 4 -W 4 --batches 3";
    let loss = ("BUSBW_SHIM_UNRELIABLE_LOSS", "20");
    let ended = host.well(words, &[RDMA, MERGED, UNRELIABLE, loss]);
    let again = of_paths(&ended, |path| path.again);
    assert!(again > 0, "{}", ended.stderr);
}

#[test]
fn unreliable_queue_pairs_that_fail_are_made_anew() {
    let host = Host::new();
    let words = "bw --backend net -b 1M -e 1M -n 4 -W 4 --batches 3";
    let fault = ("BUSBW_SHIM_QP_ERROR", "60");
    let ended = host.well(words, &[RDMA, MERGED, UNRELIABLE, fault]);
    assert!(lost(&ended) >= 2, "{}", ended.stderr);
}

#[test]
fn a_port_that_goes_down_costs_paths_and_no_byte() {
    let host = Host::new();
    let words =
        "bw --backend net -b 1M -e 1M -n 4 -W 4 --batches 1 --max-time 6 --precision 0.0001";
    let run = host.bench(words, &[RDMA, MERGED]).start();
    sleep(Duration::from_millis(2500));
    host.set_port("mlx5_1", false);
    sleep(Duration::from_millis(1500));
    host.set_port("mlx5_1", true);
    let ended = run.end(LIMIT);
    assert_eq!(ended.code(), Some(0), "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("# Out of bounds values : 0 OK"), "{}", ended.stdout);
    assert!(lost(&ended) > 0, "{}", ended.stderr);
}

#[test]
fn queue_pairs_that_fail_are_made_anew() {
    let host = Host::new();
    let words = "bw --backend net -b 1M -e 1M -n 4 -W 4 --batches 3";
    // Each of them carries so many chunks, and then nothing any more.
    let ended = host.well(words, &[RDMA, MERGED, ("BUSBW_SHIM_QP_ERROR", "60")]);
    assert!(lost(&ended) >= 2, "{}", ended.stderr);
}

#[test]
fn unreliable_queue_pairs_outlive_a_network_that_carries_nothing_for_a_while() {
    let host = Host::new();
    let words =
        "bw --backend net -b 64K -e 64K -n 4 -W 4 --batches 1 --max-time 6 --precision 0.0001";
    let run = host.bench(words, &[RDMA, MERGED, UNRELIABLE]).start();
    sleep(Duration::from_millis(2500));
    host.set_loss(1000);
    sleep(Duration::from_secs(2));
    host.set_loss(0);
    let ended = run.end(LIMIT);
    assert_eq!(ended.code(), Some(0), "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("# Out of bounds values : 0 OK"), "{}", ended.stdout);
}

/// The control connections are well: nothing but the queue pairs' silence says it.
#[test]
fn unreliable_queue_pairs_that_carry_nothing_any_more_end_the_run() {
    let host = Host::new();
    let words =
        "bw --backend net -b 64K -e 64K -n 4 -W 4 --batches 1 --max-time 100 --precision 0.0001";
    let run = host.bench(words, &[RDMA, MERGED, UNRELIABLE]).start();
    sleep(Duration::from_millis(2500));
    host.set_loss(1000);
    let ended = run.end(LIMIT);
    assert_eq!(ended.code(), Some(3), "{}\n{}", ended.stdout, ended.stderr);
    ended.says("has come up for 20 s");
}

#[test]
fn without_any_port_the_run_ends_and_says_so() {
    let host = Host::new();
    host.set_port("mlx5_0", false);
    host.set_port("mlx5_1", false);
    let since = Instant::now();
    let ended = host.run("bw --backend net -b 8 -e 8 -n 4", &[RDMA]);
    assert_ne!(ended.code(), Some(0));
    ended.says("mlx5_0:1 is not active, its state is 1: DOWN");
    assert!(since.elapsed() < LIMIT);
}
