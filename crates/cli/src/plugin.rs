//! `busbw plugin`: writes busbw's own net plugin to a file, and checks any plugin.
//! Not the plugin itself (crate plugin), and not measuring one (`backend::net`).

mod check;
/// busbw's own plugin, embedded in this program.
pub mod embedded;

pub use check::{partner, rule};

use std::io::Write;

use anyhow::Result;
use model::exit::Exit;

use crate::{
    answer,
    options::{PluginArguments, PluginCommand},
};

/// Runs the command.
///
/// # Errors
/// A file cannot be written, or a process cannot be started.
pub fn run(arguments: &PluginArguments) -> Result<Exit> {
    match &arguments.command {
        PluginCommand::Path => {
            let path = embedded::path()?;
            answer::answer(|out, _| writeln!(out, "{}", path.display()))?;
            Ok(Exit::Ok)
        }
        PluginCommand::Check(arguments) => check::run(arguments),
    }
}
