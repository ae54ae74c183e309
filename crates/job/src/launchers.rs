//! Starts a job on other hosts, or through another launcher: every process gets the same command line.
//! Not what those processes do: they are one run like any launcher's (`rendezvous`).

/// The command that a launcher runs.
pub mod command;
/// What is to be started.
pub mod job;
/// Pods of a cluster.
pub mod kubernetes;
mod local_program;
mod mpirun;
mod quoting;
mod slurm;
mod ssh;
mod variables;

pub use local_program::tied;
pub use ssh::agent;

use std::{
    ffi::OsString,
    io::{self, Read},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, Result};
use busbw_core::exit::{Exit, ExitError};

use self::{command::Command, job::Job};
use crate::hosts::Hosts;

/// Who starts the processes of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LauncherName {
    /// No launcher: busbw starts ranks on this machine.
    Local,
    /// ssh, which copies busbw where it is not there yet.
    Ssh,
    /// Open MPI's mpirun, or Hydra.
    Mpirun,
    /// srun.
    Slurm,
    /// Pods, made with kubectl.
    Kubernetes,
}

impl LauncherName {
    /// Every launcher, with its name on the command line and a line about it.
    pub const ALL: [(LauncherName, &'static str, &'static str); 5] = [
        (LauncherName::Local, "local", "No launcher: busbw starts ranks on this machine"),
        (LauncherName::Ssh, "ssh", "ssh, which copies busbw where it is not there yet"),
        (LauncherName::Mpirun, "mpirun", "Open MPI's mpirun, or Hydra"),
        (LauncherName::Slurm, "slurm", "srun"),
        (LauncherName::Kubernetes, "kubernetes", "Pods, one a node, made with kubectl"),
    ];
}

/// What was asked about where a job runs.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    /// Who is to start it.
    pub launcher: Option<LauncherName>,
    /// Hosts, and how many processes on each.
    pub hosts: Option<Hosts>,
    /// The same as a file.
    pub hostfile: Option<PathBuf>,
    /// Processes in all.
    pub processes: Option<u32>,
    /// The launcher's program with options of its own.
    pub command: Option<String>,
    /// Whether the launcher's command, or its manifest, is only printed.
    pub dry_run: bool,
    /// The pods of a cluster; none with another launcher.
    pub pods: Option<kubernetes::Pods>,
    /// The words that every process gets behind the program's name.
    pub words: Vec<OsString>,
}

/// A launcher of processes.
pub trait Launcher {
    /// What it runs for the job, a line each, process 0's first; or what it makes, as text that people can commit.
    ///
    /// # Errors
    /// When this launcher is missing, or cannot start such a job.
    fn dry_run(&self, job: &Job) -> Result<String>;

    /// What people are asked before it starts the job, as the end of a sentence; none where nobody is asked.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn intent(&self, _job: &Job) -> Result<Option<String>> {
        Ok(None)
    }

    /// Starts the job.
    ///
    /// # Errors
    /// When a command does not start.
    fn start(&self, job: &Job) -> Result<Box<dyn RunningJob>>;
}

/// A job under way.
pub trait RunningJob: Send {
    /// The stdout of process 0; to be called once.
    fn stdout(&mut self) -> Box<dyn Read + Send>;

    /// What has happened since the last call, a line each: processes that wait for hosts, and why.
    fn news(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Why the job cannot go on, once that is known: a part of the launcher that is stopped or does not answer, a process
    /// that cannot be started. To be called several times a second.
    fn lost(&mut self) -> Option<Loss>;

    /// What carries the stdout of process 0 here.
    fn carrier(&self) -> Carrier;

    /// Ends all processes without waiting for the run. Those that cannot be reached are named by `end`.
    fn abandon(&mut self);

    /// A function that interrupts process 0, as Ctrl-C does.
    fn interruption(&self) -> Box<dyn Fn() + Send>;

    /// Waits until all processes have exited, only briefly after stdout has ended.
    fn end(self: Box<Self>) -> JobEnd;
}

/// Why a job cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// A sentence without its full stop.
    pub text: String,
    /// What that means for scripts.
    pub exit: Exit,
    /// Whether a process named there may be stopped.
    pub may_be_stopped: bool,
}

impl Loss {
    /// Of a part that does not answer.
    pub fn silent(text: String) -> Loss {
        Loss { text, exit: Exit::RankLost, may_be_stopped: true }
    }
}

/// What carries the stdout of process 0 to this process.
#[derive(Debug, Clone, Default)]
pub struct Carrier {
    /// For messages, such as "mpirun (process 7 on this machine)".
    pub name: String,
    /// How long it has not answered; none where it does not answer at all.
    pub silence: Option<Duration>,
    /// How much longer than a local launcher it takes to end.
    pub grace: Duration,
}

/// How a job ended.
pub struct JobEnd {
    /// The exit code of process 0, or of its launcher.
    pub code: Option<i32>,
    /// The launcher's program and its exit status, for messages.
    pub text: String,
    /// What may be left, and where, if that could not be seen from here.
    pub left: Option<String>,
    /// What ended the job or a process from outside, where the launcher knows.
    pub why: Option<Loss>,
}

impl JobEnd {
    /// The exit code of a job in which no run began: busbw's own codes are passed on.
    pub fn exit(&self) -> Exit {
        let known = [
            Exit::Ok,
            Exit::Usage,
            Exit::Library,
            Exit::Timeout,
            Exit::Impossible,
            Exit::RankLost,
            Exit::WrongData,
            Exit::Interrupted,
        ];
        let same = |exit: &Exit| self.code == Some(i32::from(exit.code()));
        known.into_iter().find(same).unwrap_or(Exit::Library)
    }
}

/// Of that name; none where this process starts the ranks.
pub fn launcher(name: LauncherName) -> Option<Box<dyn Launcher>> {
    Some(match name {
        LauncherName::Local => return None,
        LauncherName::Ssh => Box::new(ssh::Ssh),
        LauncherName::Mpirun => Box::new(mpirun::Mpirun),
        LauncherName::Slurm => Box::new(slurm::Slurm),
        LauncherName::Kubernetes => Box::new(kubernetes::Kubernetes),
    })
}

/// Commands as a shell reads them, a line each.
fn lines(commands: &[Command]) -> String {
    commands.iter().map(|command| format!("{command}\n")).collect()
}

/// What an error of the system while starting a program means.
fn not_started<T>(started: io::Result<T>, program: &std::ffi::OsStr) -> Result<T> {
    let program = program.to_string_lossy();
    match started {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = format!(
                "there is no {program} on this machine: install it, or name it with --launcher-command"
            );
            Err(ExitError::new(Exit::Impossible, text).into())
        }
        other => other.with_context(|| format!("cannot start {program}")),
    }
}
