//! A launcher that is one program on this machine: started, interrupted, waited for, and terminated with busbw.
//! Not its arguments (`mpirun`, `slurm`).

use std::{
    ffi::OsString,
    io::Read,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command as Program, ExitStatus, Stdio},
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use super::{JobEnd, RunningJob, command::Command, not_started};
use busbw_core::hidden_commands::TIED;

struct One {
    name: OsString,
    child: Child,
}

/// Starts the launcher in a process group of its own: only this process sends it SIGINT.
pub(super) fn start(command: &Command) -> Result<Box<dyn RunningJob>> {
    let tied =
        Command::new([std::env::current_exe().context("cannot find busbw's own program file")?])
            .with([TIED])
            .with(&command.words);
    let name = command.words.first().cloned().unwrap_or_default();
    let tied = Command { environment: command.environment.clone(), ..tied };
    let child =
        tied.to_start().process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let child = not_started(child, &name)?;
    Ok(Box::new(One { name, child }))
}

/// Executes the program that `words` name, so that it gets SIGTERM when the parent process exits.
///
/// # Errors
/// When there is no such program.
pub fn tied(words: &[OsString]) -> Result<Exit> {
    set_parent_process_death_signal(Some(Signal::TERM))
        .context("prctl(PR_SET_PDEATHSIG) failed")?;
    let name = words.first().cloned().unwrap_or_default();
    let failed = Program::new(&name).args(words.get(1..).unwrap_or_default()).exec();
    not_started(Err(failed), &name)
}

impl RunningJob for One {
    fn stdout(&mut self) -> Box<dyn Read + Send> {
        match self.child.stdout.take() {
            Some(stdout) => Box::new(stdout),
            None => Box::new(std::io::empty()),
        }
    }

    fn interruption(&self) -> Box<dyn Fn() + Send> {
        let pid = Pid::from_child(&self.child);
        Box::new(move || {
            let _ = kill_process(pid, Signal::INT);
        })
    }

    fn end(mut self: Box<Self>) -> JobEnd {
        let name = self.name.to_string_lossy();
        match self.child.wait() {
            Ok(status) => JobEnd { code: status.code(), text: format!("{name} {}", ended(status)) },
            Err(error) => {
                JobEnd { code: None, text: format!("{name} cannot be waited for: {error}") }
            }
        }
    }
}

/// "ended with exit code 3", "was killed by signal 9".
pub(super) fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, signal) => format!("was killed by signal {}", signal.unwrap_or(0)),
    }
}
