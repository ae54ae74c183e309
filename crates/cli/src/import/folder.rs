//! The files that a word on the command line means: itself, or those below a folder.
//! Not what is in them.

use std::path::{Path, PathBuf};

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path; `-` is stdin.
    pub path: PathBuf,
    /// It was found in a folder, so that nobody said that it is a log.
    pub found: bool,
}

/// The files of all words, those of a folder in the order of their names. What cannot be looked into is
/// handed on, for its reading to fail.
pub fn files(words: &[PathBuf]) -> Vec<Entry> {
    words.iter().flat_map(|word| below(word)).collect()
}

fn below(word: &Path) -> Vec<Entry> {
    if !word.is_dir() {
        return vec![Entry { path: word.to_owned(), found: false }];
    }
    walkdir::WalkDir::new(word)
        .sort_by_file_name()
        .into_iter()
        .filter_map(|entry| match entry {
            // A link counts as what it leads to; a pipe or a device would never end.
            Ok(entry) if !entry.path().is_file() => None,
            Ok(entry) => Some(Entry { path: entry.into_path(), found: true }),
            Err(error) => Some(Entry { path: error.path()?.to_owned(), found: false }),
        })
        .collect()
}
