//! Writing a record: one line at a time, each in one write, the last one synced to disk.
//! Not what is in a line.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use model::record::Line;

/// An open record.
#[derive(Debug)]
pub struct Writer {
    file: File,
    path: PathBuf,
}

impl Writer {
    /// Creates the file, before anything is measured: a path that cannot be written fails early.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path) -> Result<Writer> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .with_context(|| format!("cannot write the record {}; choose another path with --record, or use --no-record", path.display()))?;
        Ok(Writer { file, path: path.to_owned() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line.
    ///
    /// # Errors
    /// A full disk, for example.
    pub fn write(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_vec(line).context("cannot serialise a line of the record")?;
        text.push(b'\n');
        self.file
            .write_all(&text)
            .with_context(|| format!("cannot write to the record {}", self.path.display()))?;
        if matches!(line, Line::End(_)) {
            self.file
                .sync_all()
                .with_context(|| format!("cannot sync the record {}", self.path.display()))?;
        }
        Ok(())
    }
}
