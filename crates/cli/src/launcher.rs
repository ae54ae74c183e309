//! Ranks started by us on other hosts, or through another launcher: the same words for every process there,
//! and the outputs here, where the user is.
//! Not what those processes then do: they are one run like any launcher's (`launch::party`).

mod command;
mod job;
mod local;
mod mpirun;
mod one;
mod quoting;
mod relay;
mod slurm;
mod ssh;
mod variables;

pub use one::tied;
pub use ssh::agent;

use std::{
    ffi::OsString,
    io::{self, Read, Write},
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;

use self::{command::Command, job::Job};
use crate::options::{BenchArguments, Environment, Launched, LauncherName, RecordPlace};
use busbw_core::exit::ExitError;
use busbw_render::answer;

/// Who starts processes for us.
trait Launcher {
    /// What it runs for the job: one command, or one for each host, that of process 0 first.
    ///
    /// # Errors
    /// What this launcher cannot do, or is not there for.
    fn commands(&self, job: &Job) -> Result<Vec<Command>>;

    /// Starts the job.
    ///
    /// # Errors
    /// What does not start, and why.
    fn start(&self, job: &Job) -> Result<Box<dyn Started>>;
}

/// A job under way.
trait Started {
    /// The stdout of process 0, to be taken once.
    fn stdout(&mut self) -> Box<dyn Read>;

    /// What tells process 0 to end the run, as Ctrl-C does.
    fn interruption(&self) -> Box<dyn Fn() + Send>;

    /// Waits until everything is gone, for a moment only when stdout has ended; how it went.
    fn end(self: Box<Self>) -> How;
}

/// How a job ended, as far as its launcher knows.
struct How {
    /// The exit code of process 0, or of its launcher.
    code: Option<i32>,
    /// Which program ended how, for messages.
    text: String,
}

impl How {
    /// What it means where no run has begun: busbw's own codes are passed on.
    fn exit(&self) -> Exit {
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

/// Runs the job where something was asked about where; nothing where this process is to start the ranks
/// itself, with `arguments` as they are afterwards.
///
/// # Errors
/// What cannot be asked together, opened or started.
pub fn run(
    arguments: &mut BenchArguments,
    environment: &Environment,
    program: &str,
    args: &[OsString],
) -> Result<Option<Exit>> {
    let launching = &arguments.launching;
    if !launching.is_asked() {
        return Ok(None);
    }
    if let Some(launched) = &environment.launched {
        let text = format!(
            "a launcher has started this process as one of several ({}): leave out --launcher, -H and --np, or start busbw without it",
            launched.said
        );
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let dry_run = launching.dry_run;
    let job = Job::of(launching, args)?;
    let Some(launcher) = launcher(job.launcher(launching)?) else {
        local::seat(arguments, &job)?;
        return if dry_run { print(&[local::command(&job)]).map(Some) } else { Ok(None) };
    };
    if dry_run {
        return print(&launcher.commands(&job)?).map(Some);
    }
    let record = RecordPlace::of(arguments, environment);
    relay::run(launcher.as_ref(), &job, arguments, &record, program, args).map(Some)
}

/// Of that name; none where this process starts the ranks.
fn launcher(name: LauncherName) -> Option<Box<dyn Launcher>> {
    Some(match name {
        LauncherName::Local => return None,
        LauncherName::Ssh => Box::new(ssh::Ssh),
        LauncherName::Mpirun => Box::new(mpirun::Mpirun),
        LauncherName::Slurm => Box::new(slurm::Slurm),
    })
}

/// A job that a launcher is to start later.
pub(crate) struct Foreseen {
    /// What its process 0 will be told; none where that is the only one.
    pub(crate) launched: Option<Launched>,
}

/// What is known of the job of `args` before it is started, so that it can be planned here; nothing where this
/// process is to start the ranks itself, with `arguments` as they are afterwards.
///
/// # Errors
/// What cannot be asked together, and what the launcher cannot do or is not there for.
pub(crate) fn foresee(
    arguments: &mut BenchArguments,
    args: &[OsString],
) -> Result<Option<Foreseen>> {
    let launching = &arguments.launching;
    if !launching.is_asked() {
        return Ok(None);
    }
    let job = Job::of(launching, args)?;
    let Some(launcher) = launcher(job.launcher(launching)?) else {
        local::seat(arguments, &job)?;
        return Ok(None);
    };
    launcher.commands(&job)?;
    let Some(processes) = job.processes else {
        let text = "how many processes there will be is not known here, where the launches are planned: say --np N, or -H with places";
        return Err(ExitError::new(Exit::Usage, text).into());
    };
    let one_host = job.hosts.0.len() < 2;
    let launched = (processes > 1).then(|| Launched::foreseen(processes, one_host));
    Ok(Some(Foreseen { launched }))
}

fn print(commands: &[Command]) -> Result<Exit> {
    answer::answer(|out, _| commands.iter().try_for_each(|command| writeln!(out, "{command}")))?;
    Ok(Exit::Ok)
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
