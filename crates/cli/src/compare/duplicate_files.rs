//! Files of one side that hold the same bytes.
//! Not runs that say the same in other words (`busbw_analysis::comparison::distinct`).

use std::{
    fs::{self, File},
    hash::{DefaultHasher, Hasher},
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

use busbw_analysis::comparison::Repeated;

/// The files read for a side, and the copies among them.
#[derive(Debug, Default)]
pub(super) struct Copies {
    read: Vec<(u64, PathBuf)>,
    /// Copies that were found.
    pub found: Vec<Repeated>,
}

impl Copies {
    /// The file that was read before and has the same bytes. A file that cannot be read is no copy.
    pub(super) fn of(&self, path: &Path) -> Option<String> {
        let length = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
        let mut alike = self.read.iter().filter(|(other, _)| *other == length).peekable();
        alike.peek()?;
        let ours = digest(path)?;
        let same = alike.find(|(_, other)| digest(other) == Some(ours));
        same.map(|(_, other)| other.display().to_string())
    }

    /// Remembers a file that was read.
    pub(super) fn read(&mut self, path: PathBuf) {
        if let Ok(about) = fs::metadata(&path)
            && about.is_file()
        {
            self.read.push((about.len(), path));
        }
    }
}

/// A hash of the content. Files of equal length and hash count as equal.
fn digest(path: &Path) -> Option<u64> {
    let mut file = BufReader::new(File::open(path).ok()?);
    let mut hasher = DefaultHasher::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(hasher.finish()),
            read => hasher.write(buffer.get(..read)?),
        }
    }
}
