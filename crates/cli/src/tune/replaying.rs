//! `busbw tune --replay`: a job's calls under the defaults and under what is recommended.
//! Not their measurement (`replay`).

use std::{ffi::OsString, fs, io::Write};

use anyhow::Result;
use busbw_core::{
    Benchmark,
    exit::{Exit, ExitError},
};
use busbw_render::answer::{answer, json_line};
use busbw_tune::tuned;

use super::{
    job::{self, Job},
    load, replay, tuner_file,
};
use crate::{
    options::{TuneArguments, TurnArguments},
    sweep::{self, Environment, Interruption, Variable, say},
    trace_classes,
    within_job::Leader,
};

/// Launches of each environment.
const LAUNCHES: u32 = 6;

/// Replays.
///
/// # Errors
/// The trace or the recommendation cannot be read, or a process cannot be started.
pub(super) fn run(arguments: &TuneArguments, leader: Option<&Leader>) -> Result<Exit> {
    if arguments.replay.iter().any(|path| path.as_os_str() == "-") {
        let text =
            "--replay -: every launch reads the trace, and stdin can be read once: name a file";
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let trace = trace_classes::read(&arguments.replay)?;
    let recommended = recommended(arguments)?;
    say(&trace_classes::table(&trace));
    let plain = Environment {
        name: "default".to_owned(),
        variables: Vec::new(),
        options: Vec::new(),
        instead: None,
    };
    let files = arguments.replay.iter().map(|path| path.clone().into_os_string());
    let words: Vec<OsString> = files.chain(arguments.bench.iter().cloned()).collect();
    let bench = [(Benchmark::Replay.name().to_owned(), words.clone())];
    let job = Job::new(arguments, &bench, leader, Interruption::default())?;
    let launches = format!("{} launches in about {:.0} s", 2 * LAUNCHES, arguments.seconds());
    load::may(arguments, &job, &launches, leader)?;
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
        bench: words,
    };
    let replayed = replay::run(&[plain, recommended], &turns, leader)?;
    answer(|out, _| match arguments.json {
        true => json_line(out, &replayed),
        false => out.write_all(replay::table(&replayed).as_bytes()),
    })?;
    Ok(replay::exit(&replayed))
}

/// What is compared with the defaults: the recommendation of an earlier tuning, or what -x sets.
fn recommended(arguments: &TuneArguments) -> Result<Environment> {
    let usage = |text: String| ExitError::new(Exit::Usage, text);
    let mut environment = Environment {
        name: "recommended".to_owned(),
        variables: Vec::new(),
        options: Vec::new(),
        instead: None,
    };
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
