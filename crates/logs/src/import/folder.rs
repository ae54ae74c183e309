//! The files that a word on the command line means: itself, or those below a folder.
//! Not what is in them.

use std::{
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use walkdir::WalkDir;

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path; `-` is stdin.
    pub path: PathBuf,
    /// Whether it was found in a folder, not named by the user.
    pub found: bool,
}

/// The files of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The files, those of a folder in the order of their names. A folder that cannot be read is listed, so
    /// that reading it fails.
    pub files: Vec<Entry>,
    /// Folders of virtual file systems (/proc, /sys), which are skipped: some of their files never end.
    pub virtual_folders: Vec<PathBuf>,
}

/// The files of all words.
pub fn files(words: &[PathBuf]) -> Vec<Entry> {
    find(words).files
}

/// The files of all words, and the virtual folders that were skipped.
pub fn find(words: &[PathBuf]) -> Found {
    let mut found = Found::default();
    for word in words {
        found.add(word);
    }
    found
}

impl Found {
    fn add(&mut self, word: &Path) {
        if !word.is_dir() {
            self.files.push(Entry { path: word.to_owned(), found: false });
            return;
        }
        let mut entries = WalkDir::new(word).sort_by_file_name().into_iter();
        while let Some(entry) = entries.next() {
            match entry {
                Ok(entry) if entry.file_type().is_dir() && is_virtual(entry.path()) => {
                    entries.skip_current_dir();
                    self.virtual_folders.push(entry.into_path());
                }
                // A link counts as what it leads to; a pipe or a device would never end.
                Ok(entry) if !entry.path().is_file() => {}
                Ok(entry) if entry.path_is_symlink() && leads_to_virtual(entry.path()) => {}
                Ok(entry) => self.files.push(Entry { path: entry.into_path(), found: true }),
                Err(error) => self
                    .files
                    .extend(error.path().map(|path| Entry { path: path.to_owned(), found: false })),
            }
        }
    }
}

/// Whether a folder is of a virtual file system.
fn is_virtual(folder: &Path) -> bool {
    let Ok(real) = folder.canonicalize() else { return false };
    ["/proc", "/sys", "/dev"].iter().any(|root| real.starts_with(root))
        // A disk in memory is no worse than another.
        && !real.starts_with("/dev/shm")
}

fn leads_to_virtual(link: &Path) -> bool {
    link.canonicalize().is_ok_and(|real| real.parent().is_some_and(is_virtual))
}

/// Why a named file is not read although it can be opened: it never ends, or reading consumes data that
/// other programs need. Pipes are read: `<(command)` is one.
pub(super) fn refusal(path: &Path, about: &std::fs::Metadata) -> Option<&'static str> {
    let kind = about.file_type();
    // A program's own input and output, on a terminal.
    let own = path.starts_with("/dev/fd") || path == Path::new("/dev/stdin");
    match () {
        () if kind.is_block_device() => Some("a disk"),
        () if kind.is_char_device() && !own => Some("a device"),
        () if path.canonicalize().is_ok_and(|real| real == Path::new("/proc/kmsg")) => {
            Some("the kernel's own log, which never ends")
        }
        () => None,
    }
}
