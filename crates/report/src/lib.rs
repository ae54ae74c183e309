//! The report: one self-contained page with runs, sweeps and matrices of pairs, as data and as charts.
//! Not the reading (`busbw-logs`), and not the explanations (`busbw-analysis`).
#![forbid(unsafe_code)]

mod answer;
mod data;
/// Bus bandwidth over size in the terminal.
pub mod figure;
mod of_pairs;
mod of_run;
mod of_sweep;
mod page;
mod redact;
mod source;
mod summary;

pub use data::{LineKind, Report, Series};
pub use of_run::series as run_series;
pub use of_sweep::series as sweep_series;
pub use page::page;
pub use redact::{KnownNames, redacted};
pub use source::Sources;

use busbw_analysis::explain::{self, Hardware};

/// Builds a report. Runs are explained together, as `busbw explain` does.
pub fn report(sources: Sources, hardware: &Hardware, title: Option<String>) -> Report {
    let Sources { runs, sweeps, pairs, unread } = sources;
    let (runs, explanations) = explain::explained(runs, hardware);
    let names = of_run::names(&runs);
    let each = || names.iter().zip(runs.iter().zip(&explanations));
    let mut series: Vec<Series> =
        each().map(|(name, (run, explanations))| of_run::series(name, run, explanations)).collect();
    series.retain(|series| !series.rows.is_empty());
    let titles = of_sweep::titles(&sweeps);
    for (title, sweep) in titles.iter().zip(&sweeps) {
        let several = sweeps.len() > 1;
        series.extend(of_sweep::series(sweep).into_iter().map(|series| match several {
            // Names of environments are unique in their own sweep only.
            true => Series { name: format!("{} ({title})", series.name), ..series },
            false => series,
        }));
    }
    let mut report = Report {
        report_schema: data::SCHEMA,
        title: title.unwrap_or_else(|| summary::title(&runs, &sweeps, &pairs)),
        made: busbw_store::local_time::now(),
        busbw: env!("CARGO_PKG_VERSION").to_owned(),
        redacted: false,
        subject: summary::subject(&runs, &explanations, &sweeps, &pairs),
        answer: None,
        verdict: Vec::new(),
        unread,
        runs: each()
            .map(|(name, (run, explanations))| of_run::run(name, run, explanations))
            .collect(),
        sweeps: titles
            .iter()
            .zip(&sweeps)
            .map(|(title, sweep)| of_sweep::sweep(title, sweep))
            .collect(),
        pairs: pairs.into_iter().map(of_pairs::matrix).collect(),
        series,
    };
    report.verdict = summary::verdict(&report);
    let of_runs = report.runs.iter().map(|run| run.answer.clone());
    let of_sweeps = titles.iter().zip(&sweeps).map(|(title, one)| answer::of_sweep(title, one));
    let of_pairs = report.pairs.iter().map(|one| one.answer.clone());
    report.answer = answer::worst(of_runs.chain(of_sweeps).chain(of_pairs));
    report
}
