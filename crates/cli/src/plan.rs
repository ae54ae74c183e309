//! `busbw plan`: what to expect of machines and networks before anything is run.
//! Not the computation (`busbw_hardware`), and not what was measured (`explain_command`).

mod collective;
mod figures;
mod networks;

use anyhow::Result;
use busbw_core::exit::{Exit, ExitError};

use crate::options::{PlanArguments, PlanQuestion};

/// The version of the JSON.
const SCHEMA: u32 = 1;

/// Answers the question.
///
/// # Errors
/// The words are no question, a fact is missing, or stdout cannot be written.
pub fn run(arguments: &PlanArguments) -> Result<Exit> {
    let question = arguments.question().map_err(usage)?;
    arguments.refuse_others(&question).map_err(usage)?;
    match question {
        PlanQuestion::Machine(collective) => collective::run(arguments, collective),
        PlanQuestion::Fabric(file, _) => Err(usage(format!(
            "{}: busbw plan does not read fabric files; name hosts with --machine, and one collective",
            file.display()
        ))
        .into()),
        PlanQuestion::Lossless => networks::lossless(arguments),
        PlanQuestion::Loss => networks::loss(arguments),
        PlanQuestion::Collisions => networks::collisions(arguments),
    }
}

/// What the command line or a file lacks.
fn usage(text: impl Into<String>) -> ExitError {
    ExitError::new(Exit::Usage, text)
}
