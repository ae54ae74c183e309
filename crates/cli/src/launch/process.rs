//! One process of ranks: how it is started, or came from a launcher, and how its end becomes an event.
//! Not what they mean (`local`) and not its life (`rank`).

use std::{
    process::{Child, Command, Stdio},
    sync::mpsc::Sender,
    time::Instant,
};

use anyhow::{Context, Result};
use model::exit::Exit;
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

use super::{
    invite::{Invite, VARIABLE},
    party::Guest,
};
use crate::options::RANK_WORD;

/// One process of ranks, as its supervisor knows it.
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) host: String,
    handle: Handle,
    /// Since when it is stopped.
    pub(super) stopped: Option<Instant>,
    pub(super) running: bool,
}

enum Handle {
    /// Our own.
    Child(Child),
    /// A launcher's.
    Guest(Guest),
}

impl Process {
    /// One that a launcher started and that was told what to run.
    pub(super) fn of_guest(guest: Guest) -> Process {
        let (pid, host) = (guest.pid, guest.host.clone());
        Process { pid, host, handle: Handle::Guest(guest), stopped: None, running: true }
    }

    pub(super) fn is_guest(&self) -> bool {
        matches!(self.handle, Handle::Guest(_))
    }

    /// Tells it that waits are to end. Ours shares the control memory, which says so.
    pub(super) fn stop(&self) {
        if let Handle::Guest(guest) = &self.handle {
            guest.stop();
        }
    }

    /// Ends it at once. A launcher's exits by itself, with `exit`.
    pub(super) fn kill(&mut self, exit: Exit) {
        match &mut self.handle {
            Handle::Child(child) => drop(child.kill()),
            Handle::Guest(guest) => {
                guest.end(exit);
                // Should it be stopped or its host dead, nobody could wait for it.
                self.running = false;
            }
        }
    }
}

/// Starts the process of ranks that is invited, and a thread that waits for it. Its stdout is our stderr:
/// nothing that a library prints can land in the table.
///
/// # Errors
/// When the system has no room for another process or thread.
pub(super) fn spawn<E: Send + 'static>(
    invite: &Invite,
    events: Sender<E>,
    event: impl Fn(WaitStatus) -> E + Send + 'static,
) -> Result<Process> {
    let program = std::env::current_exe().context("cannot find busbw's own program file")?;
    let child = Command::new(&program)
        .arg(RANK_WORD)
        .arg(invite.process.to_string())
        .env(VARIABLE, serde_json::to_string(invite).context("cannot serialise an invitation")?)
        .envs(invite.environment()?)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .spawn()
        .with_context(|| {
            format!("cannot start rank process {}, {}", invite.process, program.display())
        })?;
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
    Ok(Process {
        pid: child.id(),
        host: invite.host.clone(),
        handle: Handle::Child(child),
        stopped: None,
        running: true,
    })
}
