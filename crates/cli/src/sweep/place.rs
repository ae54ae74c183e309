//! Where the records of launches and the result of a sweep go: a folder of the user's, the data folder, or
//! nowhere. Not their form.

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

/// The result's file in a folder of the user's.
pub const RESULT: &str = "result.json";

/// A place for files.
#[derive(Debug)]
pub(crate) enum Place {
    /// The user's folder.
    Folder(PathBuf),
    /// The data folder, under names that begin with this.
    Store(String),
    /// Nowhere for long.
    Nowhere(TempDir),
}

impl Place {
    /// The place that was asked for, made.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn find(turns: &TurnArguments, prepared: &Prepared, command: &str) -> Result<Place> {
        if let Some(folder) = &turns.record {
            fs::create_dir_all(folder).map_err(|error| {
                let text = format!("--record {}: it is to be a folder: {error}", folder.display());
                ExitError::new(Exit::Usage, text)
            })?;
            return Ok(Place::Folder(folder.clone()));
        }
        if !turns.no_record && prepared.keeps_record() {
            let id = outputs::run_id(&format!("{command}-{}", prepared.program()));
            match store::new_path(&id) {
                Ok(_) => return Ok(Place::Store(id)),
                Err(error) => say(&format!("no record is kept: {error:#}")),
            }
        }
        let folder = TempDir::new().context("cannot make a folder for records of launches")?;
        Ok(Place::Nowhere(folder))
    }

    /// Whether files stay.
    pub(crate) fn is_kept(&self) -> bool {
        !matches!(self, Place::Nowhere(_))
    }

    /// The record of an environment's launch, counted from 0.
    pub(crate) fn of_launch(&self, environment: &str, launch: u32) -> Result<PathBuf> {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let name: String = environment.chars().map(plain).collect();
        let name = format!("{name}-{}", launch + 1);
        let inside = |folder: &Path| folder.join(format!("{name}.jsonl"));
        match self {
            Place::Folder(folder) => Ok(inside(folder)),
            Place::Store(id) => store::new_path(&format!("{id}-{name}")),
            Place::Nowhere(folder) => Ok(inside(folder.path())),
        }
    }

    /// Keeps the result, and says where.
    ///
    /// # Errors
    /// When it cannot be written where the user said.
    pub(crate) fn keep(&self, outcome: &Outcome) -> Result<()> {
        let path = match self {
            Place::Folder(folder) => folder.join(RESULT),
            Place::Store(id) => store::new_result_path(id)?,
            Place::Nowhere(_) => return Ok(()),
        };
        let text = serde_json::to_string(outcome).context("cannot write the result as JSON")?;
        fs::write(&path, text + "\n")
            .with_context(|| format!("cannot write the result to {}", path.display()))?;
        say(&format!("again: busbw show {}", path.display()));
        Ok(())
    }
}
