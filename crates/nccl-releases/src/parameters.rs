//! The variables that NCCL reads: since when, until when, with which default.
//! Not which values they take (`busbw-lint`).

use std::{collections::HashMap, sync::LazyLock};

use busbw_core::nccl_version::Version;

use crate::table;

/// How the newest release that has a variable reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadBy {
    /// NCCL_PARAM: a whole number, by strtoll (src/misc/param.cc).
    Parameter,
    /// An object `ncclParam<T>`, since 2.29: a number, a text or words.
    Typed,
    /// getenv, or a function around it: a text.
    Text,
    /// No library was read that has it: it is known from NCCL's source.
    Unknown,
}

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// The first release that reads it, where known.
    pub first: Option<Version>,
    /// The first later release that does not.
    pub removed: Option<Version>,
    /// How it is read.
    pub read_by: ReadBy,
    /// The default since each of these releases, oldest first; `unset` is NCCL_CONFIG_UNDEF_INT: what the program or NCCL
    /// itself decides. Empty where it has none of its own. The first of them is no change.
    pub defaults: Vec<(Version, &'static str)>,
}

impl Parameter {
    /// The default in a release; `None` before the first that was read, or where it has none.
    pub fn default_in(&self, release: Version) -> Option<&'static str> {
        let known = self.defaults.iter().rfind(|(since, _)| *since <= release);
        known.map(|(_, default)| *default)
    }
}

/// Every variable that a release of NCCL reads or read, by its name.
pub fn parameters() -> &'static HashMap<&'static str, Parameter> {
    static PARAMETERS: LazyLock<HashMap<&str, Parameter>> = LazyLock::new(|| {
        let rows = table::rows(include_str!("generated/parameters.tsv"));
        rows.filter_map(|row| parameter(&row)).collect()
    });
    &PARAMETERS
}

fn parameter(row: &[&'static str]) -> Option<(&'static str, Parameter)> {
    let &[name, first, removed, read_by, defaults] = row else {
        return None;
    };
    let read_by = match read_by {
        "parameter" => ReadBy::Parameter,
        "typed" => ReadBy::Typed,
        "getenv" | "string" => ReadBy::Text,
        _ => ReadBy::Unknown,
    };
    let changes = defaults.split(';').filter_map(|change| {
        let (since, default) = change.split_once('=')?;
        Some((since.parse().ok()?, default))
    });
    let defaults = changes.collect();
    let (first, removed) = (table::release(first), table::release(removed));
    Some((name, Parameter { first, removed, read_by, defaults }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> &'static Parameter {
        &parameters()[name]
    }

    #[test]
    fn every_row_is_read() {
        let rows = include_str!("generated/parameters.tsv").lines().count() - 1;
        assert_eq!(parameters().len(), rows);
    }

    #[test]
    fn a_default_that_changed() {
        let attempts = of("NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX");
        assert_eq!(attempts.default_in(Version::new(2, 30, 7)), Some("5"));
        assert_eq!(attempts.default_in(Version::new(2, 32, 3)), Some("20"));
        assert_eq!(attempts.default_in(Version::new(2, 29, 7)), None);
    }

    #[test]
    fn a_variable_that_went() {
        let gone = of("NCCL_TOPO_SCATTER_START_NET");
        assert_eq!(gone.first, Some(Version::new(2, 31, 2)));
        assert_eq!(gone.removed, Some(Version::new(2, 32, 3)));
    }
}
