//! Starts the job on other hosts, or through another launcher, with the same command line for every process; the
//! outputs are written here.
//! Not what those processes do: they are one run like any launcher's (`busbw_job::rendezvous`).

mod consent;
mod local;
mod process_0;
mod relay;

use std::{ffi::OsString, io::Write};

use anyhow::Result;
use busbw_core::{
    Benchmark,
    exit::{Exit, ExitError},
};
use busbw_job::{
    launched::Launched,
    launchers::{job::Job, launcher},
};
use busbw_render::answer;

use crate::{
    network_load::{self, Load},
    options::{BenchArguments, Environment, record_place},
};

/// The answer of a command with a `--yes` of its own.
pub(crate) fn agree() {
    consent::give();
}

/// Runs the job if options say where; none if this process is to start the ranks itself, with the number of ranks
/// in `arguments`.
///
/// # Errors
/// When options exclude each other, or something cannot be opened or started.
pub fn run(
    benchmark: Benchmark,
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
            launched.variables
        );
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let dry_run = launching.dry_run;
    let job = Job::of(&launching.placement(args)?)?;
    let Some(launcher) = launcher(job.launcher(launching.launcher)?) else {
        local::seat(arguments, &job)?;
        let command = || print(&format!("{}\n", local::command(&job)));
        return if dry_run { command().map(Some) } else { Ok(None) };
    };
    if dry_run {
        return print(&launcher.dry_run(&job)?).map(Some);
    }
    if job.pods.is_some() && arguments.repeat.is_some() {
        let text = "--repeat starts ranks anew in one job, and pods are one launch: `busbw sweep --launches K` makes K of them";
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    consent::ask(launcher.as_ref(), &job, launching.yes)?;
    if let Some(ranks) = job.processes.filter(|_| job.pods.is_none()) {
        network_load::ask(benchmark, arguments, Load { hosts: job.hosts.0.len(), ranks })?;
    }
    let record = record_place(arguments, environment);
    relay::run(launcher.as_ref(), &job, arguments, &record, program, args).map(Some)
}

/// A job that a launcher is to start later.
pub(crate) struct Foreseen {
    /// What its process 0 will read; none if that is the only one.
    pub(crate) launched: Option<Launched>,
}

/// Describes the job of `args` before it is started, so that it can be planned here; none if this process is to
/// start the ranks itself, with the number of ranks in `arguments`.
///
/// # Errors
/// When options exclude each other, or the launcher is missing or cannot start such a job.
pub(crate) fn foresee(
    arguments: &mut BenchArguments,
    args: &[OsString],
) -> Result<Option<Foreseen>> {
    let launching = &arguments.launching;
    if !launching.is_asked() {
        return Ok(None);
    }
    let job = Job::of(&launching.placement(args)?)?;
    let Some(launcher) = launcher(job.launcher(launching.launcher)?) else {
        local::seat(arguments, &job)?;
        return Ok(None);
    };
    match job.pods {
        Some(_) => consent::ask(launcher.as_ref(), &job, launching.yes)?,
        None => drop(launcher.dry_run(&job)?),
    }
    let Some(processes) = job.processes else {
        let text =
            "how many processes the job will have is not known: give --np N, or -H with slots";
        return Err(ExitError::new(Exit::Usage, text).into());
    };
    let one_host = job.hosts.0.len() < 2 && job.pods.is_none();
    let launched = (processes > 1).then(|| Launched::planned(processes, one_host));
    Ok(Some(Foreseen { launched }))
}

fn print(text: &str) -> Result<Exit> {
    answer::answer(|out, _| write!(out, "{text}"))?;
    Ok(Exit::Ok)
}
