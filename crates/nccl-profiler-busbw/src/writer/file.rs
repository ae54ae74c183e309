//! The file: lines, at most 32 MiB with another 32 MiB of older ones beside it.
//! Not what the lines say.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use busbw_watch_file::{End, Line, Process};

/// A file is replaced from here on. What one flush and the totals add stays below 32 MiB.
const LARGEST: u64 = 30 << 20;
/// Lines are written before there are more of them in memory.
const MUCH: usize = 1 << 20;

/// The file that is written.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    file: File,
    written: u64,
    lines: Vec<u8>,
    process: Process,
}

impl Output {
    /// Makes the file, with its first line. One of an earlier process with this number is kept as the older one.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: PathBuf, process: Process) -> io::Result<Self> {
        let file = open(&path)?;
        let mut output = Self { path, file, written: 0, lines: Vec::new(), process };
        output.line(&Line::Process(output.process.clone()));
        output.write()?;
        Ok(output)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A line more, in memory.
    pub fn line(&mut self, line: &Line) {
        let before = self.lines.len();
        if serde_json::to_writer(&mut self.lines, line).is_err() {
            self.lines.truncate(before);
            return;
        }
        self.lines.push(b'\n');
    }

    /// Whether lines in memory should be written.
    pub fn much(&self) -> bool {
        self.lines.len() >= MUCH
    }

    /// The time that times of the GPU count from: the process's line is written again.
    pub fn gpu_origin(&mut self, origin: u64) {
        self.process.gpu_origin = origin;
        self.line(&Line::Process(self.process.clone()));
    }

    /// Writes the lines. A part that could be written is taken away again.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&mut self) -> io::Result<()> {
        match self.file.write_all(&self.lines) {
            Ok(()) => {
                self.written += self.lines.len() as u64;
                self.lines.clear();
                Ok(())
            }
            Err(why) => {
                let _ = self.file.set_len(self.written);
                self.lines.clear();
                Err(why)
            }
        }
    }

    /// A last line, if there is room for one.
    pub fn last(&mut self, end: End) {
        self.line(&Line::End(end));
        let _ = self.write();
    }

    /// Whether it is time for a new file.
    pub fn full(&self) -> bool {
        self.written >= LARGEST
    }

    /// Puts the file aside and begins a new one.
    ///
    /// # Errors
    /// The system's.
    pub fn replace(&mut self) -> io::Result<()> {
        self.file = open(&self.path)?;
        self.written = 0;
        self.line(&Line::Process(self.process.clone()));
        self.write()
    }
}

/// A new file; what has its name becomes `….old.jsonl`.
fn open(path: &Path) -> io::Result<File> {
    let open = || OpenOptions::new().append(true).create_new(true).mode(0o600).open(path);
    match open() {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
            std::fs::rename(path, path.with_extension("old.jsonl"))?;
            open()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbw_watch_file::{Heartbeat, WatchFile};

    #[test]
    fn the_older_file_is_kept_and_its_older_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.b.7.jsonl");
        let process = Process {
            version: busbw_watch_file::VERSION,
            busbw: String::new(),
            host: "a.b".into(),
            pid: 7,
            boot: None,
            pid_namespace: None,
            job: None,
            rank: None,
            began: 1,
            gpu_origin: 0,
            interface: 6,
            mask: 70,
        };
        let mut output = Output::create(path.clone(), process).unwrap();
        for at in 0..3 {
            output.line(&Line::Heartbeat(Heartbeat { at, ..Heartbeat::default() }));
            output.write().unwrap();
            output.gpu_origin(5);
            output.replace().unwrap();
        }
        output.last(End { at: 9, why: "finished".into() });
        let read = |name: &str| {
            WatchFile::parse(&std::fs::read(folder.path().join(name)).unwrap()).unwrap()
        };
        assert!(matches!(read("a.b.7.jsonl").lines[..], [Line::End(_)]));
        assert_eq!(read("a.b.7.jsonl").process.gpu_origin, 5);
        assert!(matches!(
            read("a.b.7.old.jsonl").lines[..],
            [Line::Heartbeat(Heartbeat { at: 2, .. })]
        ));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
