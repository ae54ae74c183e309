//! `busbw plan`: what to expect of machines and networks before anything is run.
//! Not the computation (`busbw_hardware`, `busbw_analysis::extrapolation`), and not what was measured (`explain_command`).

mod collective;
mod fabric;
mod figures;
mod flows;
mod incast;
mod networks;
mod picture;
mod runs;
mod tolerance;

use std::io::Write;

use anyhow::Result;
use busbw_core::exit::{Exit, ExitError};
use busbw_render::answer::answer;

use crate::options::{PlanArguments, PlanQuestion};

/// The version of the JSON.
const SCHEMA: u32 = 1;

/// Answers the question.
///
/// # Errors
/// The words are no question, a fact is missing, or stdout cannot be written.
pub fn run(arguments: &PlanArguments) -> Result<Exit> {
    if let Some(example) = arguments.fabric.example {
        answer(|out, _| out.write_all(example.as_bytes()))?;
        return Ok(Exit::Ok);
    }
    let question = arguments.question().map_err(usage)?;
    arguments.refuse_others(&question).map_err(usage)?;
    match question {
        PlanQuestion::Machine(collective) => collective::run(arguments, collective),
        PlanQuestion::Fabric(file, collective) => fabric::run(arguments, &file, collective),
        PlanQuestion::Lossless => networks::lossless(arguments),
        PlanQuestion::Loss => networks::loss(arguments),
        PlanQuestion::Incast => incast::run(arguments),
        PlanQuestion::Collisions => networks::collisions(arguments),
        PlanQuestion::Flows(file) => flows::run(arguments, &file),
        PlanQuestion::Runs(collective) => runs::run(arguments, collective),
    }
}

/// What the command line or a file lacks.
fn usage(text: impl Into<String>) -> ExitError {
    ExitError::new(Exit::Usage, text)
}
