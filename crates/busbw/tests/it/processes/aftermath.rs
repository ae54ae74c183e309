//! What a run has left in the system: processes by the mark in their environment, and shared memory
//! by its inode.
//! Not what it wrote: that is the run's own business (`bench`).

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// Variable that marks every process of one run. Ranks inherit it, whoever their parent is.
pub const MARK: &str = "FAULTS_TEST_RUN";

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(3);

/// What `look` finds, as soon as it does.
///
/// # Panics
/// When that takes longer than `limit`.
pub fn until<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(LOOK);
    }
}

/// Every process of this machine.
pub fn all_pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Whether a living process belongs to the run `mark`. A zombie has no environment left, and no
/// memory.
pub fn is_marked(pid: u32, mark: &str) -> bool {
    let variable = format!("{MARK}={mark}");
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == variable.as_bytes()))
}

/// Living processes of the run `mark`.
pub fn processes(mark: &str) -> Vec<u32> {
    all_pids().into_iter().filter(|pid| is_marked(*pid, mark)).collect()
}

/// The run's rank processes, by number.
pub fn rank_processes(mark: &str) -> Vec<u32> {
    let mut ranks: Vec<(usize, u32)> = processes(mark)
        .into_iter()
        .filter_map(|pid| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
            let mut words = line.split('\0').skip(1);
            let is_rank = words.next() == Some("__rank");
            Some((is_rank.then(|| words.next())??.parse().ok()?, pid))
        })
        .collect();
    ranks.sort_unstable();
    ranks.into_iter().map(|(_, pid)| pid).collect()
}

/// Whether a process is stopped, and not by a debugger.
pub fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
}

/// Inodes of busbw's shared memory that a process has mapped or holds open.
pub fn shared_memory(pid: u32) -> BTreeSet<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mapped = maps
        .lines()
        .filter(|line| line.contains("memfd:busbw-"))
        .filter_map(|line| line.split_whitespace().nth(4)?.parse().ok());
    let open = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path: &PathBuf| {
            fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("memfd:busbw-"))
        })
        .filter_map(|path| Some(fs::metadata(path).ok()?.ino()));
    mapped.chain(open).collect()
}

/// Sends a signal to one process, which may be gone already.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, signal);
    }
}

/// Whether runs that we start will ignore a signal, as they do below nohup and in background jobs of
/// scripts: what was ignored stays ignored. A signal that we get ourselves is not.
pub fn is_delivered(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
    let delivered = mask >> (signal.as_raw() - 1) & 1 == 0;
    if !delivered {
        waive(&format!("signal {} is ignored by whoever started these tests", signal.as_raw()));
    }
    delivered
}

/// Ctrl-C, or what is like it where Ctrl-C is ignored.
pub fn interrupt() -> Signal {
    if is_delivered(Signal::INT) { Signal::INT } else { Signal::TERM }
}

/// Says why a check cannot be made here, past the harness, which hides what passing tests print.
pub fn waive(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "waived: {why}");
}

/// Says something past the harness as well.
pub fn tell(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "faults: {text}");
}
