//! The searches of a tuning, launch by launch, to their ends or to an interruption.
//! Not what they decide (`busbw_tune`), and not one launch (`job`).

use std::{ffi::OsString, path::Path};

use anyhow::Result;
use busbw_analysis::explain;
use busbw_core::nccl_version::Version;
use busbw_runner::backend::nccl::tuner::NCCL_TUNER_PLUGIN;
use busbw_tune::{
    Advice, Assignment, Budget, End, Failure, Objective, Outcome, Scope, Search, Settings, Space,
    Strategy, Trial, Variable,
};
use busbw_tuner_file::TunerFile;

use super::{
    BATCHES,
    begin::{BY_CALL_SHARE, ENVIRONMENT_SHARE},
    by_call::{self, Chosen, Way},
    job::Job,
    progress::Progress,
    state::State,
    trial,
    tuner_file::{self, Communicator},
};
use crate::{options::TuneArguments, sweep::say};

/// The first release of NCCL whose tuners busbw's is one of.
const TUNED_SINCE: Version = Version::new(2, 21, 5);
/// The variable of the comparison with the file, and its value.
const FILE: &str = "tuner file";
const WITH_IT: &str = "used";

/// A search of a tuning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    /// For an environment.
    Environment,
    /// For what is best for each call within it.
    ByCall,
    /// The comparison of both together with the defaults.
    WithFile,
}

impl Which {
    fn title(self, is_ladder: bool) -> &'static str {
        match self {
            Which::Environment if is_ladder => "ladder",
            Which::Environment => "search",
            Which::ByCall => "search by call",
            Which::WithFile => "the tuner's file",
        }
    }

    fn search(self, state: &mut State) -> Option<&mut Search> {
        match self {
            Which::Environment => Some(&mut state.search),
            Which::ByCall => state.by_call.as_mut(),
            Which::WithFile => state.with_file.as_mut(),
        }
    }
}

/// Runs all searches that follow from what there is.
///
/// # Errors
/// A process cannot be started, or a file cannot be written.
pub(super) fn conduct(
    arguments: &TuneArguments,
    state: &mut State,
    job: &mut Job<'_>,
    path: &Path,
) -> Result<()> {
    let file = path.with_extension("csv");
    for which in [Which::Environment, Which::ByCall, Which::WithFile] {
        if which == Which::ByCall {
            hand_on_time(arguments, state);
        }
        if which == Which::WithFile && state.with_file.is_none() {
            choose_by_call(arguments, state, job, &file)?;
        }
        run_to_end(state, job, path, which)?;
        if state.interrupted || state.search.end() == Some(End::BaselineFails) {
            return Ok(());
        }
    }
    settle_file(state, &file)?;
    state.remains = remains(state, job)?;
    Ok(())
}

/// Gives the search by call what the one before it has left of its time.
fn hand_on_time(arguments: &TuneArguments, state: &mut State) {
    let used: f64 = state.search.history().iter().map(|one| one.took_s).sum();
    let Some(by_call) = state.by_call.as_mut().filter(|search| search.history().is_empty()) else {
        return;
    };
    let left = (ENVIRONMENT_SHARE + BY_CALL_SHARE) * arguments.seconds() - used;
    by_call.allow(left.max(BY_CALL_SHARE * arguments.seconds()));
}

/// Writes the tuner's file of what is best by call, and begins its comparison, where there is any.
fn choose_by_call(
    arguments: &TuneArguments,
    state: &mut State,
    job: &Job<'_>,
    file: &Path,
) -> Result<()> {
    let Some(report) = state.by_call.as_ref().and_then(Search::outcome) else { return Ok(()) };
    let communicator =
        Communicator { ranks: u32::try_from(state.ranks).unwrap_or(0), nodes: state.nodes };
    let chosen = tuner_file::of_choices(&report.choices, communicator);
    let nccl = state.nccl.as_ref().and_then(|nccl| nccl.parse::<Version>().ok());
    let is_tuned = state.backend == "nccl" && nccl.is_some_and(|nccl| nccl >= TUNED_SINCE);
    if chosen.entries.is_empty() || !is_tuned {
        return Ok(());
    }
    tuner_file::write(&chosen, file)?;
    state.tuner_file = chosen.to_string();
    let cannot = if job.is_elsewhere() {
        Some("every host needs it: copy it, and compare by hand with --tuner")
    } else if std::env::var_os(NCCL_TUNER_PLUGIN).is_some() {
        Some("NCCL_TUNER_PLUGIN names another tuner")
    } else {
        None
    };
    if let Some(why) = cannot {
        say(&format!("the tuner's file {} is not compared: {why}", file.display()));
        return Ok(());
    }
    let variable = Variable {
        name: FILE.to_owned(),
        values: vec![None, Some(WITH_IT.to_owned())],
        default: 0,
        ordered: false,
        scope: Scope::Process,
        needs: Vec::new(),
    };
    let with_it = Assignment { name: FILE.to_owned(), value: Some(WITH_IT.to_owned()) };
    let settings = Settings {
        objective: Objective::AllCalls(state.search.settings().objective.calls()),
        strategy: Strategy::Compare(vec![with_it]),
        // What was found is compared, whatever time it takes: the number of launches is its bound.
        budget: Budget { trials: arguments.trials, seconds: None },
        seed: arguments.seed,
    };
    state.with_file = Some(Search::new(Space::new(vec![variable])?, settings)?);
    Ok(())
}

