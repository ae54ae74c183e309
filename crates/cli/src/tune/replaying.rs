//! `busbw tune --replay`: a job's calls under the defaults and under what is recommended.
//! Not their measurement (`replay`).

use std::{fs, io::Write};

use anyhow::Result;
use busbw_core::exit::{Exit, ExitError};
use busbw_render::answer::{answer, json_line};
use busbw_tune::tuned;

use super::{
    job::{self, Job},
    load, mix, replay, trace_classes, tuner_file,
};
use crate::{
    options::{TuneArguments, TurnArguments},
    sweep::{self, Environment, Interruption, Variable, say},
    within_job::Leader,
};

/// Launches of each class and environment.
const LAUNCHES: u32 = 6;

/// Replays.
///
/// # Errors
/// The trace or the recommendation cannot be read, or a process cannot be started.
pub(super) fn run(arguments: &TuneArguments, leader: Option<&Leader>) -> Result<Exit> {
    let trace = trace_classes::read(&arguments.replay)?;
    let recommended = recommended(arguments)?;
    say(&trace_classes::table(&trace));
    let (benches, _) =
        mix::benches(&TuneArguments { trace: arguments.replay.clone(), ..arguments.clone() })?;
    load::may(arguments, &Job::new(arguments, &benches, leader, Interruption::default())?, leader)?;
    let plain =
        Environment { name: "default".to_owned(), variables: Vec::new(), options: Vec::new() };
    let turns = TurnArguments {
        launches: LAUNCHES,
        time: Some(arguments.seconds()),
        show: None,
        baseline: None,
        csv: false,
        json: arguments.json,
        record: arguments.record.clone(),
        no_record: true,
        benchmark: String::new(),
        bench: arguments.bench.clone(),
    };
    let replayed = replay::run(&trace, &[plain, recommended], &turns, leader)?;
    answer(|out, _| match arguments.json {
        true => json_line(out, &replayed),
        false => out.write_all(replay::table(&replayed).as_bytes()),
    })?;
    Ok(replay::exit(&replayed))
}

/// What is compared with the defaults: the recommendation of an earlier tuning, or what -x sets.
fn recommended(arguments: &TuneArguments) -> Result<Environment> {
    let usage = |text: String| ExitError::new(Exit::Usage, text);
    let mut environment =
        Environment { name: "recommended".to_owned(), variables: Vec::new(), options: Vec::new() };
    if let Some(path) = &arguments.with {
        let text = fs::read_to_string(path)
            .map_err(|error| usage(format!("--with {}: {error}", path.display())))?;
        let tuned = tuned::read(&text).ok_or_else(|| {
            usage(format!("--with {}: it is no result of busbw tune", path.display()))
        })?;
        let sets = tuned.outcome.map(|report| report.environment).unwrap_or_default();
        let set = job::environment(&sets);
        (environment.variables, environment.options) = (set.variables, set.options);
        if let Some(file) = tuner_file::file_of(&tuned.file_settings)? {
            environment.options.extend(["--tuner".to_owned(), file]);
        }
    }
    for list in &arguments.values {
        let (name, values) = sweep::read_values(list).map_err(usage)?;
        let [value] = values.as_slice() else {
            return Err(usage(format!("-x {list}: --replay takes one value of a variable")).into());
        };
        environment.variables.push(Variable { name, value: value.clone() });
    }
    if environment.variables.is_empty() && environment.options.is_empty() {
        let text = "--replay compares the defaults with something: give --with a result of busbw tune that recommends something, or -x NAME=VALUE";
        return Err(usage(text.to_owned()).into());
    }
    Ok(environment)
}
