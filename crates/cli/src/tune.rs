//! `busbw tune`: what to set for this job on these machines, by a ladder of measured changes or by a search.
//! Not the search itself (`busbw_tune`), and not one launch (`sweep::launch`).

mod by_call;
mod forms;
mod here;
mod job;
mod load;
mod progress;
mod state;
mod table;
mod trial;

use std::{collections::BTreeMap, ffi::OsString, io::Write, path::Path};

use anyhow::{Context, Result};
use busbw_analysis::explain::{self, Hardware};
use busbw_core::{
    exit::{Exit, ExitError},
    finding::{Finding, Severity},
    record::Folded,
};
use busbw_logs::measurement::Measurement;
use busbw_render::answer::{answer, json_line};
use busbw_runner::backend::net::embedded;
use busbw_store as store;
use busbw_tune::{
    Assignment, Budget, End, Failure, Objective, Outcome, Search, Settings, Strategy,
    catalogue::{self, Here},
    tuned::Tuned,
};

use crate::{
    options::{self, Command, TuneArguments},
    sweep::{self, Interruption, say},
    within_job::{self, Leader},
};
use by_call::Chosen;
use job::Job;
use progress::Progress;
use state::State;

/// Batches of the first launch, and of the one that shows what remains.
const BATCHES: u32 = 6;
/// The share of the time that the search for an environment has where another one by call follows.
const ENVIRONMENT_SHARE: f64 = 0.6;
/// The variable that selects a net plugin.
const NET_PLUGIN: &str = "NCCL_NET_PLUGIN";

/// Tunes.
///
/// # Errors
/// The options cannot be used, there is nothing to tune here, the defaults themselves fail, or a process or file cannot be
/// started or opened.
pub fn run(arguments: &TuneArguments, args: &[OsString]) -> Result<Exit> {
    within_job::lead(args, |leader| tune(arguments, args, leader))
}

fn tune(arguments: &TuneArguments, args: &[OsString], leader: Option<&Leader>) -> Result<Exit> {
    let resumed = arguments.resume.as_deref().map(State::read).transpose()?;
    let asked = match &resumed {
        Some(state) => as_it_began(state, arguments)?,
        None => arguments.clone(),
    };
    let mut job = Job::new(&asked, leader, Interruption::watch()?)?;
    load::may(&asked, &job, leader)?;
    let path = state::path(&asked)?;
    let mut state = match resumed {
        Some(state) => state,
        None => begin(&asked, args, &mut job)?,
    };
    job.expect(state.first_s);
    state.interrupted = false;
    conduct(&asked, &mut state, &mut job, &path)?;
    if !state.interrupted {
        state.remains = remains(&state, &mut job)?;
    }
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

/// Launches once in the user's own environment: what there is, how long a launch takes, and the search that follows.
fn begin(arguments: &TuneArguments, args: &[OsString], job: &mut Job<'_>) -> Result<State> {
    say("the first launch is in your own environment: what there is, and how long one takes");
    let launched = job.launch(&[], &[], BATCHES)?;
    if let Some((code, text)) = launched.launches.iter().find_map(|one| one.failure.as_ref()) {
        let exit =
            [Exit::Usage, Exit::Timeout, Exit::Impossible, Exit::WrongData, Exit::Interrupted];
        let exit = exit.into_iter().find(|exit| exit.code() == *code).unwrap_or(Exit::Library);
        let text = format!("without any tuning it fails, repair that first: {text}");
        return Err(ExitError::new(exit, text).into());
    }
    let first_s = launched.took_s;
    let records = trial::records(launched.launches);
    let first = records.first().context("the first launch kept no record")?;
    let (backend, ranks) = (first.run.plan.backend.name().to_owned(), first.run.plan.ranks());
    let here = here::here(&records)?;
    let mut listed = BTreeMap::new();
    for list in &arguments.values {
        let (name, values) =
            sweep::read_values(list).map_err(|text| ExitError::new(Exit::Usage, text))?;
        listed.entry(name).or_insert_with(Vec::new).extend(values);
    }
    add_plugin(&here, job, &mut listed);
    let before = wrong(records);
    let by_call = has_calls(&here, arguments);
    let usage = |text: String| ExitError::new(Exit::Usage, text);
    let (space, variables_left_out) = catalogue::space(&here, &here::present(), &listed)
        .map_err(|error| usage(error.to_string()))?;
    let (rungs, rungs_left_out) = catalogue::rungs(&space, &variables_left_out);
    let share = if by_call { ENVIRONMENT_SHARE } else { 1.0 };
    let settings = |objective: Objective, strategy: Strategy, share: f64| Settings {
        objective,
        strategy,
        budget: Budget { trials: arguments.trials, seconds: Some(share * arguments.seconds()) },
        seed: arguments.seed,
    };
    let strategy = if arguments.search { Strategy::Races } else { Strategy::Ladder(rungs) };
    let calls = job.calls();
    let search = Search::new(space, settings(Objective::AllCalls(calls.clone()), strategy, share))
        .map_err(|error| usage(error.to_string()))?;
    let words = args.iter().skip(1).map(|word| store::masked(&word.to_string_lossy())).collect();
    let mut state = State::new(search, words, !arguments.search);
    if by_call {
        let space = catalogue::by_call(&here).map_err(|error| usage(error.to_string()))?;
        let search =
            Search::new(space, settings(Objective::PerCall(calls), Strategy::Races, 1.0 - share))
                .map_err(|error| usage(error.to_string()))?;
        state.by_call = Some(search);
    }
    state.before = before;
    (state.backend, state.ranks, state.first_s) = (backend, ranks, first_s);
    state.nccl = here.nccl.map(|version| version.to_string());
    (state.variables_left_out, state.rungs_left_out) = (variables_left_out, rungs_left_out);
    Ok(state)
}

/// What is wrong with the runs of these records: findings that cost speed or spoil data.
fn wrong(records: Vec<Folded>) -> Vec<Finding> {
    let runs = records.into_iter().map(|record| Measurement::from_record(record, "")).collect();
    let explanations = explain::explain(runs, &Hardware::default());
    let findings = explanations.into_iter().flat_map(|one| one.findings);
    findings.filter(|finding| finding.severity >= Severity::Slow).collect()
}

/// Whether algorithm and protocol are searched by call, within the best environment: set for all calls they are good for some.
fn has_calls(here: &Here, arguments: &TuneArguments) -> bool {
    arguments.search && here.nccl.is_some() && here.collectives
}

/// Lists busbw's net plugin among the values of the variable that selects one, where NCCL's own sockets join the ranks.
fn add_plugin(here: &Here, job: &Job<'_>, listed: &mut BTreeMap<String, Vec<Option<String>>>) {
    let is_set = std::env::var_os(NET_PLUGIN).is_some() || listed.contains_key(NET_PLUGIN);
    if here.nccl.is_none() || !here.sockets || is_set || job.placement().is_some() {
        return;
    }
    match embedded::path() {
        Ok(path) => {
            let value = Some(path.to_string_lossy().into_owned());
            listed.insert(NET_PLUGIN.to_owned(), vec![value]);
        }
        Err(error) => say(&format!("busbw's net plugin is not tried: {error:#}")),
    }
}

/// Both searches to their ends, or to an interruption.
fn conduct(
    arguments: &TuneArguments,
    state: &mut State,
    job: &mut Job<'_>,
    path: &Path,
) -> Result<()> {
    let title = if state.is_ladder { "ladder" } else { "search" };
    run_to_end(state, job, path, title, arguments.seconds(), Which::Environment)?;
    let can_go_on = state.search.end().is_some_and(|end| end != End::BaselineFails);
    if state.by_call.is_some() && can_go_on && !state.interrupted {
        run_to_end(state, job, path, "search by call", arguments.seconds(), Which::ByCall)?;
    }
    Ok(())
}

/// One of the two searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Environment,
    ByCall,
}

