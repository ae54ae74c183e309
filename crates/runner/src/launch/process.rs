//! One rank process as the supervisor sees it: its own child, or a launcher's worker; its exit as an event.
//! Not what an exit means (`supervisor`), and not the inside of the process (`rank`).

use std::{
    process::{Child, Command, Stdio},
    sync::mpsc::Sender,
    time::Instant,
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

use crate::launch::rank_assignment::RankAssignment;
use busbw_core::environment;
use busbw_core::hidden_commands::RANK;
use busbw_job::rendezvous::Worker;

/// A rank process.
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) host: String,
    handle: Handle,
    /// Since when it is stopped, if it is.
    pub(super) stopped: Option<Instant>,
    pub(super) running: bool,
}

enum Handle {
    /// Started by this supervisor.
    Child(Child),
    /// Started by a launcher.
    Worker(Worker),
}

impl Process {
    /// A worker that has its rank assignment.
    pub(super) fn of_worker(worker: Worker) -> Process {
        let (pid, host) = (worker.pid, worker.host.clone());
        Process { pid, host, handle: Handle::Worker(worker), stopped: None, running: true }
    }

    pub(super) fn is_worker(&self) -> bool {
        matches!(self.handle, Handle::Worker(_))
    }

    /// Aborts the waits of a worker's ranks. A child shares the control memory, which holds the abort word.
    pub(super) fn stop(&self) {
        if let Handle::Worker(worker) = &self.handle {
            worker.abort();
        }
    }

    /// Has a worker read its host's counters.
    pub(super) fn read_counters(&self, gpus: Option<Vec<String>>, question: u64, after: bool) {
        if let Handle::Worker(worker) = &self.handle {
            worker.read_counters(gpus, question, after);
        }
    }

    /// Kills a child; has a worker exit with `exit`.
    pub(super) fn kill(&mut self, exit: Exit) {
        match &mut self.handle {
            Handle::Child(child) => drop(child.kill()),
            Handle::Worker(worker) => {
                worker.exit(exit);
                // No wait: the worker may be stopped, or its host dead.
                self.running = false;
            }
        }
    }
}

/// Starts a rank process with its assignment, and a thread that waits for it. Its stdout is this process's stderr:
/// libraries print to stdout, which belongs to the table.
///
/// # Errors
/// When the process or the thread cannot be started.
pub(super) fn spawn<E: Send + 'static>(
    assignment: &RankAssignment,
    events: Sender<E>,
    event: impl Fn(WaitStatus) -> E + Send + 'static,
) -> Result<Process> {
    let program = std::env::current_exe().context("cannot find busbw's own program file")?;
    let child = Command::new(&program)
        .arg(RANK)
        .arg(assignment.process.to_string())
        .env(
            environment::RANK,
            serde_json::to_string(assignment).context("cannot serialise a rank assignment")?,
        )
        .envs(assignment.environment()?)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .spawn()
        .with_context(|| {
            format!("cannot start rank process {}, {}", assignment.process, program.display())
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
        host: assignment.host.clone(),
        handle: Handle::Child(child),
        stopped: None,
        running: true,
    })
}
