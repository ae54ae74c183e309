//! What every network must do (crates/nccl-plugin-busbw/tests/networks), of NCCL's own sockets with several threads and
//! numbers of sockets.
//! Not how fast (bench/net_plugin.py, tests/netlab.sh).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../../crates/nccl-plugin-busbw/tests/networks/cases.rs"]
mod cases;
#[path = "../../../crates/nccl-plugin-busbw/tests/networks/flow.rs"]
mod flow;
#[path = "../../../crates/nccl-plugin-busbw/tests/networks/peer.rs"]
mod peer;
#[path = "../../../crates/nccl-plugin-busbw/tests/networks/run.rs"]
mod run;
#[path = "../../../crates/nccl-plugin-busbw/tests/networks/table.rs"]
mod table;

use std::process::ExitCode;

// Linked, it puts itself behind the tables.
use reference_net as _;

const NETWORKS: [run::Network; 4] = [
    ("one socket", &[("NCCL_SOCKET_NTHREADS", "0"), ("NCCL_NSOCKS_PERTHREAD", "1")]),
    ("1 thread with 4 sockets", &[("NCCL_SOCKET_NTHREADS", "1"), ("NCCL_NSOCKS_PERTHREAD", "4")]),
    ("2 threads with 2 sockets", &[("NCCL_SOCKET_NTHREADS", "2"), ("NCCL_NSOCKS_PERTHREAD", "2")]),
    ("4 threads with 1 socket", &[("NCCL_SOCKET_NTHREADS", "4"), ("NCCL_NSOCKS_PERTHREAD", "1")]),
];

fn main() -> ExitCode {
    // Otherwise busbw's network would pass in its place.
    let name = table::tables()[4].name();
    assert_eq!(name, "reference", "the tables are not this library's");
    run::main(&NETWORKS)
}
