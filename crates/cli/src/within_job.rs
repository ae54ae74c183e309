//! Launches of this program within a launcher's job (mpirun, srun, torchrun): process 0 orders each launch, and every
//! process starts its part of it as a child, with variables that name its rank.
//! Not jobs that busbw starts itself (`launcher`), and not what a launch measures.

mod follower;
mod leader;
mod order;

use std::ffi::OsString;

use anyhow::Result;
use busbw_core::exit::Exit;

pub(crate) use leader::Leader;

use busbw_runner::launch::print_error;

use crate::options;

/// This process's place in a launcher's job.
enum Place {
    /// No launcher started it as one of several.
    Alone,
    /// It is process 0.
    Leads(Box<Leader>),
    /// It is another one, and process 0 has ended the job with this exit code.
    Followed(Exit),
}

/// Joins the job of this process's launcher, if it is one of several processes; any but process 0 returns at the job's
/// end. `args` is the command line.
///
/// # Errors
/// Processes do not find each other in time, or one is lost.
fn enter(args: &[OsString]) -> Result<Place> {
    let launched = options::Environment::read(|name| std::env::var(name).ok()).launched;
    Ok(match launched {
        None => Place::Alone,
        Some(launched) if launched.rank == 0 => {
            Place::Leads(Box::new(Leader::gather(&launched, args)?))
        }
        Some(launched) => Place::Followed(follower::follow(&launched, args)?),
    })
}

/// Runs `command` at the place that this process has in its launcher's job; other processes than process 0 only start
/// their parts of its launches.
///
/// # Errors
/// As [`enter`], and those of `command`.
pub(crate) fn lead(
    args: &[OsString],
    command: impl FnOnce(Option<&Leader>) -> Result<Exit>,
) -> Result<Exit> {
    let leader = match enter(args)? {
        Place::Alone => return command(None),
        Place::Followed(exit) => return Ok(exit),
        Place::Leads(leader) => leader,
    };
    // Printed before the other processes exit: then the launcher may kill this one.
    let exit = command(Some(&leader)).unwrap_or_else(|error| print_error(&error));
    leader.end(exit);
    Ok(exit)
}
