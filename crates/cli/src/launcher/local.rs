//! No launcher: this process starts as many ranks as -H and --np ask for.
//! Not their supervision.

use anyhow::Result;
use busbw_core::exit::Exit;

use crate::options::BenchArguments;
use busbw_core::exit::ExitError;
use busbw_job::launchers::{command::Command, job::Job};

/// Sets the number of ranks from -H and --np.
///
/// # Errors
/// When -t or -g gives the number of ranks, too.
pub(super) fn seat(arguments: &mut BenchArguments, job: &Job) -> Result<()> {
    let Some(ranks) = job.processes else { return Ok(()) };
    if arguments.threads.is_some() || arguments.devices.is_some() {
        let text =
            "on this machine -t and -g set the number of ranks: leave them out, or -H and --np";
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    arguments.devices = i64::try_from(ranks).ok();
    Ok(())
}

/// The equivalent command without them.
pub(super) fn command(job: &Job) -> Command {
    let ranks = job.processes.map(|ranks| ["-g".to_owned(), ranks.to_string()]);
    Command::new(job.busbw()).with(ranks.into_iter().flatten())
}
