//! `busbw tune`: what to set for this job on these machines, by a ladder of measured changes or by a search.
//! Not the search itself (`busbw_tune`), and not one launch (`sweep::launch`).

mod basis;
mod begin;
mod by_call;
mod conduct;
mod forms;
mod here;
mod interfaces;
mod job;
mod load;
mod mix;
mod progress;
mod replay;
mod replaying;
mod show_choices;
mod state;
mod table;
mod trial;
mod tuner_file;

use std::{ffi::OsString, io::Write, path::Path};

use anyhow::{Context, Result};
use busbw_core::exit::{Exit, ExitError};
use busbw_render::answer::{answer, json_line};
use busbw_store as store;
use busbw_tune::{End, tuned::Tuned};

use crate::{
    options::{self, Command, TuneArguments},
    sweep::{Interruption, say},
    within_job::{self, Leader},
};
use job::Job;
use state::State;

/// Batches of the first launch, and of the one that shows what remains.
const BATCHES: u32 = 6;

/// Tunes.
///
/// # Errors
/// The options cannot be used, there is nothing to tune here, the defaults themselves fail, or a process or file cannot be
/// started or opened.
pub fn run(arguments: &TuneArguments, args: &[OsString]) -> Result<Exit> {
    if let Some(file) = &arguments.show {
        // A launcher starts every process so; the first one prints.
        let launched = options::Environment::read(|name| std::env::var(name).ok()).launched;
        if launched.is_some_and(|launched| launched.rank != 0) {
            return Ok(Exit::Ok);
        }
        return show_choices::run(file, arguments.ranks, arguments.nodes, arguments.json);
    }
    if arguments.yes {
        crate::launcher::agree();
    }
    within_job::lead(args, |leader| match arguments.replay.is_empty() {
        true => tune(arguments, args, leader),
        false => replaying::run(arguments, leader),
    })
}

fn tune(arguments: &TuneArguments, args: &[OsString], leader: Option<&Leader>) -> Result<Exit> {
    let resumed = arguments.resume.as_deref().map(State::read).transpose()?;
    let asked = match &resumed {
        Some(state) => as_it_began(state, arguments)?,
        None => arguments.clone(),
    };
    let (benches, weights) = mix::benches(&asked)?;
    let mut job = Job::new(&asked, &benches, leader, Interruption::watch()?)?;
    let launches = format!(
        "up to {} {} in about {:.0} s and what the final comparison takes",
        asked.trials,
        if asked.search { "launches for each of three searches" } else { "launches" },
        asked.seconds(),
    );
    load::may(&asked, &job, &launches, leader)?;
    let path = state::path(&asked, &job.plan().program)?;
    let mut state = match resumed {
        Some(state) => {
            begin::as_it_was(&state, &mut job)?;
            state
        }
        None => begin::begin(&asked, args, weights, &mut job)?,
    };
    job.expect(state.first_s);
    state.interrupted = false;
    conduct::conduct(&asked, &mut state, &mut job, &path)?;
    let tuned = state.tuned();
    // A failing stdout must not lose the result.
    let kept = if state.interrupted { state.write(&path) } else { keep(&tuned, &path) };
    print(&tuned, asked.json)?;
    kept?;
    if state.interrupted {
        say(&format!("interrupted; to go on: busbw tune --resume {}", path.display()));
        return Ok(Exit::Interrupted);
    }
    Ok(match state.search.end() {
        Some(End::BaselineFails) => Exit::Library,
        _ => Exit::Ok,
    })
}

/// Writes the result in place of the state.
fn keep(tuned: &Tuned, path: &Path) -> Result<()> {
    let text = serde_json::to_string(tuned).context("cannot write the result as JSON")?;
    store::write_private(path, (text + "\n").as_bytes())
        .with_context(|| format!("cannot write the result to {}", path.display()))?;
    say(&format!("again: busbw show {}", path.display()));
    Ok(())
}

/// Prints a result.
///
/// # Errors
/// stdout cannot be written; a reader who has left is no error.
pub(crate) fn print(tuned: &Tuned, as_json: bool) -> Result<()> {
    answer(|out, colour| match as_json {
        true => json_line(out, tuned),
        false => out.write_all(table::table(tuned, colour).as_bytes()),
    })
}

/// The options with which a tuning began, for one that goes on.
fn as_it_began(state: &State, now: &TuneArguments) -> Result<TuneArguments> {
    let has_more = !now.bench.is_empty()
        || !now.benchmarks.is_empty()
        || !now.trace.is_empty()
        || now.time.is_some()
        || now.record.is_some();
    if has_more {
        let text = "--resume goes on with the options of its beginning: leave the others out, but --yes, --shared and --json";
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let line = std::iter::once("busbw").chain(state.args.iter().map(String::as_str));
    let Command::Tune(before) = options::parse(line.map(OsString::from))? else {
        let text = "--resume: the file's command line is no tuning: begin anew";
        return Err(ExitError::new(Exit::Usage, text).into());
    };
    Ok(TuneArguments {
        resume: now.resume.clone(),
        json: now.json,
        yes: now.yes || before.yes,
        shared: now.shared || before.shared,
        ..*before
    })
}
