//! All cases with one network after the other.
//! Not the cases (`cases`).
//!
//! Which network a process has is chosen once, by its environment: so the program runs itself for each network.

use std::{
    process::{Command, ExitCode},
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{cases, peer};

/// A network that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(240);

/// A network's name, and the variables that choose it.
pub type Network = (&'static str, &'static [(&'static str, &'static str)]);

/// All cases with each network; or what this program is as one of its own processes.
pub fn main(networks: &[Network]) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("--inside") => return cases::all(),
        Some("--peer") => return peer::main(&words[1]),
        // Those who list tests of other programs learn that there are none by name.
        Some("--list") => return ExitCode::SUCCESS,
        _ => {}
    }
    let failed = networks.iter().filter(|(name, variables)| !passes(name, variables)).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a network does all of it; one after the other, since some of it looks at the whole process.
fn passes(name: &str, variables: &[(&str, &str)]) -> bool {
    println!("{name}:");
    let mut inside = Command::new(std::env::current_exe().unwrap())
        .arg("--inside")
        .envs(variables.iter().copied())
        .env("BUSBW_NET", "sockets")
        .env("NCCL_SOCKET_IFNAME", "lo")
        .spawn()
        .unwrap();
    let process = Pid::from_child(&inside);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(inside.wait().unwrap().success()));
    told.recv_timeout(LIMIT).unwrap_or_else(|_| {
        println!("{name}: FAILED: still running after {} s", LIMIT.as_secs());
        kill_process(process, Signal::KILL).unwrap();
        told.recv().unwrap();
        false
    })
}
