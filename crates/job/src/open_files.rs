//! How many files and sockets this process may have open at once.
//! Not which ones: a supervisor has two sockets a rank, a rank on `host` one buffer of each rank.

use busbw_core::{exit::Exit, plan::Plan};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use busbw_core::exit::ExitError;

/// Descriptors beside those that grow with the ranks: outputs, libraries, devices.
const OTHERS: usize = 128;

/// Makes room for so many descriptors beside the usual ones, as far as this user may; what the limit is
/// then, nothing where there is none. Systems leave it at 1024 for the sake of select(2), and some programs
/// walk through all that there may be: so it is raised no further than needed.
pub fn raise(descriptors: usize) -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let needed = (descriptors + OTHERS) as u64;
    if limit.current.is_some_and(|current| current < needed) {
        let current = Some(limit.maximum.map_or(needed, |hard| hard.min(needed)));
        // Then what is there must do.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    }
    getrlimit(Resource::Nofile).current
}

/// Makes room for everyone who takes part in a plan, for its supervisor.
///
/// # Errors
/// When the user's hard limit does not allow it.
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
