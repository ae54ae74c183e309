//! The limit on open files of this process.
//! Not the files: a supervisor has two sockets a rank, a rank on `host` one buffer of each rank.

use busbw_core::{exit::Exit, plan::Plan};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use busbw_core::exit::ExitError;

/// Descriptors beside those that grow with the ranks: outputs, libraries, devices.
const OTHERS: usize = 128;

/// Raises the soft limit for so many descriptors beside the usual ones, up to the hard limit. Returns the limit; none
/// if there is none. The default is 1024 because of select(2), and some programs close every possible descriptor:
/// so it is raised no further than needed.
pub fn raise(descriptors: usize) -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let needed = (descriptors + OTHERS) as u64;
    if limit.current.is_some_and(|current| current < needed) {
        let current = Some(limit.maximum.map_or(needed, |hard| hard.min(needed)));
        // On failure the limit stays as it is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    }
    getrlimit(Resource::Nofile).current
}

/// Raises the limit for the supervisor of a plan.
///
/// # Errors
/// When the hard limit is too low.
pub fn for_everyone(plan: &Plan) -> Result<(), ExitError> {
    let needed = plan.processes() + plan.rank_threads() + plan.ranks();
    enough(raise(needed), needed + OTHERS, plan.ranks())
}

fn enough(limit: Option<u64>, needed: usize, ranks: usize) -> Result<(), ExitError> {
    match limit {
        Some(limit) if limit < needed as u64 => Err(ExitError::new(
            Exit::Impossible,
            format!(
                "{ranks} ranks need {needed} open files and sockets in one process, and its hard limit is {limit}: raise it with `ulimit -Hn {needed}` as root, in /etc/security/limits.conf, or as LimitNOFILE= of the service that starts jobs"
            ),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        assert!(enough(None, 5000, 1000).is_ok() && enough(Some(5000), 5000, 1000).is_ok());
        let refused = enough(Some(4096), 5000, 1000).unwrap_err().to_string();
        assert!(refused.contains("1000 ranks need 5000 open files") && refused.contains("4096"));
    }

    #[test]
    fn no_further_than_needed() {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(raise(0), current);
        let (Some(soft), None | Some(4096..)) = (current, maximum) else { return };
        let more = soft.max(2048) as usize + 100;
        let hard = maximum.unwrap_or(u64::MAX);
        assert_eq!(raise(more), Some(hard.min((more + OTHERS) as u64)));
    }
}
