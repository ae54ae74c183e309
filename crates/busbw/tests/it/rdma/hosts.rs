//! Pairs over RDMA between two hosts, which are processes here that torchrun's variables and BUSBW_HOST make ones: links that others use.
//! Not the figures of a matrix (`ports`).

use std::{
    process::{Output, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use super::adapters::Host;
use crate::processes::bench::Bench;

/// A matrix between two hosts of one rank each.
fn pairs(host: &Host, port: u16, words: &str) -> Vec<Output> {
    let mut children = Vec::new();
    for rank in ["0", "1"] {
        let words = format!("pairs --backend verbs --only bw -e 4K -n 5 -W 4 --yes {words}");
        let mut bench = Bench::without_record_option(&words);
        host.on(&mut bench.command)
            .env("BUSBW_NO_RECORD", "1")
            .envs([("RANK", rank), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")])
            .envs([("LOCAL_WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1")])
            .env("MASTER_PORT", port.to_string())
            .env("BUSBW_HOST", format!("host{rank}"))
            .env("BUSBW_JOB_SECRET", "pairs");
        bench.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        children.push((bench.command.spawn().unwrap(), bench.home));
    }
    children.into_iter().map(|(child, _home)| child.wait_with_output().unwrap()).collect()
}

fn said(outputs: &[Output]) -> String {
    outputs.iter().map(|output| String::from_utf8_lossy(&output.stderr)).collect()
}

#[test]
fn links_that_others_use_are_filled_only_if_somebody_says_so() {
    let host = Host::new();
    host.set_moved("mlx5_0", 0);
    let ended = pairs(&host, 29611, "");
    assert_eq!(ended[0].status.code(), Some(0), "{}", said(&ended));
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = 0;
            while !ends.load(Ordering::Relaxed) {
                // About 20 GB/s.
                bytes += 1_000_000_000;
                host.set_moved("mlx5_0", bytes);
                thread::sleep(Duration::from_millis(50));
            }
        });
        let refused = pairs(&host, 29612, "");
        let shared = pairs(&host, 29613, "--shared");
        ends.store(true, Ordering::Relaxed);
        let text = said(&refused);
        assert_eq!(refused[0].status.code(), Some(5), "{text}");
        assert!(text.contains("of traffic on mlx5_0 port 1"), "{text}");
        assert!(text.contains("measure all the same with --shared"), "{text}");
        assert_eq!(shared[0].status.code(), Some(0), "{}", said(&shared));
    });
}
