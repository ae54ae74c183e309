//! What NCCL says about itself, kept in memory: one file without a name for each process of ranks.
//! Not what it means (`busbw_library_logs::nccl`).

use std::{
    fs::File,
    io,
    os::{fd::AsRawFd, unix::fs::FileExt},
    sync::atomic::{AtomicBool, Ordering},
};

use busbw_ffi::environment;
use rustix::fs::{MemfdFlags, memfd_create};

/// NCCL's variable for the log level.
const LEVEL_VARIABLE: &str = "NCCL_DEBUG";
/// NCCL's variable for the subsystems that write.
const SUBSYSTEMS_VARIABLE: &str = "NCCL_DEBUG_SUBSYS";
/// NCCL's variable for the log's file.
const FILE_VARIABLE: &str = "NCCL_DEBUG_FILE";
/// The subsystems that are read: NCCL's initialisation and connections, then the algorithm that it
/// chooses for a call.
const SUBSYSTEMS: &str = "INIT,BOOTSTRAP,ENV,GRAPH,NET,P2P,SHM,NVLS,TUNING";
/// Bytes that are read at a time.
const READ_CHUNK_BYTES: usize = 1 << 16;

/// Those of the three variables that the user has set.
fn chosen() -> impl Iterator<Item = &'static str> {
    [LEVEL_VARIABLE, SUBSYSTEMS_VARIABLE, FILE_VARIABLE]
        .into_iter()
        .filter(|name| std::env::var_os(name).is_some())
}

/// The log of this process.
#[derive(Debug)]
pub struct Log {
    file: File,
    /// Whether NCCL writes all subsystems above; from its start on it does.
    is_capturing: AtomicBool,
    /// Whether what it wrote of its initialisation was read.
    is_read: AtomicBool,
}

impl Log {
    /// Makes NCCL, which must not be loaded yet, write into a file of ours; `None` when the user
    /// has set its log variables. Call it only while this process has one thread.
    ///
    /// # Errors
    /// The system cannot create a memory file.
    pub fn capture() -> io::Result<Option<Log>> {
        if chosen().next().is_some() {
            return Ok(None);
        }
        let file = File::from(memfd_create("busbw-nccl-log", MemfdFlags::CLOEXEC)?);
        environment::set(FILE_VARIABLE, format!("/proc/self/fd/{}", file.as_raw_fd()));
        environment::set(SUBSYSTEMS_VARIABLE, SUBSYSTEMS);
        environment::set(LEVEL_VARIABLE, "INFO");
        Ok(Some(Log::of(file)))
    }

    fn of(file: File) -> Log {
        Log { file, is_capturing: AtomicBool::new(true), is_read: AtomicBool::new(false) }
    }

    /// Whether NCCL writes all subsystems above, or warnings only.
    pub(super) fn is_capturing(&self) -> bool {
        self.is_capturing.load(Ordering::Relaxed)
    }

    /// Whether nobody has read yet what NCCL wrote of its initialisation: the caller does.
    pub(super) fn is_new(&self) -> bool {
        !self.is_read.swap(true, Ordering::Relaxed)
    }

    /// The remark for a user who has set the log variables.
    pub fn absence() -> Option<String> {
        let names: Vec<&str> = chosen().collect();
        let (verb, it, say) = match names.len() {
            1 => ("is", "it", "it says"),
            _ => ("are", "them", "they say"),
        };
        (!names.is_empty()).then(|| {
            format!(
                "{} {verb} set: NCCL writes as {say}, and the record holds neither transports nor algorithms; unset {it} to have both",
                names.join(" and ")
            )
        })
    }

    /// Sets NCCL's log level, which takes effect when NCCL reads its variables again: all
    /// subsystems above, or warnings only. That empties the file.
    pub(super) fn set_capture(&self, on: bool) {
        environment::set(LEVEL_VARIABLE, if on { "INFO" } else { "WARN" });
        self.is_capturing.store(on, Ordering::Relaxed);
    }

    /// Where the log ends now, bytes.
    pub(super) fn end(&self) -> u64 {
        self.file.metadata().map_or(0, |about| about.len())
    }

    /// Calls `line` with every line from byte `start` on, and returns where the log ended.
    pub(super) fn lines(&self, start: u64, mut line: impl FnMut(&str)) -> u64 {
        let (mut at, mut rest) = (start, Vec::new());
        let mut chunk = vec![0; READ_CHUNK_BYTES];
        while let Ok(read @ 1..) = self.file.read_at(&mut chunk, at) {
            at += read as u64;
            rest.extend_from_slice(&chunk[..read]);
            let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
            String::from_utf8_lossy(&rest[..whole]).lines().for_each(&mut line);
            rest.drain(..whole);
        }
        if !rest.is_empty() {
            line(&String::from_utf8_lossy(&rest));
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_come_whole_and_once() {
        let file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
        let log = Log::of(file);
        let long = "x".repeat(READ_CHUNK_BYTES - 3);
        (&log.file).write_all(format!("one\n{long}\ntwo\nthr").as_bytes()).unwrap();
        let mut read_lines = Vec::new();
        let end = log.lines(0, |line| read_lines.push(line.to_owned()));
        assert_eq!(read_lines, ["one", &long, "two", "thr"]);
        assert_eq!(end, log.end());
        (&log.file).write_all(b"next\n").unwrap();
        read_lines.clear();
        log.lines(end, |line| read_lines.push(line.to_owned()));
        assert_eq!(read_lines, ["next"]);
    }
}
