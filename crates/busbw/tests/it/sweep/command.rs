//! One command as these tests start and end it, with a home folder of its own.
//! Not the command's options.

use std::{
    io::Read,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::built_shims;

/// The time limit of a sweep: long enough for any of them on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A command that has ended.
pub struct Ended {
    pub home: TempDir,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Its one object.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self}"))
    }

    #[track_caller]
    pub fn exits(&self, code: i32) -> &Ended {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    #[track_caller]
    pub fn prints(&self, text: &str) -> &Ended {
        assert!(self.stdout.contains(text), "{text:?} is not in {self}");
        self
    }

    #[track_caller]
    pub fn says(&self, text: &str) -> &Ended {
        assert!(self.stderr.contains(text), "{text:?} is not in {self}");
        self
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit {:?}\n{}\n{}", self.code, self.stdout, self.stderr)
    }
}

/// `busbw WORDS`, not started. `{home}` in them is a folder of its own.
pub fn command(words: &str, variables: &[(&str, &str)]) -> (Command, TempDir) {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_busbw"));
    let path = home.path().to_str().unwrap();
    command
        .args(words.split_whitespace().map(|word| word.replace("{home}", path)))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    (command, home)
}

/// Runs it to its end.
#[track_caller]
pub fn run(words: &str, variables: &[(&str, &str)]) -> Ended {
    let (mut command, home) = command(words, variables);
    let child = command.spawn().unwrap();
    end(child, home)
}

/// The same where the shims are the machine's libraries.
#[track_caller]
pub fn on_shims(words: &str, variables: &[(&str, &str)]) -> Ended {
    let (mut command, home) = command(words, variables);
    command.env("LD_LIBRARY_PATH", built_shims::folder());
    if !variables.iter().any(|(name, _)| *name == "BUSBW_NVML") {
        command.env("BUSBW_NVML", nvml());
    }
    let child = command.spawn().unwrap();
    end(child, home)
}

/// NVML's shim.
pub fn nvml() -> PathBuf {
    built_shims::folder().join("libnvidia-ml.so.1")
}

/// Waits for the end, which must come in time.
#[track_caller]
pub fn end(mut child: Child, home: TempDir) -> Ended {
    let mut read = [child.stdout.take().map(text), child.stderr.take().map(text)];
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > LIMIT {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(10));
    };
    let [stdout, stderr] =
        read.each_mut().map(|one| one.take().map_or_else(String::new, |t| t.join().unwrap()));
    assert!(begun.elapsed() <= LIMIT, "it did not end in time:\n{stdout}\n{stderr}");
    Ended { home, code: status.code(), stdout, stderr }
}

fn text(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
