//! What ties a process to the agent that started it: it dies with the agent, and ends an agent that stays stopped.
//! Not the agent: that ends its processes when its connection breaks, unless it is stopped itself.

use std::{
    fs,
    time::{Duration, Instant},
};

use busbw_core::hidden_commands::AGENT;
use busbw_host::machine;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::leftover;

/// How long an agent may be stopped. The busbw at the other end of ssh hears its silence before, and ends it; this is
/// for an agent that nobody hears any more.
const STOPPED_AGENT_TIMEOUT: Duration = Duration::from_secs(20);

/// The agent that started this process.
#[derive(Debug)]
pub struct ParentAgent {
    pid: Pid,
    stopped: Option<Instant>,
}

impl ParentAgent {
    /// Ties this process to its agent, so that it is killed when the agent ends, even if it is stopped then; none
    /// without an agent.
    pub fn tie() -> Option<ParentAgent> {
        let pid = getppid()?;
        let words = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
        if words.split(|byte| *byte == 0).nth(1) != Some(AGENT.as_bytes()) {
            return None;
        }
        // Without it this process polls its parent, and is left behind only if it is stopped.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        (getppid() == Some(pid)).then_some(ParentAgent { pid, stopped: None })
    }

    /// Ends the agent, and so this process, if the agent has been stopped for long. To be called at an interval.
    pub fn check(&mut self) {
        let pid = self.pid.as_raw_nonzero().get() as u32;
        if !machine::is_stopped(&machine::Root::system(), pid) {
            self.stopped = None;
            return;
        }
        let since = *self.stopped.get_or_insert_with(Instant::now);
        if since.elapsed() >= STOPPED_AGENT_TIMEOUT {
            leftover::end_stopped(pid);
        }
    }
}
