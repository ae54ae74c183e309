//! All that the rules look at in one text or one environment, gathered once.
//! It judges nothing.

use std::collections::HashSet;

use super::assignment::{self, Assignment, Form};
use super::perf::Run;
use super::tokens::TypographicCharacter;

/// A shell variable used where it matters: in a setting of NCCL or UCX, or on a launcher's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VariableUse {
    pub(crate) line: u32,
    pub(crate) name: String,
}

/// A word with a typographic character that a shell does not read as the ASCII one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypographicWord {
    pub(crate) word: String,
    pub(crate) strange: TypographicCharacter,
}

/// A name that a launcher passes on, without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) line: u32,
    pub(crate) name: String,
}

/// The settings, uses and runs of a text.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) exports: Vec<Export>,
    pub(crate) uses: Vec<VariableUse>,
    /// The names in `uses`.
    pub(crate) used: HashSet<String>,
    pub(crate) strange: Vec<TypographicWord>,
    pub(crate) runs: Vec<Run>,
    /// Every shell variable that gets a value somewhere.
    pub(crate) set: HashSet<String>,
    /// Others may set variables too: the script sources a file, or is a template.
    pub(crate) opaque: bool,
}

impl Document {
    /// Takes over a process environment.
    pub(crate) fn from_environment<'a>(vars: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let ours = vars.filter(|(name, _)| assignment::is_ours(name));
        let assignments = ours.map(|(name, value)| reaching(None, name, value)).collect();
        Document { assignments, ..Document::default() }
    }
}

/// A setting that reaches the processes as it is.
pub(crate) fn reaching(line: Option<u32>, name: &str, value: &str) -> Assignment {
    Assignment {
        line,
        name: name.to_owned(),
        value: Some(value.to_owned()),
        expands: false,
        form: Form::Reaching,
        command: None,
    }
}
