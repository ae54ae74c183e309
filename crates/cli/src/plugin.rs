//! `busbw plugin`: busbw's own net plugin as a file, and a look at any.
//! Not the plugin itself (crates/nccl-plugin-busbw), and not measuring one (`busbw_runner::backend::net`).

mod check;

pub use check::{partner, rule};

use std::io::Write;

use anyhow::Result;
use busbw_core::exit::Exit;

use crate::options::{PluginArguments, PluginCommand};
use busbw_render::answer;

/// Runs the command.
///
/// # Errors
/// A file cannot be written, or a process cannot be started.
pub fn run(arguments: &PluginArguments) -> Result<Exit> {
    match &arguments.command {
        PluginCommand::Path => {
            let path = busbw_runner::backend::net::embedded::path()?;
            answer::answer(|out, _| writeln!(out, "{}", path.display()))?;
            Ok(Exit::Ok)
        }
        PluginCommand::Check(arguments) => check::run(arguments),
    }
}
