//! Several ports, and what goes wrong with them in mid-run: events, queue pairs in error, devices that are not there.
//! Not GPUs' memory (`gpu_memory`).

use std::{thread::sleep, time::Duration};

use super::adapters::Host;

#[test]
fn every_verb_moves_messages_and_what_arrives_is_compared() {
    let host = Host::new();
    for more in [
        "bw --verb write",
        "bw --verb read --outs 2",
        "bw --verb send --qp 3 --rx-depth 8",
        "bw --verb send --connection UC -W 8",
        "bw --verb send --connection UD -e 4K -W 8",
        "bw --verb write --disable_pcie_relaxed",
        "latency --verb write",
        "latency --verb write --connection UC --inline_size 64",
        "latency --verb send --connection UD -e 4K",
        "latency --verb read",
    ] {
        let words = format!("{more} --backend verbs -b 1 -n 20 -w 2 --batches 1 -f 64");
        let words = if more.contains("-e ") { words } else { format!("{words} -e 64K") };
        let ended = host.well(&words, &[]);
        let facts = ended.read_record().verbs;
        let polls = more.starts_with("latency --verb write") || more.contains("--disable");
        assert!(facts.iter().all(|facts| facts.relaxed_ordering != polls), "{more}: {facts:?}");
    }
}

/// The signal that everything is written overtakes what was written.
#[test]
fn writes_over_uc_that_arrive_late_are_waited_for() {
    let host = Host::new();
    let late = ("BUSBW_SHIM_UC_DELAY_MS", "60");
    for test in ["bw", "bibw", "bw --qp 3 --post_list 2"] {
        let words = format!(
            "{test} --backend verbs --connection UC -b 64 -e 4K -f 64 -n 3 -W 5 -w 1 --batches 2"
        );
        host.well(&words, &[late]);
    }
    // Later than anybody waits.
    let never = ("BUSBW_SHIM_UC_DELAY_MS", "1500");
    let ended =
        host.run("bw --backend verbs --connection UC -b 64 -e 64 -n 1 -W 4 --batches 1", &[never]);
    ended.exits(3).says("messages from rank 0 at least were lost: UC sends nothing again");
}

#[test]
fn ranks_take_the_ports_in_turn_and_every_pair_is_measured() {
    let host = Host::new();
    let ended = host.well("pairs --backend verbs -g 4 -e 4K -n 5 -W 4", &[]);
    let ports = ended.read_record().verbs;
    let of = |name: &str| ports.iter().filter(|facts| facts.device == name).count();
    assert_eq!((of("mlx5_0"), of("mlx5_1")), (2, 2));
    host.set_port("mlx5_1", false);
    let ended = host.well("bw --backend verbs -b 8 -e 8 -n 5 --batches 1", &[]);
    assert!(ended.read_record().verbs.iter().all(|facts| facts.device == "mlx5_0"));
    host.set_port("mlx5_0", false);
    host.run("bw --backend verbs -b 8 -e 8 -n 5", &[]).exits(5).says("the port is DOWN");
}

#[test]
fn a_port_that_goes_down_in_mid_run_ends_it_and_keeps_the_rows() {
    let host = Host::new();
    let words =
        "bw --backend verbs -b 1 -e 64 -f 8 -n 200 --batches 1 --max-time 30 --precision 0.0001";
    let bench = host.bench(words, &[]).start();
    sleep(Duration::from_secs(2));
    host.set_port("mlx5_1", false);
    let ended = bench.end(Duration::from_secs(60));
    ended.exits(3).says("the port went down");
}

#[test]
fn a_queue_pair_in_error_ends_the_run_with_the_devices_words() {
    let host = Host::new();
    let words = "bw --backend verbs -b 8 -e 64 -f 8 -n 50 --batches 1 -c 0";
    let ended = host.run(words, &[("BUSBW_SHIM_QP_ERROR", "400")]);
    ended.exits(3).says("transport retry counter exceeded");
}
