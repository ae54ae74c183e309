//! Finds mistakes in NCCL_*, RCCL_* and UCX_* settings and in the command lines that carry them.
//! It is not a shell: nothing is expanded or run, and no file is opened here.
#![forbid(unsafe_code)]

mod accepted;
mod assignment;
mod commands;
mod document;
mod environment;
mod expansion;
mod known;
mod launches;
/// The nearest of several names.
pub mod nearest;
mod order;
mod perf;
mod rccl;
mod reading;
mod rules;
mod settings;
mod tokens;
mod vocabulary;
mod yaml;

#[cfg(test)]
mod tests;

use busbw_core::{finding::Finding, nccl_version::Version};
use document::Document;

/// The rule of a list that also takes longer names.
pub const PREFIX_MATCH: &str = "prefix-match";

/// Facts about the system where the settings will be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// The NCCL release in use, when it is known.
    pub nccl_version: Option<Version>,
}

/// Reports on a shell script, a launcher's command line, YAML, Dockerfile ENV lines, or the
/// output of `env`. Findings come in the order of their lines.
pub fn lint_text(text: &str, options: &Options) -> Vec<Finding> {
    let document = Document::from_text(text);
    order::in_order(rules::check_document(&document, options))
}

/// Checks the variables of a process. Rules that need a script do not run.
pub fn lint_environment<'a>(
    vars: impl Iterator<Item = (&'a str, &'a str)>,
    options: &Options,
) -> Vec<Finding> {
    let document = Document::from_environment(vars);
    order::in_order(rules::check_settings(&document, options))
}

/// Number of settings, exports and test runs in a text. For the fuzz target only: a text without them
/// tests no rule.
#[cfg(fuzzing)]
pub fn recognised(text: &str) -> usize {
    let document = Document::from_text(text);
    document.assignments.len() + document.exports.len() + document.runs.len()
}