/// Recommends the file where it is faster with no size slower. Lines that made one slower are taken out of it; what is left was not
/// measured, and is not recommended.
fn settle_file(state: &mut State, file: &Path) -> Result<()> {
    let Some(report) = state.with_file.as_ref().and_then(Search::outcome) else { return Ok(()) };
    let whole = TunerFile::parse(state.tuner_file.as_bytes())?;
    let kept = tuner_file::without_losses(&whole, &report.calls);
    if kept != whole {
        let many = whole.entries.len() - kept.entries.len();
        say(&format!("lines of the tuner's file that made a size slower are left out: {many}"));
        tuner_file::write(&kept, file)?;
        state.tuner_file = kept.to_string();
    } else if report.advice == Advice::Set {
        state.file_settings = tuner_file::settings(file)?;
    }
    Ok(())
}

/// What a launch of these trials sets, and its further options.
fn told(
    which: Which,
    trials: &[Trial],
    environment: &[Assignment],
    way: Way,
    file: &Path,
) -> (Vec<Assignment>, Vec<OsString>) {
    let chosen: Vec<Chosen> = trials.iter().map(|trial| Chosen::of(&trial.environment)).collect();
    let first = trials.first().map(|trial| trial.environment.clone()).unwrap_or_default();
    let within = |own: Vec<Assignment>| environment.iter().cloned().chain(own).collect();
    match which {
        Which::Environment => (first, Vec::new()),
        Which::ByCall if way == Way::Environment => {
            let own = chosen.first().map(Chosen::environment).unwrap_or_default();
            (within(own), Vec::new())
        }
        Which::ByCall => (within(Vec::new()), by_call::options(&chosen, way)),
        Which::WithFile if first.is_empty() => (Vec::new(), Vec::new()),
        Which::WithFile => (within(Vec::new()), vec!["--tuner".into(), file.into()]),
    }
}

fn run_to_end(state: &mut State, job: &mut Job<'_>, path: &Path, which: Which) -> Result<()> {
    let environment = recommended(state);
    let way = match which {
        Which::ByCall => {
            state.way.unwrap_or_else(|| Way::before_it_was_kept(state.nccl.as_deref()))
        }
        Which::Environment | Which::WithFile => Way::Environment,
    };
    let file = path.with_extension("csv");
    let left = which.search(state).and_then(|search| left_s(search));
    let progress = Progress::new(which.title(state.is_ladder), left);
    // Launches of one trial each that follow one of several that failed: it does not say whose failure it was.
    let mut alone = 0_usize;
    while let Some(search) = which.search(state) {
        let Some(first) = search.pending().first().cloned() else { break };
        progress.begins(&first, search);
        let trials = match alone == 0 {
            true => by_call::together(search.pending(), way),
            false => vec![first],
        };
        alone = alone.saturating_sub(1);
        let (sets, options) = told(which, &trials, &environment, way, &file);
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
        for trial in &trials {
            let variant = Chosen::of(&trial.environment).variant(way);
            let calls = search.settings().objective.calls();
            let outcome = trial::outcome(&launched, variant.as_ref(), &calls);
            report(search, trial.id, &outcome, took_s)?;
            if let Some(one) = search.history().iter().find(|one| one.trial.id == trial.id) {
                progress.ended(one);
            }
        }
        state.write(path)?;
    }
    progress.finish();
    Ok(())
}

/// Seconds that a search has left, where time is its bound.
fn left_s(search: &Search) -> Option<f64> {
    let used: f64 = search.history().iter().map(|one| one.took_s).sum();
    search.settings().budget.seconds.map(|seconds| (seconds - used).max(0.0))
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
    if job.is_interrupted() {
        return Ok(Vec::new());
    }
    let launched = job.launch(&recommended(state), &[], BATCHES)?;
    let records = trial::records(launched.launches).into_iter();
    Ok(records.map(|record| explain::summary(record, None)).collect())
}
