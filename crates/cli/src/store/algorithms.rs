//! The cache of measured algorithm tables: one JSON file in the cache folder, an entry a machine.
//! Not the measuring: ranks do that, once for each collective and number of ranks.

use std::{fs, io::Write, path::PathBuf};

use anyhow::{Context, Result};
use model::{algorithm::Table, record::Machine};
use serde::{Deserialize, Serialize};

/// What was measured on one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Processor.
    pub cpu: String,
    /// Cores that the ranks could use: with fewer than ranks, other things are fast.
    pub cores: usize,
    /// Version of the program, whose algorithms these are.
    pub busbw: String,
    /// A table for each collective and number of ranks.
    pub tables: Vec<Table>,
}

impl Measured {
    /// Nothing measured on `machine` yet.
    fn nothing(machine: &Machine) -> Measured {
        Measured {
            cpu: machine.cpu.model.clone(),
            cores: machine.cpu.cores.len(),
            busbw: env!("CARGO_PKG_VERSION").to_owned(),
            tables: Vec::new(),
        }
    }

    fn is_like(&self, other: &Measured) -> bool {
        (&self.cpu, self.cores, &self.busbw) == (&other.cpu, other.cores, &other.busbw)
    }
}

/// `$XDG_CACHE_HOME/busbw/algorithms.json`, or what takes its place.
///
/// # Errors
/// Without a cache folder.
pub fn path() -> Result<PathBuf> {
    let cache = dirs::cache_dir()
        .context("there is no cache folder for measured algorithms: set HOME or XDG_CACHE_HOME")?;
    Ok(cache.join("busbw").join("algorithms.json"))
}

/// What was measured on `machine` before. A file that cannot be read, or that another version wrote
/// differently, counts as nothing: it is measured again.
pub fn measured(machine: &Machine) -> Measured {
    let nothing = Measured::nothing(machine);
    all().into_iter().find(|entry| entry.is_like(&nothing)).unwrap_or(nothing)
}

/// Keeps a table for `machine`, in place of the one that it had.
///
/// # Errors
/// When the file cannot be written.
pub fn keep(machine: &Machine, table: Table) -> Result<()> {
    change(machine, |tables| {
        tables.retain(|t| (t.collective, t.ranks) != (table.collective, table.ranks));
        tables.push(table);
        tables.sort_by_key(|t| (t.ranks, t.collective.name()));
    })
}

/// Forgets what was measured on `machine` for `ranks` ranks.
///
/// # Errors
/// When the file cannot be written.
pub fn forget(machine: &Machine, ranks: usize) -> Result<()> {
    change(machine, |tables| tables.retain(|table| table.ranks != ranks))
}

fn all() -> Vec<Measured> {
    let text = path().ok().and_then(|path| fs::read(path).ok()).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn change(machine: &Machine, change: impl FnOnce(&mut Vec<Table>)) -> Result<()> {
    let path = path()?;
    let folder = path.parent().context("the cache has no folder")?;
    let mut mine = measured(machine);
    let mut entries: Vec<Measured> = all().into_iter().filter(|e| !e.is_like(&mine)).collect();
    change(&mut mine.tables);
    entries.push(mine);
    let write = || -> Result<()> {
        fs::create_dir_all(folder)?;
        // Another run may read it at this moment: it gets the old file or the new one, whole.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec_pretty(&entries)?)?;
        file.persist(&path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot keep measured algorithms in {}", path.display()))
}
