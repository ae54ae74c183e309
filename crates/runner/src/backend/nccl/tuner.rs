//! The tuner that NCCL's ranks ask: its file, read and checked as every rank's tuner will do it, and the variables that
//! make NCCL load it. Not the tuner (crates/nccl-tuner-busbw), and not comparing hosts (`busbw_job::rendezvous`).

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use busbw_core::{environment, quantity::count};
use busbw_tuner_file::{Digest, Reference, TunerFile, bounded};
use serde::{Deserialize, Serialize};

use crate::embedded::{self, Plugin};

/// NCCL's variable for the tuner to load.
pub const NCCL_TUNER_PLUGIN: &str = "NCCL_TUNER_PLUGIN";
/// The first release of NCCL whose tables of tuners busbw's has, as ncclGetVersion numbers it: 2.21.
pub(super) const FIRST_RELEASE: u32 = 22100;

/// What the ranks' tuners choose by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuner {
    /// The value of BUSBW_TUNER.
    variable: String,
    /// The value of BUSBW_TUNER_BEFORE, if it is set.
    before: Option<String>,
    /// Whether the ranks' environment is to name them; otherwise it does already.
    sets: bool,
    /// Lines with a choice in the file.
    entries: usize,
}

impl Tuner {
    /// The tuner of `--tuner FILE`.
    ///
    /// # Errors
    /// The file cannot be read, or has a line that cannot be used.
    pub fn of_file(file: &Path, before: Option<String>) -> Result<Tuner> {
        let (reference, read) = self::read(file)?;
        let text = reference.file.to_str();
        text.with_context(|| {
            format!("{} is not UTF-8, and {} is", file.display(), environment::TUNER)
        })?;
        let (variable, entries) = (reference.to_string(), read.entries.len());
        Ok(Tuner { variable, before, sets: true, entries })
    }

    /// The tuner of a BUSBW_TUNER that is set.
    ///
    /// # Errors
    /// The value cannot be read, or the file is missing, has another hash or a line that cannot be used.
    pub fn of_variable(value: &str, before: Option<String>) -> Result<Tuner> {
        let name = environment::TUNER;
        let wanted: Reference = value.parse().with_context(|| format!("{name} is \"{value}\""))?;
        let (found, read) = self::read(&wanted.file)?;
        if found.digest != wanted.digest {
            bail!(
                "{} has the SHA-256 {}, but {name} says {}: put the file that was meant there on every host, or set {name} to this one's hash on all",
                wanted.file.display(),
                found.digest,
                wanted.digest
            );
        }
        Ok(Tuner { variable: value.to_owned(), before, sets: false, entries: read.entries.len() })
    }

    /// What must be the same for every rank: the variables as a shell sets them.
    pub fn agreement(&self) -> String {
        let before =
            self.before.iter().map(|path| format!(" {}={path}", environment::TUNER_BEFORE));
        format!("{}={}{}", environment::TUNER, self.variable, before.collect::<String>())
    }

    /// A remark about it; none where the user's own variables say it.
    pub fn remark(&self) -> Option<String> {
        let before = self.before.iter().map(|path| format!("; elsewhere {path} is asked"));
        self.sets.then(|| {
            format!(
                "NCCL asks busbw's tuner: {} of {}{}",
                count(self.entries as u64, "line"),
                self.variable,
                before.collect::<String>()
            )
        })
    }

    /// Whether busbw makes NCCL load its tuner, which must be able to then.
    pub(super) fn is_asked_for(&self) -> bool {
        self.sets
    }

    /// The variables that a process of ranks needs.
    ///
    /// # Errors
    /// The tuner's library cannot be written out.
    pub(super) fn variables(&self) -> Result<Vec<(&'static str, String)>> {
        if !self.sets {
            return Ok(Vec::new());
        }
        let library = embedded::path(Plugin::Tuner)?;
        Ok(vec![
            (NCCL_TUNER_PLUGIN, library.to_string_lossy().into_owned()),
            (environment::TUNER, self.variable.clone()),
        ])
    }
}

/// Reads a file; returns what BUSBW_TUNER names it by, with its absolute path, and its entries.
///
/// # Errors
/// It cannot be read, or has a line that cannot be used.
pub fn read(file: &Path) -> Result<(Reference, TunerFile)> {
    let context = || format!("cannot read the tuner's file {}", file.display());
    let bytes = File::open(file).and_then(bounded).with_context(context)?;
    let read = TunerFile::parse(&bytes).with_context(|| format!("{}", file.display()))?;
    let file: PathBuf = std::path::absolute(file).with_context(context)?;
    Ok((Reference { file, digest: Digest::of(&bytes) }, read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_the_variable_that_every_rank_checks() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tuner.csv");
        let missing = format!("{:#}", Tuner::of_file(&file, None).unwrap_err());
        assert!(missing.contains("cannot read the tuner's file") && missing.contains("No such"));
        std::fs::write(&file, "allreduce,0,9,ring,ll,4,-1,-1\n").unwrap();
        let tuner = Tuner::of_file(&file, Some("/b.so".to_owned())).unwrap();
        let digest = Digest::of(b"allreduce,0,9,ring,ll,4,-1,-1\n");
        let value = format!("{}#sha256={digest}", file.display());
        assert_eq!(tuner.agreement(), format!("BUSBW_TUNER={value} BUSBW_TUNER_BEFORE=/b.so"));
        assert!(tuner.remark().unwrap().contains("1 line of"));

        let same = Tuner::of_variable(&value, Some("/b.so".to_owned())).unwrap();
        assert_eq!((same.agreement(), same.remark()), (tuner.agreement(), None));
        assert_eq!(same.variables().unwrap(), []);
        std::fs::write(&file, "allreduce,0,8,ring,ll,4,-1,-1\n").unwrap();
        let another = Tuner::of_variable(&value, None).unwrap_err().to_string();
        assert!(another.contains(&format!("but BUSBW_TUNER says {digest}")), "{another}");
        std::fs::write(&file, "allreduce,0\n").unwrap();
        let bad = format!("{:#}", Tuner::of_file(&file, None).unwrap_err());
        assert!(bad.contains("line 1: has 2 of at least 8 fields"), "{bad}");
    }
}
