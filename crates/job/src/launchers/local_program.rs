//! A launcher that is one program on this machine: started, interrupted, waited for, and terminated with busbw.
//! Not its arguments (`mpirun`, `slurm`).

use std::{
    ffi::OsString,
    io::Read,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command as Program, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use super::{Carrier, JobEnd, Loss, RunningJob, command::Command, not_started};
use crate::heartbeat::STOPPED_TIMEOUT;
use busbw_core::hidden_commands::TIED;
use busbw_host::machine;

struct One {
    name: OsString,
    child: Child,
    /// Since when it is stopped, if it is; and when that was checked.
    stopped: Option<Instant>,
    checked: Instant,
    /// Whether it was told to end at once.
    abandoned: bool,
}

/// How often it is checked whether it is stopped: each check reads a file.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How often it is checked whether it has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long it may take to end after process 0 has closed its stdout: it waits for the other processes.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(5);

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
    let (stopped, checked) = (None, Instant::now());
    Ok(Box::new(One { name, child, stopped, checked, abandoned: false }))
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

impl One {
    /// For messages.
    fn label(&self) -> String {
        format!("{} (process {} on this machine)", self.name.to_string_lossy(), self.child.id())
    }

    fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// How it ended, if it does within `limit`.
    fn wait(&mut self, limit: Duration) -> Option<JobEnd> {
        let name = self.name.to_string_lossy();
        let by = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    let text = format!("{name} {}", ended(status));
                    return Some(JobEnd { code: status.code(), text, left: None, why: None });
                }
                Ok(None) if Instant::now() < by => std::thread::sleep(POLL_INTERVAL),
                Ok(None) => return None,
                Err(error) => {
                    let text = format!("{name} cannot be waited for: {error}");
                    return Some(JobEnd { code: None, text, left: None, why: None });
                }
            }
        }
    }
}

impl RunningJob for One {
    fn stdout(&mut self) -> Box<dyn Read + Send> {
        match self.child.stdout.take() {
            Some(stdout) => Box::new(stdout),
            None => Box::new(std::io::empty()),
        }
    }

    fn lost(&mut self) -> Option<Loss> {
        let now = Instant::now();
        if now.duration_since(self.checked) >= CHECK_INTERVAL {
            self.checked = now;
            self.stopped = machine::is_stopped(&machine::Root::system(), self.child.id())
                .then(|| self.stopped.unwrap_or(now));
        }
        let since = self.stopped?;
        (now.duration_since(since) >= STOPPED_TIMEOUT).then(|| {
            let seconds = STOPPED_TIMEOUT.as_secs();
            Loss::silent(format!("{} has been stopped for {seconds} s", self.label()))
        })
    }

    fn carrier(&self) -> Carrier {
        Carrier { name: self.label(), ..Carrier::default() }
    }

    fn interruption(&self) -> Box<dyn Fn() + Send> {
        let pid = Pid::from_child(&self.child);
        Box::new(move || {
            let _ = kill_process(pid, Signal::INT);
        })
    }

    fn abandon(&mut self) {
        self.abandoned = true;
        // SIGTERM has it end all its processes, on every host; a stopped one would not see that.
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    fn end(mut self: Box<Self>) -> JobEnd {
        if !self.abandoned {
            if let Some(end) = self.wait(END_TIMEOUT) {
                return end;
            }
            self.abandon();
        }
        if let Some(end) = self.wait(TERM_TIMEOUT) {
            return end;
        }
        let _ = self.child.kill();
        let killed = self.wait(TERM_TIMEOUT).map(|end| end.code);
        let text = format!("{} was killed", self.label());
        let left = format!(
            "{} did not end within {} s of SIGTERM and was killed: look for processes that it started on other hosts",
            self.label(),
            TERM_TIMEOUT.as_secs()
        );
        JobEnd { code: killed.flatten(), text, left: Some(left), why: None }
    }
}

/// "ended with exit code 3", "was killed by signal 9".
pub(super) fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, signal) => format!("was killed by signal {}", signal.unwrap_or(0)),
    }
}
