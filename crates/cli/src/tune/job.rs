//! The job that is tuned: its benchmarks, planned once, and launches of them in an environment, one after the other.
//! Not which environments (`busbw_tune`), and not what a launch's record says (`trial`).

use std::{
    ffi::OsString,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::{
    Benchmark,
    exit::{Exit, ExitError},
    plan::{BufferMemory, Plan},
};
use busbw_host::mps;
use busbw_job::launchers::Placement;
use busbw_tune::Assignment;
use tempfile::TempDir;

use crate::{
    options::TuneArguments,
    sweep::{
        Environment, Interruption, Launch, Prepared, Variable,
        launch::{self, Started},
    },
    within_job::Leader,
};

/// Sizes where the user names none: few, since every launch measures all of them.
const GPU_SIZES: [&str; 6] = ["-b", "4K", "-e", "256M", "-f", "16"];
const HOST_SIZES: [&str; 6] = ["-b", "4K", "-e", "16M", "-f", "16"];
/// Seconds of a row where the user names none.
const ROW_S: f64 = 0.1;
/// A launch that takes so many times as long as the first one hangs; and the least and most of that limit.
const HANGS_AFTER: f64 = 8.0;
const HANGS_S: [f64; 2] = [15.0, 600.0];
/// The least seconds of `-T`, which ends waits inside of a launch.
const MIN_WAIT_S: f64 = 10.0;

/// A benchmark of the job.
struct Bench {
    prepared: Prepared,
    words: Vec<OsString>,
    names_batches: bool,
}

/// The job.
pub(super) struct Job<'a> {
    benches: Vec<Bench>,
    leader: Option<&'a Leader>,
    interruption: Interruption,
    folder: PathBuf,
    /// Is removed with this.
    _temporary: Option<TempDir>,
    launches: usize,
    /// Seconds after which a launch hangs.
    hangs_s: f64,
}

/// Launches of every benchmark in one environment.
pub(super) struct Launched {
    pub(super) launches: Vec<Launch>,
    /// Whether the last of them was ended here for taking too long.
    pub(super) hung: bool,
    pub(super) took_s: f64,
}

impl Launched {
    /// Whether a launch failed.
    pub(super) fn has_failed(&self) -> bool {
        self.launches.iter().any(|launch| launch.failure.is_some())
    }
}

impl<'a> Job<'a> {
    /// Parses the options.
    ///
    /// # Errors
    /// An option cannot be used, here or in every launch, or there is no folder for records.
    pub(super) fn new(
        arguments: &TuneArguments,
        benches: &[(String, Vec<OsString>)],
        leader: Option<&'a Leader>,
        interruption: Interruption,
    ) -> Result<Job<'a>> {
        let benches = benches.iter().map(|(name, words)| bench(name, words));
        let benches = benches.collect::<Result<Vec<_>>>()?;
        let (folder, temporary) = match &arguments.record {
            Some(folder) => {
                let folder = folder.join("launches");
                fs::create_dir_all(&folder).map_err(|error| {
                    let text = format!("--record: {} must be a folder: {error}", folder.display());
                    ExitError::new(Exit::Usage, text)
                })?;
                (folder, None)
            }
            None => {
                let temporary =
                    TempDir::new().context("cannot make a folder for records of launches")?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        // Of a tuning that goes on, the records that are there keep their numbers.
        let launches = fs::read_dir(&folder).map_or(0, Iterator::count);
        let hangs_s = HANGS_S[1];
        Ok(Job { benches, leader, interruption, folder, _temporary: temporary, launches, hangs_s })
    }

    /// Bytes that ranks send in one launch, about: sizes × operations × ranks.
    pub(super) fn bytes_a_launch(&self) -> f64 {
        let of_plan = |plan: &Plan| {
            let batches = f64::from(plan.sampling.min_batches) + 1.0;
            if let Some(calls) = &plan.calls {
                return calls.bytes() as f64 * batches * plan.ranks() as f64;
            }
            let each = |size: u64| size as f64 * f64::from(plan.loops(size).0) * batches * 2.0;
            plan.sizes().map(each).sum::<f64>() * plan.ranks() as f64
        };
        self.benches.iter().map(|bench| of_plan(bench.prepared.plan())).sum()
    }

    /// The first benchmark's plan.
    pub(super) fn plan(&self) -> &Plan {
        self.benches[0].prepared.plan()
    }

    /// Whether its GPUs are AMD's.
    pub(super) fn is_amd(&self) -> bool {
        self.benches[0].prepared.gpus().is_some_and(|gpus| gpus.libraries.amd)
    }

    /// The net plugin that the user's words name.
    pub(super) fn net(&self) -> Option<&str> {
        self.benches[0].prepared.net()
    }

    /// Where its launcher starts the ranks; none if launches start them themselves.
    pub(super) fn placement(&self) -> Option<Placement> {
        self.benches[0].prepared.placement()
    }

    /// Whether ranks may be on other hosts.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.leader.is_some() || self.placement().is_some()
    }