fn run_to_end(
    state: &mut State,
    job: &mut Job<'_>,
    path: &Path,
    title: &'static str,
    seconds: f64,
    which: Which,
) -> Result<()> {
    let base = match which {
        Which::Environment => Vec::new(),
        Which::ByCall => recommended(state),
    };
    let is_configured = which == Which::ByCall && by_call::is_configured(state.nccl.as_deref());
    let progress = Progress::new(title, seconds);
    // Launches of one trial each that follow one of several that failed: it does not say whose failure it was.
    let mut alone = 0_usize;
    loop {
        let search = match (which, &mut state.by_call) {
            (Which::ByCall, Some(search)) => search,
            _ => &mut state.search,
        };
        let Some(first) = search.pending().first().cloned() else { break };
        progress.begins(&first, search);
        let trials = match is_configured && alone == 0 {
            true => by_call::together(search.pending()),
            false => vec![first],
        };
        alone = alone.saturating_sub(1);
        let chosen: Vec<Chosen> =
            trials.iter().map(|trial| Chosen::of(&trial.environment)).collect();
        let (own, options) = match which {
            Which::Environment => (trials[0].environment.clone(), Vec::new()),
            Which::ByCall if is_configured => (Vec::new(), by_call::options(&chosen)),
            Which::ByCall => (chosen[0].environment(), Vec::new()),
        };
        let sets: Vec<Assignment> = base.iter().chain(&own).cloned().collect();
        let launched = job.launch(&sets, &options, trials[0].batches)?;
        if job.is_interrupted() {
            state.interrupted = true;
            break;
        }
        if trials.len() > 1 && launched.has_failed() {
            alone = trials.len();
            continue;
        }
        let took_s = launched.took_s / trials.len() as f64;
        for (trial, chosen) in trials.iter().zip(&chosen) {
            let variant = is_configured.then(|| chosen.variant());
            report(search, trial.id, &trial::outcome(&launched, variant.as_ref()), took_s)?;
            if let Some(one) = search.history().iter().find(|one| one.trial.id == trial.id) {
                progress.ended(one);
            }
        }
        state.write(path)?;
    }
    progress.finish();
    Ok(())
}

/// Reports an outcome; one without a usable time is a failure.
fn report(search: &mut Search, id: u64, outcome: &Outcome, took_s: f64) -> Result<()> {
    if let Err(error) = search.report(id, outcome.clone(), took_s) {
        let text = error.to_string();
        let failed = Outcome::Failed { failure: Failure::Crashed, text };
        search.report(id, failed, took_s)?;
    }
    Ok(())
}

/// What is recommended for the environment; empty where the defaults are.
fn recommended(state: &State) -> Vec<Assignment> {
    state.search.outcome().map(|report| report.environment).unwrap_or_default()
}

/// What remains to the limit of the hardware, by one more launch: the line that ends a run, for each benchmark.
fn remains(state: &State, job: &mut Job<'_>) -> Result<Vec<String>> {
    if state.search.end() == Some(End::BaselineFails) || job.is_interrupted() {
        return Ok(Vec::new());
    }
    let launched = job.launch(&recommended(state), &[], BATCHES)?;
    let records = trial::records(launched.launches).into_iter();
    Ok(records.map(|record| explain::summary(record, None)).collect())
}
