//! RDMA's command lines, what happens on a machine without RDMA, and adapters that are shims.
//! Not messages over a network: tests/rdma.sh has soft RoCE in virtual machines.

mod adapters;
mod gpu_memory;
mod hosts;
mod paths;
mod ports;

use std::{
    fs,
    process::{Command, Output},
};

fn busbw(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_busbw"));
    command.args(line.split_whitespace()).env("BUSBW_NO_RECORD", "1").env_remove("BUSBW_BACKEND");
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_cannot_be_asked_for() {
    for (line, code, why) in [
        ("all_reduce --backend verbs", 5, "it moves messages between ranks"),
        ("latency --backend verbs --verb read --connection UC", 2, "that goes over RC"),
        ("bw --backend verbs --post_list 9 --tx-depth 8", 2, "does not take so many at once"),
        ("bw --backend host -g 2 --verb write", 2, "uses none by itself (--backend verbs)"),
        ("ib_write_bw some-host", 2, "use -H some-host,OTHER"),
        ("ib_atomic_lat", 2, "of perftest's programs busbw has ib_write_bw"),
        ("pairs --backend verbs -H a:2,b:2", 5, "--yes measures them"),
    ] {
        let output = busbw(line);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{line}: {text}");
        assert!(text.contains(why), "{line}: {text}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn without_a_device_it_says_what_to_do() {
    let devices = fs::read_dir("/sys/class/infiniband").map_or(0, Iterator::count);
    let output = busbw("latency --backend verbs -b 8 -e 8 -n 10");
    if devices > 0 {
        // There are some: whatever it says, it is not that.
        assert!(!said(&output).contains("no RDMA device here"), "{}", said(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(said(&output).contains("no RDMA device here"), "{}", said(&output));
    assert!(said(&output).contains("rdma link add"), "{}", said(&output));
    let output = busbw("ib_send_lat -d mlx5_0");
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
}

#[test]
fn perftests_help() {
    let output = busbw("ib_read_bw --help");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success());
    for word in ["--ib-dev", "-x", "--report_gbits", "--out_json_file", "-H a,b"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}
