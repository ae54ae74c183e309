//! What every network must do, through the tables that NCCL finds, both ends on this host over loopback.
//! Not how fast (bench/), and nothing that only one network has.
//!
//! Which network a process has is chosen once, by its environment: so this program runs itself for each network.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cases;
mod flow;
mod peer;
mod table;

use std::{
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

/// Its name, and what chooses it.
const NETWORKS: [(&str, &str); 5] = [
    ("busbw", ""),
    ("reference, one socket", "socket"),
    ("reference, 1 thread with 4 sockets", "socket:1x4"),
    ("reference, 2 threads with 2 sockets", "socket:2x2"),
    ("reference, 4 threads with 1 socket", "socket:4x1"),
];
/// A network that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(240);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("--inside") => return cases::all(),
        Some("--peer") => return peer::main(&words[1]),
        // Those who list tests of other programs learn that there are none by name.
        Some("--list") => return ExitCode::SUCCESS,
        _ => {}
    }
    let failed = NETWORKS.iter().filter(|(name, reference)| !passes(name, reference)).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a network does all of it; one after the other, since some of it looks at the whole process.
fn passes(name: &str, reference: &str) -> bool {
    println!("{name}:");
    let mut inside = Command::new(std::env::current_exe().unwrap())
        .arg("--inside")
        .env("BUSBW_NET_REFERENCE", reference)
        .env("BUSBW_NET_FORCE", "1")
        .env("NCCL_SOCKET_IFNAME", "lo")
        .spawn()
        .unwrap();
    let until = Instant::now() + LIMIT;
    loop {
        if let Some(status) = inside.try_wait().unwrap() {
            return status.success();
        }
        if Instant::now() > until {
            println!("{name}: FAILED: still running after {} s", LIMIT.as_secs());
            inside.kill().unwrap();
            inside.wait().unwrap();
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
}
