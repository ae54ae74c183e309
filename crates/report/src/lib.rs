//! The report: one self-contained page with runs, sweeps, tunings, matrices of pairs, checks and jobs, as data and as charts.
//! Not the reading (`busbw-logs`), and not the explanations (`busbw-analysis`).
#![forbid(unsafe_code)]

mod answer;
mod command;
mod data;
/// Bus bandwidth over size in the terminal.
pub mod figure;
mod last_time;
mod of_check;
mod of_job;
mod of_pairs;
mod of_run;
mod of_sweep;
mod of_tuning;
mod page;
mod redact;
mod source;
mod summary;

pub use data::{LineKind, Report, Series, Text};
pub use last_time::history;
pub use of_run::series as run_series;
pub use of_sweep::series as sweep_series;
pub use page::page;
pub use redact::{KnownNames, redacted};
pub use source::Sources;

use busbw_analysis::explain::{self, Hardware};
use busbw_core::Benchmark;
use busbw_watch::Job;

/// Builds a report. Runs are explained together, as `busbw explain` does.
pub fn report(sources: Sources, hardware: &Hardware, title: Option<String>) -> Report {
    let Sources { runs, sweeps, tunings, pairs, checks, watched, unread, history, texts, .. } =
        sources;
    let jobs = Job::of(watched);
    let (runs, explanations) = explain::explained(runs, hardware);
    let names = of_run::names(&runs);
    let each = || names.iter().zip(runs.iter().zip(&explanations));
    let mut series: Vec<Series> =
        // The figures of pairs are in their matrix.
        each()
            .filter(|(_, (run, _))| run.test_name() != Benchmark::Pairs.name())
            .map(|(name, (run, explanations))| of_run::series(name, run, explanations))
            .collect();
    series.retain(|series| !series.rows.is_empty());
    let titles = of_sweep::titles(&sweeps);
    for (title, sweep) in titles.iter().zip(&sweeps) {
        let several = sweeps.len() > 1;
        series.extend(of_sweep::series(title, sweep).into_iter().map(|series| match several {
            // Names of environments are unique in their own sweep only.
            true => Series { name: format!("{} ({title})", series.name), ..series },
            false => series,
        }));
    }
    let tuning_titles = of_tuning::titles(&tunings);
    let measured = summary::Measured {
        sweeps: &sweeps,
        tunings: &tunings,
        pairs: &pairs,
        checks: &checks,
        jobs: &jobs,
    };
    let mut report = Report {
        report_schema: data::SCHEMA,
        title: title.unwrap_or_else(|| summary::title(&runs, &measured)),
        made: busbw_store::local_time::now(),
        busbw: env!("CARGO_PKG_VERSION").to_owned(),
        redacted: false,
        subject: summary::subject(&runs, &explanations, &measured),
        answer: None,
        verdict: Vec::new(),
        unread,
        texts,
        runs: each()
            .map(|(name, (run, told))| {
                let size = told.measured.as_ref().map(|measured| measured.size);
                let last = size.and_then(|size| last_time::last(run, size, &history));
                of_run::run(name, run, told, of_run::differs(run, &runs), last)
            })
            .collect(),
        sweeps: titles
            .iter()
            .zip(&sweeps)
            .map(|(title, sweep)| of_sweep::sweep(title, sweep))
            .collect(),
        tunings: tuning_titles
            .iter()
            .zip(&tunings)
            .map(|(title, tuned)| of_tuning::tuning(title, tuned))
            .collect(),
        checks: of_check::checks(&checks),
        jobs: of_job::jobs(&jobs, &runs, hardware),
        pairs: pairs.into_iter().map(of_pairs::matrix).collect(),
        series,
    };
    report.verdict = summary::verdict(&report);
    // Of pairs their matrix tells, unless the run failed.
    let told = |run: &&data::Run| {
        run.test != Benchmark::Pairs.name() || run.answer.level == data::Level::Bad
    };
    let of_runs = report.runs.iter().filter(told).map(|run| run.answer.clone());
    let of_sweeps = titles.iter().zip(&sweeps).map(|(title, one)| answer::of_sweep(title, one));
    let of_tunings =
        tuning_titles.iter().zip(&tunings).map(|(title, one)| of_tuning::answer(title, one));
    let of_pairs = report.pairs.iter().map(|one| one.answer.clone());
    let of_checks = report.checks.iter().map(|one| one.answer.clone());
    let of_jobs = report.jobs.iter().map(|one| one.answer.clone());
    let all = of_runs.chain(of_sweeps).chain(of_tunings).chain(of_pairs);
    report.answer = answer::worst(all.chain(of_checks).chain(of_jobs));
    report
}
