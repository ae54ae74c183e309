//! What every network must do, through the tables that NCCL finds, both ends on this host over loopback: busbw's.
//! Not how fast (bench/), and nothing that only this network has. NCCL's own sockets: bench/reference-net.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cases;
mod flow;
mod peer;
mod run;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    run::main(&[("busbw", &[])])
}
