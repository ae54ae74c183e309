//! What became of one process of this machine, by /proc, and what tells this machine and its numbers of processes from others.
//! Not processes on other hosts, and not what a process does: a stack of it tells that.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

/// What /proc says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// There is none of this number that began by then.
    Gone,
    /// It ended, and its parent has not asked how.
    Zombie,
    /// A signal or a debugger stopped it.
    Stopped,
    /// It runs, sleeps or waits.
    There,
}

/// The process `pid` below `root` (`/proc`) that was there at `seen`, seconds since 1970: a number may be used again. None where
/// /proc cannot be read.
///
/// The second word behind the name is the state, the 20th the start in hundredths of a second since boot (proc_pid_stat(5)).
pub fn process_state(root: &Path, pid: u32, seen: u64) -> Option<ProcessState> {
    let boot = fs::read_to_string(root.join("stat")).ok()?;
    let boot: u64 =
        boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let text = match fs::read_to_string(root.join(pid.to_string()).join("stat")) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(ProcessState::Gone),
        Err(_) => return None,
    };
    // The name may have spaces and brackets.
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?;
    let began: u64 = words.nth(18)?.parse().ok()?;
    // btime is whole seconds, and may move by one when the clock is set.
    if boot + began / TICKS_PER_SECOND > seen + CLOCK_SLACK_SECONDS {
        return Some(ProcessState::Gone);
    }
    Some(match state {
        "Z" | "X" => ProcessState::Zombie,
        "T" | "t" => ProcessState::Stopped,
        _ => ProcessState::There,
    })
}

/// This boot of this machine below `root` (`/proc`): no other machine has it. None where it cannot be read.
pub fn boot_id(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join("sys/kernel/random/boot_id")).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The namespace in which this process's numbers of processes count: the inode below `root` (`/proc`). None where it cannot be read.
pub fn pid_namespace(root: &Path) -> Option<u64> {
    fs::metadata(root.join("self/ns/pid")).ok().map(|about| about.ino())
}

/// USER_HZ, which Linux has as 100 everywhere.
const TICKS_PER_SECOND: u64 = 100;
/// How far btime may be off.
const CLOCK_SLACK_SECONDS: u64 = 2;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("stat"), "cpu 1 2\nbtime 1000\n").unwrap();
        fs::create_dir(root.path().join("7")).unwrap();
        let stat = "7 (a ) b) T 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 5000 1 1\n";
        fs::write(root.path().join("7/stat"), stat).unwrap();
        let state = |pid, seen| process_state(root.path(), pid, seen);
        assert_eq!(state(7, 1060), Some(ProcessState::Stopped));
        assert_eq!(state(7, 1040), Some(ProcessState::Gone));
        assert_eq!(state(8, 1060), Some(ProcessState::Gone));
        assert_eq!(process_state(Path::new("/nonexistent"), 7, 0), None);
    }

    #[test]
    fn a_boot_is_one_line() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!((boot_id(root.path()), pid_namespace(root.path())), (None, None));
        fs::create_dir_all(root.path().join("sys/kernel/random")).unwrap();
        fs::write(root.path().join("sys/kernel/random/boot_id"), "75-a\n").unwrap();
        assert_eq!(boot_id(root.path()).as_deref(), Some("75-a"));
    }
}
