//! `busbw sweep`: one job in several environments. Each launch is a run of its own with a record;
//! launches of all environments take turns, and one table shows the results. Code that `transports`
//! shares with it is here, too.
//! Not measuring: launches run this program.

mod csv;
mod destination;
mod environment;
mod interruption;
pub(crate) mod launch;
mod prepared;
mod progress;
mod readers;
mod rows;
mod table;
mod turns;

use std::{
    ffi::OsString,
    io::{self, Write},
    time::Instant,
};

use anyhow::{Context, Result};
use busbw_analysis::sweep::{Outcome, SCHEMA, Tried};
use busbw_core::{
    exit::Exit,
    printable::Printable,
    record::{Folded, Run},
};

pub use environment::{Environment, Variable, read as read_values};
pub(crate) use {
    csv::csv,
    destination::Destination,
    interruption::Interruption,
    launch::Launch,
    prepared::Prepared,
    rows::{rows, tried, untried},
    table::{cells, digits, figure, foot, head, multiple, table},
    turns::{Job, Turns, take},
};

use crate::{
    lint_command,
    options::{SweepArguments, TurnArguments},
    within_job::{self, Leader},
};
use busbw_core::exit::ExitError;
use busbw_render::answer::answer;
use busbw_store as store;
use launch::Started;
use progress::Progress;

/// Runs a sweep.
///
/// # Errors
/// The options cannot be used, or a process or file cannot be opened or started.
pub fn run(arguments: &SweepArguments, args: &[OsString]) -> Result<Exit> {
    within_job::lead(args, |leader| compare(arguments, args, leader))
}

fn compare(arguments: &SweepArguments, args: &[OsString], leader: Option<&Leader>) -> Result<Exit> {
    let usage = |text: String| ExitError::new(Exit::Usage, text);
    let environments = environment::product(&arguments.variables).map_err(usage)?;
    let prepared = Prepared::new(&arguments.turns)?;
    let names: Vec<&str> = environments.iter().map(|one| one.name.as_str()).collect();
    let baseline = baseline(arguments.turns.baseline.as_deref(), &names)?;
    let mut findings = findings(&environments);
    findings.extend(readers::remarks(prepared.plan(), &environments, prepared.is_elsewhere()));
    findings.iter().for_each(|finding| say(finding));
    let destination = Destination::find(&arguments.turns, &prepared, "sweep")?;
    let turns = &arguments.turns;
    let measured = measure(turns, &prepared, &environments, &destination, findings, leader)?;
    let tried = environments.iter().zip(&measured.turns);
    let tried = tried.map(|(one, turns)| rows::tried(one, turns, destination.is_kept())).collect();
    let outcome = measured.outcome(&arguments.turns, &prepared, "sweep", args, baseline, tried);
    // A failing stdout must not lose the result, and a failing folder must not lose the table.
    let kept = destination.keep(&outcome);
    print(&arguments.turns, &outcome, table)?;
    kept?;
    Ok(exit(&outcome))
}

/// Remarks about the user's variables, and those of the lists.
fn findings(environments: &[Environment]) -> Vec<String> {
    let mut all = Vec::new();
    for environment in environments {
        let set = environment.variables.iter().filter_map(|variable| {
            Some((variable.name.clone(), store::shown(&variable.name, variable.value.as_ref()?)))
        });
        for finding in lint_command::look_at(set.collect()) {
            if !all.contains(&finding) {
                all.push(finding);
            }
        }
    }
    all
}

/// The environment that `word` selects: its name, or its number counted from 1.
///
/// # Errors
/// There is none.
pub(crate) fn baseline(which: Option<&str>, names: &[&str]) -> Result<Option<usize>> {
    let Some(which) = which else { return Ok(None) };
    let by_name = names.iter().position(|name| *name == which);
    let by_number = || which.parse::<usize>().ok()?.checked_sub(1).filter(|n| *n < names.len());
    by_name.or_else(by_number).map(Some).ok_or_else(|| {
        let text = format!("--baseline {which}: there is {}", names.join(", "));
        ExitError::new(Exit::Usage, text).into()
    })
}

/// The launches and their times.
pub(crate) struct Measured {
    pub(crate) turns: Vec<Turns>,
    started: String,
    took_s: f64,
    interrupted: bool,
}

