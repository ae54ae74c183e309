//! `busbw plugin`: busbw's own net plugin as a file, and a look at any.
//! Not the plugin itself (crates/nccl-plugin-busbw), and not measuring one (`backend::net`).

mod check;
/// Our plugin, as it is within this program.
pub mod embedded;

pub use check::{partner, rule};

use std::io::Write;

use anyhow::Result;
use model::exit::Exit;

use crate::{
    answer,
    options::{PluginArguments, PluginCommand},
};

/// Does it.
///
/// # Errors
/// What cannot be written, or started.
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
