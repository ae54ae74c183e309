//! Writes a record: one line at a time, each in one write, the last one synced to disk. A file
//! without a line is removed.
//! Not what is in a line.

use crate::line;
use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use busbw_core::record::Line;

/// An open record.
#[derive(Debug)]
pub struct Writer {
    file: File,
    path: PathBuf,
    /// Whether this writer created the file and it is still empty.
    vacant: bool,
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.vacant {
            // At worst an empty file stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens a file that its owner alone may read: a command line and an environment are nobody else's business. The second
/// value is whether it is new.
fn open_private(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    let (file, vacant) = match options.write(true).create_new(true).open(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            (options.create_new(false).create(true).truncate(true).open(path)?, false)
        }
        new => (new?, true),
    };
    // A file that was there keeps its mode otherwise. Not of devices such as /dev/null; and another owner's stays.
    if file.metadata().is_ok_and(|of| of.is_file()) {
        let _ = file.set_permissions(Permissions::from_mode(0o600));
    }
    Ok((file, vacant))
}

/// Writes a file that its owner alone may read.
///
/// # Errors
/// It cannot be written.
pub fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    open_private(path)?.0.write_all(text)
}

impl Writer {
    /// Creates the file, before anything is measured: a path that cannot be written fails early.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path) -> Result<Writer> {
        let (file, vacant) = open_private(path).with_context(|| {
            format!(
                "cannot write the record {}; choose another path with --record, or use --no-record",
                path.display()
            )
        })?;
        Ok(Writer { file, path: path.to_owned(), vacant })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line.
    ///
    /// # Errors
    /// The line cannot be written: a full disk, for example.
    pub fn write(&mut self, line: &Line) -> Result<()> {
        let text = line::to_text(line).context("cannot serialise a line of the record")?;
        self.file
            .write_all(&text)
            .with_context(|| format!("cannot write to the record {}", self.path.display()))?;
        self.vacant = false;
        if matches!(line, Line::End(_)) {
            self.file
                .sync_all()
                .with_context(|| format!("cannot sync the record {}", self.path.display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_cannot_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let earlier = folder.path().join("earlier.jsonl");
        fs::write(&earlier, "earlier").unwrap();
        fs::set_permissions(&earlier, Permissions::from_mode(0o644)).unwrap();
        for path in [earlier, folder.path().join("record.jsonl")] {
            let writer = Writer::create(&path).unwrap();
            let mode = fs::metadata(writer.path()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn only_a_file_of_our_own_goes_away_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.jsonl");
        drop(Writer::create(&path).unwrap());
        assert!(!path.exists());

        fs::write(&path, "earlier").unwrap();
        drop(Writer::create(&path).unwrap());
        assert!(path.exists());
        // A file such as /dev/null must not be removed.
        drop(Writer::create(Path::new("/dev/null")).unwrap());
        assert!(Path::new("/dev/null").exists());
    }
}