/// Launches the job in every environment, in turns; with `leader` each launch has a part in every process of a
/// launcher's job. Remarks of launches that are in `told` already are not printed again.
///
/// # Errors
/// No process can be started.
pub(crate) fn measure(
    arguments: &TurnArguments,
    prepared: &Prepared,
    environments: &[Environment],
    destination: &Destination,
    told: Vec<String>,
    leader: Option<&Leader>,
) -> Result<Measured> {
    let interruption = Interruption::watch()?;
    let job = Job {
        words: prepared.words.clone(),
        has_patience: prepared.has_patience(),
        rows: prepared.rows(),
        launches: arguments.launches,
        time: arguments.time,
    };
    let (begun, started) = (Instant::now(), busbw_store::local_time::now());
    let mut progress = Progress::new(environments.len(), arguments.launches, arguments.time, told);
    let turns = take(
        &job,
        environments,
        &Started { leader, interruption: &interruption, until: None },
        |environment, launch| {
            let name = environments.get(environment).map_or("", |one| one.name.as_str());
            destination.of_launch(name, launch)
        },
        |environment, launch, over| {
            if let Some(environment) = environments.get(environment) {
                progress.launched(&environment.name, launch, over);
            }
        },
    )?;
    progress.finish();
    let took_s = begun.elapsed().as_secs_f64();
    Ok(Measured { turns, started, took_s, interrupted: interruption.is_interrupted() })
}

impl Measured {
    /// The result as data.
    pub(crate) fn outcome(
        &self,
        arguments: &TurnArguments,
        prepared: &Prepared,
        command: &str,
        args: &[OsString],
        baseline: Option<usize>,
        environments: Vec<Tried>,
    ) -> Outcome {
        Outcome {
            sweep_schema: SCHEMA,
            command: command.to_owned(),
            busbw: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.started.clone(),
            args: args.iter().map(|arg| store::masked(&arg.to_string_lossy())).collect(),
            program: prepared.program().to_owned(),
            on: self.first().map_or_else(|| prepared.ranks(), |record| on(&record.run)),
            show: prepared.show(),
            baseline,
            launches: arguments.launches,
            time_limit_s: arguments.time,
            took_s: self.took_s,
            interrupted: self.interrupted,
            rows: rows(&self.turns, prepared.benchmark(), baseline),
            environments,
        }
    }

    /// The first record of any launch.
    pub(crate) fn first(&self) -> Option<&Folded> {
        self.turns.iter().flat_map(|turns| &turns.launches).find_map(|l| l.record.as_ref())
    }
}

/// The ranks and devices of a run.
fn on(run: &Run) -> String {
    let ranks = match run.devices.len() {
        1 => "1 rank".to_owned(),
        ranks => format!("{ranks} ranks"),
    };
    let device = run.devices.first().map_or("no device", |device| device.name.as_str());
    let nccl = match run.nccl[1] {
        0 => String::new(),
        version => format!(", NCCL {}", busbw_ffi::nccl::Version(version)),
    };
    format!("{ranks} on {} ({device}){nccl}, host {}", run.plan.backend.name(), run.machine.host)
}

/// Prints the result in the requested form.
///
/// # Errors
/// stdout cannot be written; a reader who has left is no error.
pub(crate) fn print(
    arguments: &TurnArguments,
    outcome: &Outcome,
    table: impl Fn(&Outcome) -> String,
) -> Result<()> {
    let text = match (arguments.csv, arguments.json) {
        (true, _) => csv(outcome),
        (_, true) => serde_json::to_string(outcome).context("cannot write JSON")? + "\n",
        _ => table(outcome),
    };
    put(&text)
}

pub(crate) fn put(text: &str) -> Result<()> {
    answer(|out, _| out.write_all(text.as_bytes()))
}

/// Prints a message on stderr.
pub(crate) fn say(text: &str) {
    // If stderr is closed, the message is lost.
    let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {text}");
}

/// The command's exit code: that of the first environment that failed.
pub(crate) fn exit(outcome: &Outcome) -> Exit {
    if outcome.interrupted {
        return Exit::Interrupted;
    }
    let failed = outcome.environments.iter().find_map(|environment| environment.failed.as_ref());
    failed.map_or(Exit::Ok, |failed| exit_of(failed.exit))
}

/// The exit code of a launch that failed.
pub(crate) fn exit_of(code: u8) -> Exit {
    let known = [
        Exit::Usage,
        Exit::Library,
        Exit::Timeout,
        Exit::Impossible,
        Exit::RankLost,
        Exit::WrongData,
    ];
    known.into_iter().find(|exit| exit.code() == code).unwrap_or(Exit::Internal)
}
