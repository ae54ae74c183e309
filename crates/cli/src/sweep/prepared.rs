//! The job before its first launch: its options are parsed once here, so that a mistake in them is
//! reported at once.
//! Not the plan that runs: every launch makes its own.

use std::ffi::OsString;

use anyhow::Result;
use busbw_core::{Benchmark, exit::Exit, plan::Plan};

use crate::{
    launcher,
    options::{self, BenchArguments, Command, Environment, TurnArguments},
};
use busbw_analysis::sweep::Show;
use busbw_core::exit::ExitError;
use busbw_job::launchers::Placement;
use busbw_runner::request::{RecordPlace, Request};

/// The job.
pub(crate) struct Prepared {
    benchmark: Benchmark,
    show: Show,
    /// The benchmark's name and its options.
    pub(crate) words: Vec<OsString>,
    arguments: Box<BenchArguments>,
    request: Request,
    is_elsewhere: bool,
}

impl Prepared {
    /// Parses the benchmark's options.
    ///
    /// # Errors
    /// An option cannot be used, here or in every launch.
    pub(crate) fn new(turns: &TurnArguments) -> Result<Prepared> {
        let usage = |text: String| ExitError::new(Exit::Usage, text);
        let benchmark = turns.benchmark().map_err(usage)?;
        let show = turns.shown(benchmark).map_err(usage)?;
        let mut words = vec![OsString::from(&turns.benchmark)];
        words.extend(turns.bench.iter().cloned());
        let line: Vec<OsString> =
            std::iter::once(OsString::from("busbw")).chain(words.iter().cloned()).collect();
        let parsed = options::parse(line.clone())?;
        let Command::Bench { style, program, mut arguments, .. } = parsed else {
            return Err(usage(format!("{} is no benchmark", turns.benchmark)).into());
        };
        let mut environment = Environment::read(|name| std::env::var(name).ok());
        arguments.complete(&environment).map_err(ExitError::from)?;
        if let Some(launched) =
            environment.launched.as_ref().filter(|_| arguments.launching.is_asked())
        {
            return Err(usage(format!(
                "a launcher has started this process as one of several ({}): leave out --launcher, -H and --np, or start busbw without it",
                launched.variables
            ))
            .into());
        }
        for (given, option, instead) in [
            (arguments.repeat.is_some(), "--repeat", "--launches counts launches"),
            (arguments.cycles.is_some_and(|n| n != 1), "-N", "--launches counts launches"),
            (arguments.json_report.is_some(), "-J", "every launch would write it; use --json"),
            (arguments.launching.dry_run, "--dry-run", "it prints the command of a single run"),
            (
                arguments.row_time.is_some() && turns.time.is_some(),
                "--row-time",
                "--time sets the time of rows itself",
            ),
        ] {
            if given {
                return Err(usage(format!("{option} cannot be used here: {instead}")).into());
            }
        }
        let foreseen = launcher::foresee(&mut arguments, &line)?;
        let is_elsewhere = foreseen.is_some();
        let host_resources = match foreseen {
            None => crate::host_resources::host_resources(&arguments),
            Some(foreseen) => {
                environment.launched = foreseen.launched;
                crate::host_resources::assumed_host_resources(&arguments)
            }
        };
        let request =
            options::plan(benchmark, style, &program, &arguments, &environment, &host_resources)
                .map_err(|bad| ExitError::new(bad.exit, bad.to_string()))?;
        if environment.launched.is_some()
            && !is_elsewhere
            && request.plan.backend.spec().needs_launcher
        {
            let text = "MPI belongs to the launcher itself, and each launch here is a program of its own: leave the launcher out, and use --launcher mpirun";
            return Err(usage(text.to_owned()).into());
        }
        Ok(Prepared { benchmark, show, words, arguments, request, is_elsewhere })
    }

    /// The same for a command that launches it by itself, without turns and outputs of its own.
    ///
    /// # Errors
    /// As those of [`Prepared::new`].
    pub(crate) fn alone(benchmark: &str, bench: Vec<OsString>) -> Result<Prepared> {
        Prepared::new(&TurnArguments {
            launches: 1,
            time: None,
            show: None,
            baseline: None,
            csv: false,
            json: false,
            record: None,
            no_record: true,
            benchmark: benchmark.to_owned(),
            bench,
        })
    }

    /// Whether a launcher starts the ranks, even if on this machine.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// Where its launcher starts the ranks; none if launches start them themselves.
    pub(crate) fn placement(&self) -> Option<Placement> {
        let launching = Some(&self.arguments.launching).filter(|_| self.is_elsewhere)?;
        // It was made once, when the options were parsed.
        launching.placement(&["busbw".into()]).ok()
    }

    /// The net plugin that its words name.
    pub(crate) fn net(&self) -> Option<&str> {
        self.arguments.net.as_deref()
    }

    /// The benchmark.
    pub(crate) fn benchmark(&self) -> Benchmark {
        self.benchmark
    }

    /// The unit of the cells.
    pub(crate) fn show(&self) -> Show {
        self.show
    }

    /// The plan of a launch in the user's own environment.
    pub(crate) fn plan(&self) -> &Plan {
        &self.request.plan
    }

    /// The benchmark's name in its first and last lines.
    pub(crate) fn program(&self) -> &str {
        &self.request.plan.program
    }

    /// Whether a launch would keep a record.
    pub(crate) fn keeps_record(&self) -> bool {
        self.request.record != RecordPlace::None
    }

    /// Whether the user limits waits (`-T`).
    pub(crate) fn has_patience(&self) -> bool {
        self.arguments.timeout.is_some()
    }

    /// Whether ranks may share GPUs (`--share-gpus`).
    pub(crate) fn shares_gpus(&self) -> bool {
        self.arguments.share_gpus
    }

    /// The limit of one wait that the user gives (`-T`), seconds.
    pub(crate) fn patience(&self) -> Option<f64> {
        self.arguments.timeout.filter(|seconds| *seconds > 0).map(|seconds| seconds as f64)
    }

    /// Whether the user names sizes.
    pub(crate) fn names_sizes(&self) -> bool {
        self.arguments.min_bytes.is_some() || self.arguments.max_bytes.is_some()
    }

    /// The largest size that the user names, bytes.
    pub(crate) fn largest_size(&self) -> Option<u64> {
        self.names_sizes().then(|| self.plan().max_bytes)
    }

    /// Whether the user limits the time of rows (`--row-time`).
    pub(crate) fn names_row_time(&self) -> bool {
        self.arguments.row_time.is_some()
    }

    /// The GPUs that it would use.
    pub(crate) fn gpus(&self) -> Option<&busbw_runner::backend::nccl::Gpus> {
        self.request.resources.gpus.as_ref()
    }

    /// Rows of a launch.
    pub(crate) fn rows(&self) -> u64 {
        let plan = self.plan();
        if plan.calls.is_some() {
            // Its passes are limited as one row is.
            return 1;
        }
        let cases = plan.sweeps().len() * plan.variants.len().max(1);
        plan.size_count().saturating_mul(cases as u64)
    }

    /// The backend.
    pub(crate) fn ranks(&self) -> String {
        if self.is_elsewhere {
            return "ranks of a launcher".to_owned();
        }
        let plan = self.plan();
        format!("{} ranks on {}", plan.ranks(), plan.backend.name())
    }
}
