//! How many files and sockets this process may have open at once.
//! Not which ones: a supervisor has two sockets a rank, a rank on `host` one buffer of each rank.

use model::{exit::Exit, plan::Plan};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Refusal;

/// Descriptors beside those that grow with the ranks: outputs, libraries, devices.
const OTHERS: usize = 128;

/// Raises the limit as far as this user may; what it is then, nothing where there is none. Systems leave it
/// at 1024 for the sake of select(2), which nothing here calls.
pub(super) fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        // Then what is there must do.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    getrlimit(Resource::Nofile).current
}

/// Makes room for everyone who takes part in a plan, for its supervisor.
///
/// # Errors
/// When the user's hard limit does not allow it.
pub(super) fn for_everyone(plan: &Plan) -> Result<(), Refusal> {
    let needed = plan.processes() + plan.drivers() + plan.ranks() + OTHERS;
    enough(raise(), needed, plan.ranks())
}

fn enough(limit: Option<u64>, needed: usize, ranks: usize) -> Result<(), Refusal> {
    match limit {
        Some(limit) if limit < needed as u64 => Err(Refusal::new(
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
    fn the_soft_limit_becomes_the_hard_one() {
        assert_eq!(raise(), getrlimit(Resource::Nofile).maximum);
    }
}
