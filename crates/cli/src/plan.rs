//! `busbw plan`: what to expect of machines and networks before anything is run.
//! Not the computation (`busbw_hardware`), and not what was measured (`explain_command`).

use anyhow::Result;
use busbw_core::exit::{Exit, ExitError};

use crate::options::{PlanArguments, PlanQuestion};

/// Answers the question.
///
/// # Errors
/// The words are no question, a fact is missing, or stdout cannot be written.
pub fn run(arguments: &PlanArguments) -> Result<Exit> {
    let usage = |text: String| ExitError::new(Exit::Usage, text);
    match arguments.question().map_err(usage)? {
        PlanQuestion::Fabric(file, _) => Err(usage(format!(
            "{}: busbw plan does not read fabric files; name hosts with --machine and one collective",
            file.display()
        ))
        .into()),
        question => Err(usage(format!("{question:?} is not answered yet")).into()),
    }
}
