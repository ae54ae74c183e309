//! A command of a launcher: its words, and the variables that go into its environment instead of the command line,
//! which every user of a machine can read.
//! Not what a launcher does with it.

use std::{
    ffi::{OsStr, OsString},
    fmt, process,
};

use busbw_core::shell::quoted;

/// A command.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Variables besides those of this process.
    pub environment: Vec<(&'static str, String)>,
}

impl Command {
    /// A command of these words, without variables.
    pub fn new(words: impl IntoIterator<Item = impl Into<OsString>>) -> Command {
        let words = words.into_iter().map(Into::into).collect();
        Command { words, environment: Vec::new() }
    }

    /// The same with more words.
    pub fn with(mut self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Command {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// The program.
    pub fn program(&self) -> &OsStr {
        self.words.first().map(OsString::as_os_str).unwrap_or_default()
    }

    /// The command for the operating system.
    pub fn to_start(&self) -> process::Command {
        let mut command = process::Command::new(self.program());
        command
            .args(self.words.iter().skip(1))
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl fmt::Display for Command {
    /// As a shell reads it; without the environment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> =
            self.words.iter().map(|word| quoted(&word.to_string_lossy()).into_owned()).collect();
        f.write_str(&words.join(" "))
    }
}
