//! All that the rules look at in one text or one environment, gathered once.
//! It judges nothing.

use std::collections::HashSet;

use super::assignment::{self, Assignment, Form};
use super::perf::Run;
use super::rccl::Library;
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

/// A command that starts ranks by mpirun or a name of its own.
#[derive(Debug, Default)]
pub(crate) struct Launch {
    pub(crate) line: u32,
    /// Its number, as settings of its own have it.
    pub(crate) command: u32,
    /// Whether its options are those of Open MPI.
    pub(crate) is_open_mpi: bool,
    /// Whether it names several hosts, or a file of hosts.
    pub(crate) has_hosts: bool,
    /// Whether it may have options that are not in the text.
    pub(crate) is_open: bool,
    /// The names that -x passes on.
    pub(crate) names: HashSet<String>,
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
    pub(crate) launches: Vec<Launch>,
    /// The names that a shell exports, with or without a value.
    pub(crate) exported: HashSet<String>,
    /// Whether a scheduler runs the text: it has a line such as `#SBATCH`.
    pub(crate) scheduled: bool,
    /// The library that its words show.
    pub(crate) library: Library,
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
