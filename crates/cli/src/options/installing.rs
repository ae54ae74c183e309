//! Options of the commands that print what belongs to an installation: completions and manual pages.
//! Not their contents.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// `busbw copy-to`: documented (docs/check.md), and left out of help, since only a pod's manifest says it.
pub(super) const COPY_TO: &str = "copy-to";
/// Its folder.
pub(super) const FOLDER: &str = "folder";

/// Options of `busbw completions`.
#[derive(Debug, Clone, Args)]
pub struct CompletionsArguments {
    /// The shell
    pub shell: Shell,
}

/// Options of `busbw man`.
#[derive(Debug, Clone, Args)]
pub struct ManArguments {
    /// The command whose page is printed; without one, busbw's own
    #[arg(conflicts_with = "all")]
    pub command: Option<String>,
    /// Write all pages into this folder [default: none, print one]
    #[arg(long, value_name = "FOLDER")]
    pub all: Option<PathBuf>,
}
