//! One process of ranks: how it is started, and how its stops and its end become events.
//! Not what they mean (`local`) and not its life (`rank`).

use std::{
    process::{Child, Command, Stdio},
    sync::mpsc::Sender,
    time::Instant,
};

use anyhow::{Context, Result};
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

use super::invite::{Invite, VARIABLE};
use crate::options::RANK_WORD;

/// One process of ranks, as its supervisor knows it.
pub(super) struct Process {
    pub(super) child: Child,
    /// Since when it is stopped.
    pub(super) stopped: Option<Instant>,
    pub(super) running: bool,
}

/// Starts process `process` of ranks, and a thread that waits for it. Its stdout is our stderr:
/// nothing that a library prints can land in the table.
///
/// # Errors
/// When the system has no room for another process or thread.
pub(super) fn spawn<E: Send + 'static>(
    process: usize,
    invite: &Invite,
    events: Sender<E>,
    event: impl Fn(WaitStatus) -> E + Send + 'static,
) -> Result<Process> {
    let program = std::env::current_exe().context("cannot find our own program file")?;
    let child = Command::new(&program)
        .arg(RANK_WORD)
        .arg(process.to_string())
        .env(VARIABLE, serde_json::to_string(invite).context("cannot serialise an invitation")?)
        .envs(invite.environment(process))
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .spawn()
        .with_context(|| format!("cannot start rank process {process}, {}", program.display()))?;
    let pid = Pid::from_child(&child);
    std::thread::Builder::new()
        .name("child".to_owned())
        .spawn(move || {
            let options = WaitOptions::UNTRACED | WaitOptions::CONTINUED;
            while let Ok(Some((_, status))) = waitpid(Some(pid), options) {
                let over = status.exited() || status.signaled();
                if events.send(event(status)).is_err() || over {
                    return;
                }
            }
        })
        .context("cannot start a thread for a rank")?;
    Ok(Process { child, stopped: None, running: true })
}
