//! Ends a process of this host that is stopped, by its number, if it runs this program.
//! Not the end of processes that still answer: those are told.

use std::{fs, os::unix::fs::MetadataExt};

use busbw_host::machine;
use rustix::process::{Pid, Signal, kill_process};

/// Kills process `pid` of this host if it is stopped and runs the same program as this process. Returns whether it did.
/// A number that another program has by now is left alone.
pub fn end_stopped(pid: u32) -> bool {
    machine::is_stopped(&machine::Root::system(), pid) && end(pid)
}

/// The same for a process that does not answer, whatever its state.
pub fn end(pid: u32) -> bool {
    let program = |of: &str| {
        let file = fs::metadata(format!("/proc/{of}/exe")).ok()?;
        Some((file.dev(), file.ino()))
    };
    let same = program(&pid.to_string()).is_some_and(|theirs| program("self") == Some(theirs));
    let number = i32::try_from(pid).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw);
    same && pid != std::process::id()
        && number.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn other_programs_and_this_process_are_left_alone() {
        let mut other = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        kill_process(Pid::from_child(&other), Signal::STOP).unwrap();
        while !machine::is_stopped(&machine::Root::system(), other.id()) {
            std::thread::yield_now();
        }
        assert!(!end_stopped(other.id()) && !end(other.id()));
        assert!(!end(std::process::id()) && !end(0) && !end(1) && !end(u32::MAX));
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
