//! The names and values that NCCL and UCX know, from the releases of NCCL and the tables in `data/`.
//! It does not judge a setting; the rules do.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use busbw_core::finding::Severity;
use busbw_nccl_releases::{Parameter, ReadBy, parameters};

/// What a value may be.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// A whole number; NCCL reads it with C's strtoll.
    Int { least: Option<i64>, most: Option<i64> },
    /// A number of threads: whole warps.
    Warps { least: Option<i64>, most: Option<i64> },
    /// One of a few words.
    Word { words: Vec<&'static str>, any_case: bool },
    /// A comma list of words, `^` first to turn it round.
    Words { words: Vec<&'static str> },
    /// NCCL_ALGO's grammar: `ring,tree;allreduce:^tree`.
    Choice { words: Vec<&'static str> },
    /// A path type, or an old number.
    Distance { words: Vec<&'static str> },
}

/// Why a published name does nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotRead {
    pub(crate) severity: Severity,
    pub(crate) cause: &'static str,
    pub(crate) remedy: &'static str,
}

/// All tables; every use goes through [`tables`].
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) nccl: &'static HashMap<&'static str, Parameter>,
    /// UCX names; the value is the last release that read a name since removed.
    pub(crate) ucx: HashMap<&'static str, Option<&'static str>>,
    pub(crate) values: HashMap<&'static str, Kind>,
    pub(crate) not_read: HashMap<&'static str, NotRead>,
    pub(crate) others: HashSet<&'static str>,
    /// Prefixes that belong to plugins, `NCCL_OFI_` for one.
    pub(crate) other_prefixes: Vec<&'static str>,
}

/// The tables, read once: they are part of the program, so a bad row is left out, not an error.
pub(crate) fn tables() -> &'static Tables {
    static TABLES: LazyLock<Tables> = LazyLock::new(read);
    &TABLES
}

fn read() -> Tables {
    let others =
        || rows(include_str!("data/other_readers.tsv")).filter_map(|row| row.first().copied());
    Tables {
        nccl: parameters(),
        ucx: ucx_names().collect(),
        values: rows(include_str!("data/nccl_values.tsv")).filter_map(|row| kind(&row)).collect(),
        not_read: rows(include_str!("data/not_read.tsv"))
            .filter_map(|row| not_read(&row))
            .collect(),
        others: others().filter(|name| !name.ends_with('*')).collect(),
        other_prefixes: others().filter_map(|name| name.strip_suffix('*')).collect(),
    }
}

/// Rows of a table with a header line.
fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().skip(1).map(|line| line.split('\t').collect())
}

fn ucx_names() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    let lines = include_str!("data/ucx_env.txt").lines();
    lines.filter(|line| !line.starts_with('#')).map(|line| match line.split_once(' ') {
        Some((name, last)) => (name, Some(last)),
        None => (line, None),
    })
}

fn kind(row: &[&'static str]) -> Option<(&'static str, Kind)> {
    let &[name, kind, least_or_words, most] = row else {
        return None;
    };
    let bounds = || (least_or_words.parse().ok(), most.parse().ok());
    let words = || least_or_words.split(' ').collect();
    let kind = match kind {
        "int" => {
            let (least, most) = bounds();
            Kind::Int { least, most }
        }
        "warps" => {
            let (least, most) = bounds();
            Kind::Warps { least, most }
        }
        "word" => Kind::Word { words: words(), any_case: false },
        "word-anycase" => Kind::Word { words: words(), any_case: true },
        "words-anycase" => Kind::Words { words: words() },
        "choice" => Kind::Choice { words: words() },
        "distance" => Kind::Distance { words: words() },
        _ => return None,
    };
    Some((name, kind))
}

fn not_read(row: &[&'static str]) -> Option<(&'static str, NotRead)> {
    let &[name, severity, cause, remedy] = row else {
        return None;
    };
    let severity = match severity {
        "warning" => Severity::Warning,
        "note" => Severity::Note,
        _ => return None,
    };
    Some((name, NotRead { severity, cause, remedy }))
}

impl Tables {
    /// What the value of a variable of NCCL may be, where that is known.
    pub(crate) fn kind(&self, name: &str) -> Option<&Kind> {
        const ANY_NUMBER: Kind = Kind::Int { least: None, most: None };
        self.values.get(name).or_else(|| {
            let number = self.nccl.get(name)?.read_by == ReadBy::Parameter;
            number.then_some(&ANY_NUMBER)
        })
    }

    /// Whether a library that is still current reads this very name.
    pub(crate) fn is_current(&self, name: &str) -> bool {
        self.nccl.get(name).is_some_and(|life| life.removed.is_none())
            || self.ucx.get(name).is_some_and(|last| last.is_none())
            || self.others.contains(name)
    }

    /// Names worth offering in place of a wrong one that starts with NCCL or UCX.
    pub(crate) fn offers<'s>(&'s self, family: &'s str) -> impl Iterator<Item = &'static str> + 's {
        let nccl =
            self.nccl.iter().filter(|(_, life)| life.removed.is_none()).map(|(name, _)| *name);
        let ucx = self.ucx.iter().filter(|(_, last)| last.is_none()).map(|(name, _)| *name);
        let others = self.others.iter().copied();
        nccl.chain(ucx).chain(others).filter(move |name| name.starts_with(family))
    }
}

#[cfg(test)]
mod tests {
    use busbw_core::nccl_version::Version;

    use super::*;

    #[test]
    fn every_row_of_every_table_is_read() {
        let count = |text: &str| text.lines().filter(|l| !l.starts_with('#')).count();
        let t = tables();
        assert_eq!(t.ucx.len(), count(include_str!("data/ucx_env.txt")));
        assert_eq!(t.values.len(), count(include_str!("data/nccl_values.tsv")) - 1);
        assert_eq!(t.not_read.len(), count(include_str!("data/not_read.tsv")) - 1);
        let others = t.others.len() + t.other_prefixes.len();
        assert_eq!(others, count(include_str!("data/other_readers.tsv")) - 1);
    }

    #[test]
    fn tables_do_not_contradict_each_other() {
        let t = tables();
        for name in t.not_read.keys() {
            assert!(!t.nccl.contains_key(name), "{name} is both read and not read");
        }
        for name in t.values.keys() {
            assert!(t.nccl.contains_key(name), "{name} has a value but no row");
        }
    }

    #[test]
    fn releases_are_versions() {
        let life = &tables().nccl["NCCL_MNNVL"];
        assert_eq!(life.first, Some(Version::new(2, 20, 3)));
        assert_eq!(life.removed, Some(Version::new(2, 21, 5)));
        assert!(tables().nccl["NCCL_DEBUG"].removed.is_none());
    }

    #[test]
    fn a_number_without_bounds_is_still_a_number() {
        let kind = tables().kind("NCCL_IB_WQE_LATENCY_THRESHOLD_NS");
        assert!(matches!(kind, Some(Kind::Int { least: None, most: None })), "{kind:?}");
        assert!(tables().kind("NCCL_TOPO_FILE").is_none());
    }

    #[test]
    fn ucx_names_multiply_by_transport() {
        for name in ["UCX_TLS", "UCX_RC_MLX5_TIMEOUT", "UCX_TCP_SNDBUF", "UCX_CUDA_IPC_CACHE"] {
            assert!(tables().is_current(name), "{name}");
        }
        assert!(!tables().is_current("UCX_IB_REG_METHODS"));
    }
}
