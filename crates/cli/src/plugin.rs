//! `busbw plugin`: busbw's own plugins as files, and a look at any net plugin.
//! Not the plugins themselves (crates/nccl-plugin-busbw, crates/nccl-tuner-busbw, crates/nccl-profiler-busbw), and not measuring one (`busbw_runner::backend::net`).

mod check;

pub use check::{partner, rule};

use std::io::Write;

use anyhow::Result;
use busbw_core::exit::Exit;

use crate::options::{PluginArguments, PluginCommand, PluginKind};
use busbw_render::answer;
use busbw_runner::embedded::{self, Plugin};

/// Runs the command.
///
/// # Errors
/// A file cannot be written, or a process cannot be started.
pub fn run(arguments: &PluginArguments) -> Result<Exit> {
    match &arguments.command {
        PluginCommand::Path { plugin } => {
            let path = embedded::path(match plugin {
                PluginKind::Net => Plugin::Net,
                PluginKind::Tuner => Plugin::Tuner,
                PluginKind::Profiler => Plugin::Profiler,
            })?;
            answer::answer(|out, _| writeln!(out, "{}", path.display()))?;
            Ok(Exit::Ok)
        }
        PluginCommand::Check(arguments) => check::run(arguments),
    }
}