    /// Whether the user has interrupted this program.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interruption.is_interrupted()
    }

    /// Says how long the first launch took: what takes much longer hangs. The user's own limit of waits is one beyond it.
    pub(super) fn expect(&mut self, took_s: f64) {
        let patience = self.benches.iter().filter_map(|bench| bench.prepared.patience());
        self.hangs_s = match patience.max_by(f64::total_cmp) {
            Some(patience) => took_s + patience,
            None => (HANGS_AFTER * took_s).clamp(HANGS_S[0], HANGS_S[1]),
        };
    }

    /// Launches every benchmark with these variables and options, until one fails.
    ///
    /// # Errors
    /// A process cannot be started.
    pub(super) fn launch(
        &mut self,
        sets: &[Assignment],
        options: &[OsString],
        batches: u32,
    ) -> Result<Launched> {
        let environment = environment(sets);
        let begun = Instant::now();
        let mut launched = Launched { launches: Vec::new(), hung: false, took_s: 0.0 };
        for bench in &self.benches {
            let mut words = bench.words.clone();
            // The last one of an option counts.
            words.extend(environment.options.iter().map(OsString::from));
            words.extend(options.iter().cloned());
            if !bench.names_batches {
                words.extend(["--batches".into(), batches.to_string().into()]);
            }
            if !bench.prepared.has_patience() {
                let wait = self.hangs_s.max(MIN_WAIT_S);
                words.extend(["-T".into(), format!("{wait:.0}").into()]);
            }
            self.launches += 1;
            let path = self.folder.join(format!("{:04}.jsonl", self.launches));
            let limit = Duration::from_secs_f64(self.hangs_s);
            let started = Started {
                leader: self.leader,
                interruption: &self.interruption,
                until: Instant::now().checked_add(limit),
            };
            let launch = launch::run(&words, &environment, &path, &started)?;
            let failed = launch.failure.is_some();
            launched.hung = failed && launch.took >= limit;
            launched.launches.push(launch);
            if failed {
                break;
            }
        }
        launched.took_s = begun.elapsed().as_secs_f64();
        Ok(launched)
    }
}

/// What a trial sets, as launches take it.
pub(super) fn environment(sets: &[Assignment]) -> Environment {
    let (options, variables): (Vec<_>, Vec<_>) = sets.iter().partition(|one| one.is_option());
    let variables = variables.into_iter();
    let variables =
        variables.map(|one| Variable { name: one.name.clone(), value: one.value.clone() });
    let options =
        options.into_iter().filter_map(|one| Some([one.name.clone(), one.value.clone()?]));
    Environment {
        name: "trial".to_owned(),
        variables: variables.collect(),
        options: options.flatten().collect(),
        instead: None,
    }
}

fn bench(name: &str, words: &[OsString]) -> Result<Bench> {
    let prepared = Prepared::alone(name, words.to_vec())?;
    let on_gpus = prepared.plan().backend.spec().buffers == BufferMemory::Gpu;
    let mut all = words.to_vec();
    if !prepared.names_sizes() && prepared.benchmark() != Benchmark::Replay {
        let sizes = if on_gpus { GPU_SIZES } else { HOST_SIZES };
        all.extend(sizes.map(OsString::from));
    }
    if !prepared.names_row_time() {
        all.extend(["--row-time".into(), format!("{ROW_S}").into()]);
    }
    let prepared = Prepared::alone(name, all)?;
    let plan = prepared.plan();
    let refused = |text: String| Err(ExitError::new(Exit::Usage, text).into());
    if plan.sweeps().len() > 1 || plan.variants.len() > 1 {
        return refused(format!(
            "{name}: give one type, one operation, one root and one algorithm: a setting is judged by one time for each size"
        ));
    }
    if (0..plan.ranks()).any(|rank| plan.colour(rank) != plan.colour(0)) {
        return refused(
            "NCCL_TESTS_SPLIT makes several communicators: unset it to tune one".to_owned(),
        );
    }
    if prepared.shares_gpus() && mps::pipes().is_none() {
        let text = "--share-gpus without CUDA MPS: kernels of ranks take turns, and no time counts. Start nvidia-cuda-mps-control -d with CUDA_MPS_PIPE_DIRECTORY in a folder of your own, here and there";
        return Err(ExitError::new(Exit::Impossible, text).into());
    }
    let words = prepared.words.clone();
    let names_batches = words.iter().any(|word| {
        let text = word.to_string_lossy();
        text == "--batches" || text.starts_with("--batches=")
    });
    Ok(Bench { prepared, words, names_batches })
}
