//! `busbw watch -H`: the files of other hosts, copied here over ssh as they grow.
//! Not what a host sends (`sending`), and not reading the copies (`folder`).

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::{
    exit::{Exit, ExitError},
    hidden_commands::WATCH_FILES,
};
use busbw_job::{
    hosts::{Host, Hosts},
    launchers::{self, LauncherName, Placement, RunningJob, job::Job},
};
use tempfile::TempDir;

use super::sending::{Piece, Said};

/// How long a host may take to say what it has.
const FIRST_TIMEOUT: Duration = Duration::from_secs(60);
/// How often it is looked what has come.
const LOOK: Duration = Duration::from_millis(100);
/// The most bytes of one line: a piece of a file as JSON, in which a byte may take six.
const MOST_LINE: u64 = 8 << 20;
/// The most bytes of copies for each host: some processes' files at their largest.
const MOST_BYTES: u64 = 8 << 30;

/// Copies of the hosts' files, in a folder that goes with this.
pub(super) struct Mirror {
    folder: TempDir,
    hosts: Vec<Remote>,
}

/// A host.
struct Remote {
    name: String,
    job: Option<Box<dyn RunningJob>>,
    lines: Receiver<String>,
    /// Whether all its files are here as they were at some time.
    has_looked: bool,
    copied: u64,
    /// Why nothing comes from it.
    failed: Option<String>,
}

impl Mirror {
    /// Connects to `hosts`. `command` is ssh with its own options; `sources` are folders and files there.
    ///
    /// # Errors
    /// No host can be reached.
    pub(super) fn of(
        hosts: &Hosts,
        command: Option<&str>,
        sources: &[PathBuf],
        follows: bool,
    ) -> Result<Mirror> {
        let folder = TempDir::new().context("cannot make a folder for the hosts' files")?;
        let started: Vec<Remote> = std::thread::scope(|scope| {
            let start = |host: &Host| {
                let host = host.clone();
                scope.spawn(move || Remote::start(host, command, sources, follows))
            };
            let threads: Vec<_> = hosts.0.iter().map(start).collect();
            let names = hosts.0.iter().map(|host| host.name.clone());
            let joined = threads.into_iter().zip(names).map(|(thread, name)| {
                let ended = thread.join();
                let ended = ended.unwrap_or_else(|_| Err(anyhow::anyhow!("a thread has ended")));
                ended.unwrap_or_else(|error| Remote::failed(name, format!("{error:#}")))
            });
            joined.collect()
        });
        let mut mirror = Mirror { folder, hosts: started };
        mirror.wait();
        if mirror.hosts.iter().all(|host| !host.has_looked) {
            let why: Vec<String> = mirror.said();
            return Err(ExitError::new(Exit::Library, why.join("; ")).into());
        }
        Ok(mirror)
    }

