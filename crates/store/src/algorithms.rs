//! The cache of measured algorithm tables: one JSON file in the cache folder, with one entry a
//! machine.
//! Not the measuring: ranks do that, once for each collective and number of ranks.

use std::{
    fs,
    io::{Read, Write},
    path::PathBuf,
};

use anyhow::{Context, Result};
use busbw_core::{algorithm::Table, record::Machine};
use serde::{Deserialize, Serialize};

/// The tables that were measured on one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Processor.
    pub cpu: String,
    /// Cores that the ranks could use: with fewer cores than ranks, other algorithms are fast.
    pub cores: usize,
    /// Version of the program whose algorithms these are.
    pub busbw: String,
    /// A table for each collective and number of ranks.
    pub tables: Vec<Table>,
}

impl Measured {
    /// No tables for `machine` yet.
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

/// `$XDG_CACHE_HOME/busbw/algorithms.json`, or its default.
///
/// # Errors
/// There is no cache folder.
pub fn path() -> Result<PathBuf> {
    let cache = dirs::cache_dir()
        .context("there is no cache folder for measured algorithms: set HOME or XDG_CACHE_HOME")?;
    Ok(cache.join("busbw").join("algorithms.json"))
}

/// The tables that were measured on `machine` before. A file that cannot be read, or that another
/// version wrote differently, counts as empty: the tables are measured again.
pub fn measured(machine: &Machine) -> Measured {
    let nothing = Measured::nothing(machine);
    all().into_iter().find(|entry| entry.is_like(&nothing)).unwrap_or(nothing)
}

/// Stores a table for `machine`, in place of the one that it had, unless that covers larger sizes:
/// another run may have measured at the same time.
///
/// # Errors
/// When the file cannot be written.
pub fn keep(machine: &Machine, table: Table) -> Result<()> {
    change(machine, |tables| {
        let same = |t: &Table| (t.collective, t.ranks) == (table.collective, table.ranks);
        if tables.iter().any(|t| same(t) && t.measured_to > table.measured_to) {
            return;
        }
        tables.retain(|t| !same(t));
        tables.push(table);
        tables.sort_by_key(|t| (t.ranks, t.collective.name()));
    })
}

/// Removes what was measured on `machine` for `ranks` ranks.
///
/// # Errors
/// When the file cannot be written.
pub fn forget(machine: &Machine, ranks: usize) -> Result<()> {
    change(machine, |tables| tables.retain(|table| table.ranks != ranks))
}

/// More bytes than the tables of any number of machines need: a longer file was not written by busbw.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Everything in the file but invalid entries and tables: the file may contain anything, and one
/// bad entry does not make the others invalid.
fn all() -> Vec<Measured> {
    let text = path().ok().and_then(|path| {
        // Not a pipe, whose reader would wait.
        let file = fs::metadata(&path).ok()?.is_file().then(|| fs::File::open(&path).ok())??;
        let mut text = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut text).ok()?;
        Some(text)
    });
    sound(&text.unwrap_or_default())
}

fn sound(text: &[u8]) -> Vec<Measured> {
    /// An entry whose tables may be of another version.
    #[derive(Deserialize)]
    struct Entry {
        cpu: String,
        cores: usize,
        busbw: String,
        tables: Vec<serde_json::Value>,
    }
    let entries: Vec<serde_json::Value> = serde_json::from_slice(text).unwrap_or_default();
    let table = |value| serde_json::from_value::<Table>(value).ok().filter(Table::is_sound);
    entries
        .into_iter()
        .filter_map(|entry| serde_json::from_value(entry).ok())
        .map(|Entry { cpu, cores, busbw, tables }| {
            let tables = tables.into_iter().filter_map(table).collect();
            Measured { cpu, cores, busbw, tables }
        })
        .collect()
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
        // Another run may read the file at this moment: the rename gives it the old one or the new
        // one, complete.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec_pretty(&entries)?)?;
        file.persist(&path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot keep measured algorithms in {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbw_core::Collective;

    #[test]
    fn one_bad_entry_spoils_no_other() {
        let good = Table::unmeasured(Collective::AllReduce, 2);
        let mut bad = Table::unmeasured(Collective::Gather, 2);
        bad.steps.reverse();
        let entry = serde_json::json!({
            "cpu": "x", "cores": 2, "busbw": "1", "tables": [good, bad, {"collective": "none"}, 7],
        });
        let text = serde_json::json!([{"cpu": 5}, entry, null, "x"]).to_string();
        let read = sound(text.as_bytes());
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].tables, [good]);
        for nonsense in ["", "{}", "[", "[[[[", "\u{0}", "null", "[1e400]"] {
            assert_eq!(sound(nonsense.as_bytes()), [], "{nonsense}");
        }
    }
}
