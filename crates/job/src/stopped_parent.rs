//! What ties a process of a relayed run to the agent, or the launcher's daemon, that started it: it dies with an agent,
//! and ends a parent that stays stopped.
//! Not the parent itself: that ends its processes when its connection breaks, unless it is stopped.

use std::{
    fs,
    time::{Duration, Instant},
};

use busbw_core::{environment::RELAYED, hidden_commands::AGENT};
use busbw_host::machine;
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};

use crate::leftover;

/// How long a parent may be stopped. The busbw that started the job hears its silence before, and ends what it can
/// reach; this is for a parent that nobody reaches.
const STOPPED_PARENT_TIMEOUT: Duration = Duration::from_secs(20);
/// Daemons that a launcher starts for the processes of one job.
const DAEMONS: [&str; 4] = ["hydra_pmi_proxy", "orted", "prted", "slurmstepd"];

/// The parent of this process.
#[derive(Debug)]
pub(crate) struct StoppedParent {
    pid: Pid,
    is_agent: bool,
    since: Option<Instant>,
}

impl StoppedParent {
    /// Ties this process to its parent: an agent's end kills it, even if it is stopped then. None where nobody else
    /// hears whether the parent is stopped: a user may stop mpirun with Ctrl-Z.
    pub(crate) fn tie() -> Option<StoppedParent> {
        let pid = getppid()?;
        std::env::var_os(RELAYED)?;
        let words = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
        let is_agent = words.split(|byte| *byte == 0).nth(1) == Some(AGENT.as_bytes());
        if is_agent {
            // Without it this process polls its parent, and is left behind only if it is stopped.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
        }
        (getppid() == Some(pid)).then_some(StoppedParent { pid, is_agent, since: None })
    }

    /// Ends the parent if it has been stopped for long; this process then ends as after any end of its parent. To be
    /// called at an interval.
    pub(crate) fn check(&mut self) {
        let pid = self.pid.as_raw_nonzero().get() as u32;
        if !machine::is_stopped(&machine::Root::system(), pid) {
            self.since = None;
            return;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() < STOPPED_PARENT_TIMEOUT {
            return;
        }
        if self.is_agent {
            leftover::end_stopped(pid);
        } else if getppid() == Some(self.pid)
            && machine::parent(&machine::Root::system(), &DAEMONS).is_some()
        {
            // It may be another user's, such as root's slurmstepd: then it is the launcher's to end.
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}
