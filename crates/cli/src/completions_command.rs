//! `busbw completions`: what a shell needs to complete commands, options and their values.
//! Not the definitions: they are the help's (`options`).

use std::io::Write;

use anyhow::Result;
use busbw_core::exit::Exit;
use busbw_render::answer::answer;

use crate::options::{CompletionsArguments, grammar};

/// Prints the file of a shell.
///
/// # Errors
/// stdout cannot be written.
pub fn run(arguments: &CompletionsArguments) -> Result<Exit> {
    let mut file = Vec::new();
    clap_complete::generate(arguments.shell, &mut grammar(), "busbw", &mut file);
    answer(|out, _| out.write_all(&file))?;
    Ok(Exit::Ok)
}
