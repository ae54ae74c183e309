//! Where the records of launches and the result of a sweep are stored: the user's folder, the data
//! folder, or a temporary one.
//! Not their form.

use busbw_analysis::sweep::RESULT_FILE;
use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use tempfile::TempDir;

use super::{Outcome, Prepared, say};
use crate::options::TurnArguments;
use busbw_core::exit::ExitError;
use busbw_runner::outputs;
use busbw_store as store;

/// A folder for records.
#[derive(Debug)]
pub(crate) enum Destination {
    /// The user's folder.
    Folder(PathBuf),
    /// The data folder, under names with this prefix.
    Store(String),
    /// A folder that is removed at the end.
    Temporary(TempDir),
}

impl Destination {
    /// The requested folder, created.
    ///
    /// # Errors
    /// It cannot be created.
    pub(crate) fn find(
        turns: &TurnArguments,
        prepared: &Prepared,
        command: &str,
    ) -> Result<Destination> {
        if let Some(folder) = &turns.record {
            fs::create_dir_all(folder).map_err(|error| {
                let text = format!("--record {}: it must be a folder: {error}", folder.display());
                ExitError::new(Exit::Usage, text)
            })?;
            return Ok(Destination::Folder(folder.clone()));
        }
        if !turns.no_record && prepared.keeps_record() {
            let id = outputs::run_id(&format!("{command}-{}", prepared.program()));
            match store::new_path(&id) {
                Ok(_) => return Ok(Destination::Store(id)),
                Err(error) => say(&format!("no record is kept: {error:#}")),
            }
        }
        let folder = TempDir::new().context("cannot make a folder for records of launches")?;
        Ok(Destination::Temporary(folder))
    }

    /// Whether files are kept.
    pub(crate) fn is_kept(&self) -> bool {
        !matches!(self, Destination::Temporary(_))
    }

    /// The path for the record of an environment's launch, counted from 0.
    pub(crate) fn of_launch(&self, environment: &str, launch: u32) -> Result<PathBuf> {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let name: String = environment.chars().map(plain).collect();
        let name = format!("{name}-{}", launch + 1);
        let inside = |folder: &Path| folder.join(format!("{name}.jsonl"));
        match self {
            Destination::Folder(folder) => Ok(inside(folder)),
            Destination::Store(id) => store::new_path(&format!("{id}-{name}")),
            Destination::Temporary(folder) => Ok(inside(folder.path())),
        }
    }

    /// Stores the result, and prints its path.
    ///
    /// # Errors
    /// The path that the user named cannot be written.
    pub(crate) fn keep(&self, outcome: &Outcome) -> Result<()> {
        let path = match self {
            Destination::Folder(folder) => folder.join(RESULT_FILE),
            Destination::Store(id) => store::new_result_path(id)?,
            Destination::Temporary(_) => return Ok(()),
        };
        let text = serde_json::to_string(outcome).context("cannot write the result as JSON")?;
        store::write_private(&path, (text + "\n").as_bytes())
            .with_context(|| format!("cannot write the result to {}", path.display()))?;
        say(&format!("again: busbw show {}", path.display()));
        Ok(())
    }
}
