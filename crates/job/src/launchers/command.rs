//! A command of a launcher: its words, and what it gets in its environment rather than on a command line,
//! which everybody on a machine can read. Not what a launcher does with it.

use std::{
    ffi::{OsStr, OsString},
    fmt, process,
};

use super::quoting::quoted;

/// A command.
#[derive(Debug, Clone)]
pub struct Command {
    /// Program and words.
    pub words: Vec<OsString>,
    /// Variables besides our own.
    pub environment: Vec<(&'static str, String)>,
}

impl Command {
    /// A command of these words, without variables.
    pub fn new(words: impl IntoIterator<Item = impl Into<OsString>>) -> Command {
        let words = words.into_iter().map(Into::into).collect();
        Command { words, environment: Vec::new() }
    }

    /// With more words.
    pub fn with(mut self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Command {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// The first word.
    pub fn program(&self) -> &OsStr {
        self.words.first().map(OsString::as_os_str).unwrap_or_default()
    }

    /// The same for the system.
    pub fn to_start(&self) -> process::Command {
        let mut command = process::Command::new(self.program());
        command
            .args(self.words.iter().skip(1))
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl fmt::Display for Command {
    /// As a shell takes it; without the environment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> =
            self.words.iter().map(|word| quoted(&word.to_string_lossy()).into_owned()).collect();
        f.write_str(&words.join(" "))
    }
}
