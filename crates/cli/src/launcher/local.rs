//! No launcher: this process starts the ranks itself, as without `--launcher`, as many as were asked.
//! Not their life (`launch::local`).

use anyhow::Result;
use busbw_core::exit::Exit;

use crate::options::BenchArguments;
use busbw_core::exit::ExitError;
use busbw_job::launchers::{command::Command, job::Job};

/// As many ranks as -H and --np ask for.
///
/// # Errors
/// Where -t or -g says how many there are.
pub(super) fn seat(arguments: &mut BenchArguments, job: &Job) -> Result<()> {
    let Some(ranks) = job.processes else { return Ok(()) };
    if arguments.threads.is_some() || arguments.devices.is_some() {
        let text = "on this machine -t and -g say how many ranks there are: leave them out, or -H and --np";
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    arguments.devices = i64::try_from(ranks).ok();
    Ok(())
}

/// What does the same without them.
pub(super) fn command(job: &Job) -> Command {
    let ranks = job.processes.map(|ranks| ["-g".to_owned(), ranks.to_string()]);
    Command::new(job.busbw()).with(ranks.into_iter().flatten())
}