    /// The folder of the copies.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Until every host has said all that it has, has failed, or is late.
    fn wait(&mut self) {
        let by = Instant::now() + FIRST_TIMEOUT;
        loop {
            self.take();
            let waits = |host: &Remote| !host.has_looked && host.failed.is_none();
            if !self.hosts.iter().any(waits) {
                return;
            }
            if Instant::now() >= by {
                for host in self.hosts.iter_mut().filter(|host| waits(host)) {
                    let seconds = FIRST_TIMEOUT.as_secs();
                    host.failed = Some(format!("it has not said within {seconds} s what it has"));
                }
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Takes what has arrived.
    pub(super) fn take(&mut self) {
        for (number, host) in self.hosts.iter_mut().enumerate() {
            host.take(self.folder.path(), number);
        }
    }

    /// What is wrong, a sentence for each host.
    pub(super) fn said(&self) -> Vec<String> {
        let said = |host: &Remote| Some(format!("{}: {}", host.name, host.failed.as_ref()?));
        self.hosts.iter().filter_map(said).collect()
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        for mut job in self.hosts.iter_mut().filter_map(|host| host.job.take()) {
            // Nothing is written there, so that nothing can be left but a process that ends with its connection.
            job.abandon();
            drop(job.end());
        }
    }
}

impl Remote {
    fn start(
        host: Host,
        command: Option<&str>,
        sources: &[PathBuf],
        follows: bool,
    ) -> Result<Remote> {
        let name = host.name.clone();
        let mut words = vec![OsString::from(WATCH_FILES)];
        words.extend(follows.then(|| OsString::from("--follow")));
        words.extend(sources.iter().map(|source| source.clone().into_os_string()));
        let job = Job::of(&Placement {
            launcher: Some(LauncherName::Ssh),
            hosts: Some(Hosts(vec![Host { slots: 1, ..host }])),
            command: command.map(str::to_owned),
            words,
            ..Placement::default()
        })?;
        let Some(launcher) = launchers::launcher(LauncherName::Ssh) else {
            anyhow::bail!("there is no launcher for ssh");
        };
        let mut job = launcher.start(&job)?;
        let stdout = job.stdout();
        let (sender, lines) = mpsc::sync_channel(64);
        std::thread::Builder::new()
            .name(format!("files of {name}"))
            .spawn(move || {
                let mut stdout = BufReader::new(stdout);
                let mut line = Vec::new();
                loop {
                    line.clear();
                    let read =
                        Read::by_ref(&mut stdout).take(MOST_LINE).read_until(b'\n', &mut line);
                    if !matches!(read, Ok(1..)) {
                        return;
                    }
                    let text = String::from_utf8_lossy(&line).into_owned();
                    if sender.send(text).is_err() {
                        return;
                    }
                }
            })
            .context("cannot start a thread for a host's files")?;
        Ok(Remote { name, job: Some(job), lines, has_looked: false, copied: 0, failed: None })
    }

    fn failed(name: String, why: String) -> Remote {
        let (_, lines) = mpsc::sync_channel(1);
        Remote { name, job: None, lines, has_looked: false, copied: 0, failed: Some(why) }
    }

    fn take(&mut self, folder: &Path, number: usize) {
        let Some(job) = &mut self.job else { return };
        let lost = job.lost();
        loop {
            match self.lines.recv_timeout(Duration::ZERO) {
                Ok(line) => {
                    if let Err(error) = self.line(&line, folder, number) {
                        self.failed = Some(format!("{error:#}"));
                    }
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    // Of a host that was asked once, this is how it ends.
                    let end = self.job.take().map(|job| job.end());
                    let well = end.as_ref().is_some_and(|end| end.code == Some(0));
                    if let Some(end) = end.filter(|_| !well) {
                        self.failed.get_or_insert(format!("nothing more comes: {}", end.text));
                    } else if !self.has_looked {
                        self.failed.get_or_insert("it has ended without a word".to_owned());
                    }
                    return;
                }
            }
        }
        if let Some(lost) = lost {
            self.failed = Some(lost.text);
        }
    }

    fn line(&mut self, line: &str, folder: &Path, number: usize) -> Result<()> {
        // The login shell of a host may print what it likes.
        let Ok(said) = serde_json::from_str::<Said>(line) else { return Ok(()) };
        match said {
            Said::Looked => self.has_looked = true,
            Said::Failed { why } => self.failed = Some(why),
            Said::Piece(Piece { file, new, text }) => {
                let named =
                    file.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
                anyhow::ensure!(
                    named && file.ends_with(".jsonl"),
                    "it names a file that the profiler would not make: {file:?}"
                );
                self.copied += text.len() as u64;
                anyhow::ensure!(
                    self.copied <= MOST_BYTES,
                    "its files have more than {} GiB: name one job's folder",
                    MOST_BYTES >> 30
                );
                let path = folder.join(format!("{number:05}-{file}"));
                append(&path, new, &text).with_context(|| format!("cannot copy {file} here"))?;
                // Whatever was wrong before, something comes.
                self.failed = None;
            }
        }
        Ok(())
    }
}

/// Adds to a copy. A new one takes the name with a file of its own, so that its reader sees that it is another one.
fn append(path: &Path, new: bool, text: &str) -> Result<()> {
    if new {
        let _ = fs::remove_file(path);
    }
    let mut file: File = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(text.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote() -> Remote {
        Remote { failed: None, ..Remote::failed("a".to_owned(), String::new()) }
    }

    fn piece(file: &str, new: bool, text: &str) -> String {
        let piece = Piece { file: file.to_owned(), new, text: text.to_owned() };
        serde_json::to_string(&Said::Piece(piece)).unwrap()
    }

    #[test]
    fn pieces_become_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut host = remote();
        let read = || fs::read_to_string(folder.path().join("00003-h.1.jsonl")).unwrap();
        for (new, text, whole) in
            [(true, "a\n", "a\n"), (false, "b\n", "a\nb\n"), (true, "c\n", "c\n")]
        {
            host.line(&piece("h.1.jsonl", new, text), folder.path(), 3).unwrap();
            assert_eq!(read(), whole);
        }
        host.line("Welcome to this host!", folder.path(), 3).unwrap();
        assert!(!host.has_looked);
        host.line(r#"{"says":"looked"}"#, folder.path(), 3).unwrap();
        assert!(host.has_looked && host.failed.is_none());
        host.line(r#"{"says":"failed","why":"no job"}"#, folder.path(), 3).unwrap();
        assert_eq!(host.failed.as_deref(), Some("no job"));
    }

    /// A host cannot write anywhere else.
    #[test]
    fn names_with_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["../h.1.jsonl", "/tmp/h.1.jsonl", "h.1", "", "a b.jsonl", "h\n.jsonl"] {
            let failed = remote().line(&piece(name, true, "x\n"), folder.path(), 0);
            assert!(failed.is_err(), "{name:?}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
