//! A host's part of `busbw watch -H`: what is added to the files of the profiler, as lines on stdout.
//! Not where those lines arrive (`mirror`), and not what the files say.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use serde::{Deserialize, Serialize};

use super::folder;

/// Between two looks at the files.
const EVERY: Duration = Duration::from_millis(500);
/// The most bytes of a file in one line.
const MOST_PIECE: u64 = 1 << 20;

/// What a host says, a line each.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "says")]
pub(super) enum Said {
    /// A part of a file.
    Piece(Piece),
    /// All files were looked at: what comes next was added later.
    Looked,
    /// There are no files, or they cannot be read.
    Failed {
        /// Why.
        why: String,
    },
}

/// A part of a file, whole lines unless it is the file's end.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    /// The file's name, without folders.
    pub(super) file: String,
    /// Whether the file is another one than before, whose pieces are to be forgotten.
    pub(super) new: bool,
    /// What it adds.
    pub(super) text: String,
}

/// Prints what the files of `sources` have, and then what is added, until nobody reads it; without `follows` once.
///
/// # Errors
/// stdout cannot be written.
pub(crate) fn send(sources: &[PathBuf], follows: bool) -> Result<Exit> {
    let mut out = io::stdout().lock();
    let mut sent = Sent::default();
    loop {
        let mut said = match sent.look(sources, follows) {
            Ok(pieces) => pieces,
            Err(error) => vec![Said::Failed { why: format!("{error:#}") }],
        };
        said.push(Said::Looked);
        for one in said {
            let line = serde_json::to_string(&one).context("cannot describe a file")?;
            if let Err(error) = writeln!(out, "{line}") {
                return match error.kind() {
                    io::ErrorKind::BrokenPipe => Ok(Exit::Ok),
                    _ => Err(error).context("cannot write to stdout"),
                };
            }
        }
        out.flush().context("cannot write to stdout")?;
        if !follows {
            return Ok(Exit::Ok);
        }
        std::thread::sleep(EVERY);
    }
}

/// What was sent so far.
#[derive(Default)]
struct Sent {
    /// Where the files are, once that is known: a job that begins later is another one.
    found: Option<Vec<PathBuf>>,
    /// How far each file was sent: its inode, and bytes.
    files: BTreeMap<PathBuf, (u64, u64)>,
}

impl Sent {
    /// What was added since the last look.
    fn look(&mut self, sources: &[PathBuf], follows: bool) -> Result<Vec<Said>> {
        let mut said = Vec::new();
        let found = match self.found.take() {
            Some(found) => found,
            None => folder::existing(sources)?,
        };
        for path in folder::paths(self.found.insert(found))? {
            // A file that is replaced meanwhile is read at the next look.
            if let Err(error) = self.add(&path, follows, &mut said) {
                said.push(Said::Failed { why: format!("{}: {error:#}", path.display()) });
            }
        }
        Ok(said)
    }

    fn add(&mut self, path: &Path, follows: bool, said: &mut Vec<Said>) -> Result<()> {
        let mut file = File::open(path)?;
        let facts = file.metadata()?;
        let known = self.files.get(path).copied();
        let (mut new, mut at) = match known {
            Some((inode, at)) if inode == facts.ino() && facts.len() >= at => (false, at),
            _ => (true, 0),
        };
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        loop {
            file.seek(SeekFrom::Start(at))?;
            let mut bytes = Vec::new();
            Read::by_ref(&mut file).take(MOST_PIECE).read_to_end(&mut bytes)?;
            let full = bytes.len() as u64 == MOST_PIECE;
            // A line that is being written is sent when it is whole; what a dead process left is sent as it is.
            let whole = match bytes.iter().rposition(|byte| *byte == b'\n') {
                Some(last) if follows || full => last + 1,
                None if follows && !full => 0,
                _ => bytes.len(),
            };
            if whole == 0 {
                break;
            }
            at += whole as u64;
            let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
            said.push(Said::Piece(Piece { file: name.clone().unwrap_or_default(), new, text }));
            new = false;
            if !full {
                break;
            }
        }
        self.files.insert(path.to_owned(), (facts.ino(), at));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn pieces(said: Vec<Said>) -> Vec<(bool, String)> {
        let piece = |one| match one {
            Said::Piece(Piece { new, text, .. }) => Some((new, text)),
            _ => None,
        };
        said.into_iter().filter_map(piece).collect()
    }

    #[test]
    fn whole_lines_are_sent_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("h.1.jsonl");
        let sources = [folder.path().to_owned()];
        let mut sent = Sent::default();
        fs::write(&file, "a\nb\nc").unwrap();
        assert_eq!(pieces(sent.look(&sources, true).unwrap()), [(true, "a\nb\n".to_owned())]);
        assert_eq!(pieces(sent.look(&sources, true).unwrap()), []);
        fs::write(&file, "a\nb\ncd\n").unwrap();
        assert_eq!(pieces(sent.look(&sources, true).unwrap()), [(false, "cd\n".to_owned())]);
        // A new file takes the name, as the profiler does when one is full.
        let other = folder.path().join("other");
        fs::write(&other, "z\n").unwrap();
        fs::rename(&other, &file).unwrap();
        assert_eq!(pieces(sent.look(&sources, true).unwrap()), [(true, "z\n".to_owned())]);
        // Once: also the line that a killed process did not end.
        fs::write(&file, "z\ntorn").unwrap();
        let all = pieces(Sent::default().look(&sources, false).unwrap());
        assert_eq!(all, [(true, "z\ntorn".to_owned())]);
    }

    #[test]
    fn a_large_file_is_sent_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let line = "x".repeat(300_000) + "\n";
        fs::write(folder.path().join("h.1.jsonl"), line.repeat(9) + "torn").unwrap();
        for follows in [true, false] {
            let said = Sent::default().look(&[folder.path().to_owned()], follows).unwrap();
            let all = pieces(said);
            assert_eq!(all.iter().map(|(new, _)| *new).collect::<Vec<_>>(), [true, false, false]);
            let text: String = all.into_iter().map(|(_, text)| text).collect();
            assert_eq!(text.len(), 9 * line.len() + if follows { 0 } else { 4 });
        }
    }
}
