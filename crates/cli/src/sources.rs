//! What the words of a reading command name: files, folders, stdin, and runs of the data folder by their ids. A command
//! never waits for a keyboard without a message.
//! Not reading them (`busbw_logs::import`).

use std::{
    io::{self, IsTerminal, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use anyhow::Result;
use busbw_core::{
    exit::{Exit, ExitError},
    printable::Printable,
};
use busbw_store as store;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, fstat},
};

/// How long a pipe may give nothing before it is said that it is waited for.
const FIRST_BYTE_TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The paths of `words`: an id, or the beginning of one, becomes the path of its record. Without a word it is stdin where
/// something is piped in, else the newest run.
///
/// # Errors
/// There is no run, or several have ids that begin so.
pub fn find(words: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if words.is_empty() {
        return Ok(vec![match is_piped() {
            true => announced(Path::new("-")),
            false => store::find(None).map_err(usage)?,
        }]);
    }
    let mut paths = Vec::new();
    for word in words {
        match store::launches_of(word) {
            Ok(launches) if !launches.is_empty() => paths.extend(launches),
            _ => paths.push(find_one(word)?),
        }
    }
    Ok(paths)
}

/// The path of one word, as [`find`] gives it.
///
/// # Errors
/// No id of a run begins so, or several do.
pub fn find_one(word: &Path) -> Result<PathBuf> {
    if word.exists() || word == Path::new("-") || word.components().count() != 1 {
        return Ok(announced(word));
    }
    match store::find(Some(word)) {
        Ok(path) => Ok(path),
        // Ids begin with a date; what else is no file is refused where it is read, by its name.
        Err(error) if word.to_string_lossy().starts_with(|c: char| c.is_ascii_digit()) => {
            Err(usage(error).into())
        }
        Err(_) => Ok(word.to_owned()),
    }
}

fn usage(error: anyhow::Error) -> ExitError {
    ExitError::new(Exit::Usage, format!("{error:#}"))
}

/// The word as it is; says on stderr what is waited for, if it is stdin and nothing comes.
pub fn announced(word: &Path) -> PathBuf {
    if word == Path::new("-") {
        let text = match io::stdin().is_terminal() {
            true => Some("reading from the keyboard: paste the text, then press Ctrl-D"),
            false => {
                silent().then_some("stdin is a pipe that gives nothing yet: waiting for its end")
            }
        };
        if let Some(text) = text {
            let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {text}");
        }
    }
    word.to_owned()
}

/// Whether stdin is a file, a pipe or a socket that was connected on purpose: no terminal, and not /dev/null.
fn is_piped() -> bool {
    let kind = fstat(io::stdin()).map(|about| FileType::from_raw_mode(about.st_mode));
    kind.is_ok_and(|kind| kind != FileType::CharacterDevice)
}

fn silent() -> bool {
    let stdin = io::stdin();
    let mut descriptors = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
    poll(&mut descriptors, Some(&FIRST_BYTE_TIMEOUT)).is_ok_and(|ready| ready == 0)
}
