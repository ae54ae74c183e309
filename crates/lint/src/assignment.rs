//! What a NAME=value setting is, and which names could be meant for NCCL, its relatives or UCX.
//! It does not know the places where settings stand; `commands` and `yaml` do.

use busbw_core::{environment, finding::Place};

use super::known::tables;
use crate::nearest::distance;

/// Where a setting came from; it decides how sure a rule may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Reaches the program: exported, on a command line, in YAML, in an environment.
    Reaching,
    /// A line of its own in a script; may be a variable of the script only.
    Local,
}

/// One setting of a variable that is, or could be meant to be, NCCL's or UCX's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) line: Option<u32>,
    pub(crate) name: String,
    /// None when the value is not in the text (`valueFrom`).
    pub(crate) value: Option<String>,
    /// The value holds `$...`, so it cannot be judged here.
    pub(crate) expands: bool,
    pub(crate) form: Form,
    /// The command it belongs to; none when it holds for all that follow.
    pub(crate) command: Option<u32>,
}

impl Assignment {
    /// Where it is.
    pub(crate) fn place(&self) -> Place {
        Place { value: self.value.clone(), ..Place::at(self.line, &self.name) }
    }

    /// The value, where it can be judged: given, not empty, and without expansions.
    pub(crate) fn literal(&self) -> Option<&str> {
        let value = self.value.as_deref()?;
        (!self.expands && !value.is_empty()).then_some(value)
    }
}

/// Splits `NAME=value` (or `NAME+=value`); the name may hold the slips that we look for.
pub(crate) fn split(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    is_name(name).then_some((name, value))
}

/// A name, with hyphens allowed because people type them for underscores.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Whether the name is meant for NCCL, RCCL, NCCLX or UCX, rightly spelt or not, or for busbw's tuner in them.
pub(crate) fn is_ours(name: &str) -> bool {
    if [environment::TUNER, environment::TUNER_BEFORE].contains(&name) {
        return true;
    }
    if ["NCCL_", "UCX_", "RCCL_", "NCCLX_"].iter().any(|family| name.starts_with(family)) {
        return true;
    }
    // Cheap refusals first: this is asked for every variable of a long text.
    let Some(first) = name.bytes().next() else {
        return false;
    };
    if !matches!(first, b'N' | b'n' | b'U' | b'u' | b'C' | b'c' | b'X' | b'x') || name.len() > 64 {
        return false;
    }
    repaired(name).is_some()
}

/// The known name behind a slip in the first word, the case, or the joints.
pub(crate) fn repaired(name: &str) -> Option<String> {
    // Lower case with hyphens is an option or a package name (nccl-tests), not a slip.
    if name.contains('-') && name.bytes().any(|b| b.is_ascii_lowercase()) {
        return None;
    }
    let upper = name.to_ascii_uppercase().replace('-', "_");
    let (first, rest) = upper.split_once('_')?;
    let family = family_of(first)?;
    let fixed = format!("{family}_{rest}");
    (fixed != name && tables().is_current(&fixed)).then_some(fixed)
}

/// The family whose name this first word is, give or take one slip.
fn family_of(first: &str) -> Option<&'static str> {
    // Neighbours with names of their own.
    if matches!(first, "RCCL" | "NCCLX" | "UCC" | "UCP" | "UCT" | "UCS" | "UCM" | "CCL" | "NCC") {
        return None;
    }
    let near = |family: &str| distance(first, family, 1).is_some();
    ["NCCL", "UCX"].into_iter().find(|family| near(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_split_once() {
        assert_eq!(split("NCCL_IB_HCA==mlx5_0"), Some(("NCCL_IB_HCA", "=mlx5_0")));
        assert_eq!(split("A+=b"), Some(("A", "b")));
        assert_eq!(split("--opt=1"), None);
        assert_eq!(split("a/b=1"), None);
    }

    #[test]
    fn slips_in_the_first_word_and_the_joints_are_ours() {
        assert_eq!(repaired("NCLL_DEBUG").as_deref(), Some("NCCL_DEBUG"));
        assert_eq!(repaired("NCCL-IB-HCA").as_deref(), Some("NCCL_IB_HCA"));
        assert_eq!(repaired("nccl_debug").as_deref(), Some("NCCL_DEBUG"));
        assert_eq!(repaired("UXC_TLS").as_deref(), Some("UCX_TLS"));
    }

    #[test]
    fn neighbours_are_left_alone() {
        for name in ["UCC_TLS", "UCP_TLS", "nccl-tests", "NAME", "CUDA_HOME", "N_DEBUG"] {
            assert!(!is_ours(name), "{name}");
        }
    }

    #[test]
    fn a_right_name_needs_no_repair() {
        assert!(is_ours("NCCL_DEBUG"));
        assert_eq!(repaired("NCCL_DEBUG"), None);
    }
}
