//! What connections have done, in a file of this process: for people, and for `busbw explain`. The connection
//! manager writes it.
//! Not what is counted (`sender::counts`), nor the form (`nccl_plugin_abi::net_stats`).

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use busbw_multipath::Time;
use nccl_plugin_abi::net_stats::{self, NetConnection, NetInterface, NetStats, NetTotals};

use super::locks::lock;
use crate::{devices::Interface, log};

/// Between two times that it is written while there are connections; the last is when the process exits.
const WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// And at least, however many come and go.
const MIN_WRITE_INTERVAL: Duration = Duration::from_millis(20);
/// Connections that were closed and are listed still, and connections listed.
const MAX_CLOSED: usize = 256;
const MAX_LISTED: usize = 512;

/// The file that the environment asks for.
#[must_use]
pub fn stats_file() -> Option<PathBuf> {
    let pattern = std::env::var(net_stats::VARIABLE).ok().filter(|pattern| !pattern.is_empty())?;
    Some(net_stats::file(&pattern, &host(), std::process::id()).into())
}

fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// A connection that sends.
pub(super) trait Counted: Send + Sync {
    /// What its paths have done so far.
    fn counted(&self) -> NetConnection;
}

/// When a connection was opened that is so old, seconds since 1970.
pub(super) fn opened(age: Time) -> u64 {
    let opened = SystemTime::now().checked_sub(age.since(Time::default()));
    let opened = opened.and_then(|opened| opened.duration_since(UNIX_EPOCH).ok());
    opened.unwrap_or_default().as_secs()
}

/// The file, and what will be in it.
pub(super) struct Stats {
    file: PathBuf,
    host: String,
    interfaces: Vec<NetInterface>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    open: Vec<Weak<dyn Counted>>,
    closed: VecDeque<NetConnection>,
    /// Those that were closed before.
    before: NetTotals,
    /// When it is to be written next.
    due: Option<Instant>,
    written: Option<Instant>,
    /// Whether it could not be written, which is said once.
    failed: bool,
}

impl Stats {
    /// In this file, of paths over these interfaces.
    pub(super) fn new(file: PathBuf, interfaces: &[Interface]) -> Stats {
        let interfaces = interfaces.iter().map(|one| NetInterface {
            name: one.name.clone(),
            address: one.address,
            speed_mbps: one.speed,
        });
        Stats { file, host: host(), interfaces: interfaces.collect(), known: Mutex::default() }
    }

    /// There is one more connection.
    pub(super) fn opened(&self, whom: Weak<dyn Counted>, now: Instant) {
        let mut known = lock(&self.known);
        known.open.push(whom);
        known.hurry(now);
    }

    /// A connection has ended; this is what it has done.
    pub(super) fn closed(&self, whom: &Weak<dyn Counted>, counted: NetConnection, now: Instant) {
        let mut known = lock(&self.known);
        let Some(place) = known.open.iter().position(|other| other.ptr_eq(whom)) else {
            // It has ended before.
            return;
        };
        known.open.remove(place);
        known.closed.push_back(counted);
        if known.closed.len() > MAX_CLOSED
            && let Some(oldest) = known.closed.pop_front()
        {
            known.before.add(&oldest);
        }
        known.hurry(now);
    }

    /// Writes the file if it is time to; when that will be next.
    pub(super) fn write_when_due(&self, now: Instant) -> Option<Instant> {
        let due = lock(&self.known).due;
        if due.is_some_and(|due| due <= now) { self.write(now) } else { due }
    }

    /// Writes the file; when it is to be written next.
    pub(super) fn write(&self, now: Instant) -> Option<Instant> {
        {
            let mut known = lock(&self.known);
            known.open.retain(|whom| whom.strong_count() > 0);
            known.written = Some(now);
            known.due = (!known.open.is_empty()).then(|| now + WRITE_INTERVAL);
        }
        let outcome = serde_json::to_string(&self.counted()).map_err(io::Error::other);
        let outcome = outcome.and_then(|text| write(&self.file, (text + "\n").as_bytes()));
        let mut known = lock(&self.known);
        if let Err(error) = outcome
            && !std::mem::replace(&mut known.failed, true)
        {
            let (name, file) = (net_stats::VARIABLE, self.file.display());
            log::warn(&format!("NET/busbw: {name}: cannot write {file}: {error}; messages go on"));
        }
        known.due
    }

    /// What connections have done so far.
    pub(super) fn counted(&self) -> NetStats {
        let (open, closed, before) = {
            let known = lock(&self.known);
            let open: Vec<Arc<dyn Counted>> = known.open.iter().filter_map(Weak::upgrade).collect();
            (open, known.closed.clone(), known.before)
        };
        let mut stats = NetStats {
            busbw_net_stats: net_stats::VERSION,
            rank: None,
            host: self.host.clone(),
            pid: std::process::id(),
            written: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            interfaces: self.interfaces.clone(),
            connections: closed.into(),
            others: (before.connections > 0).then_some(before),
        };
        stats.connections.extend(open.iter().map(|shared| shared.counted()));
        stats.keep(MAX_LISTED);
        stats
    }
}

impl Known {
    /// It is to be written now, or as soon as may be.
    fn hurry(&mut self, now: Instant) {
        let soon = self.written.map_or(now, |written| now.max(written + MIN_WRITE_INTERVAL));
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
    }
}

/// Replaces a file by one with this text: who reads it sees the one or the other. What is open already, as its folder
/// says, is written in place; what is no file is left alone.
fn write(file: &Path, text: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new(""));
    if [Path::new("/proc/self/fd"), Path::new("/dev/fd")].contains(&folder) {
        // Never empty: who reads it twice alike has it whole.
        let mut open = File::options().write(true).open(file)?;
        return open.write_all(text).and_then(|()| open.set_len(text.len() as u64));
    }
    if fs::metadata(file).is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::other("it is no file"));
    }
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(name);
    let outcome = fs::write(&new, text).and_then(|()| fs::rename(&new, file));
    if outcome.is_err() {
        let _ = fs::remove_file(&new);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stats");
        for text in ["one", "two"] {
            write(&file, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write(Path::new("/dev/null"), b"text").is_err());
        assert!(write(folder.path(), b"text").is_err());
        assert!(write(&folder.path().join("missing/stats"), b"text").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
