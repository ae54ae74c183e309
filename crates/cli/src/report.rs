//! A report to hand on: one page that holds runs, sweeps and matrices of pairs with all that is known of
//! them, as data and as charts.
//! Not the reading (`import`) and not the judging (`explain`).

mod data;
mod of_run;
mod of_sweep;
mod page;
mod redact;
mod source;
mod summary;

pub(crate) use data::{LineKind, Report, Row, Series};
pub(crate) use of_run::series as run_series;
pub(crate) use of_sweep::series as sweep_series;
pub(crate) use page::page;
pub(crate) use redact::{KnownNames, redacted};
pub(crate) use source::Sources;

use busbw_analysis::explain::{self, Hardware};

/// Puts a report together. Runs are explained together, as `busbw explain` does.
pub(crate) fn report(sources: Sources, hardware: &Hardware, title: Option<String>) -> Report {
    let Sources { runs, sweeps, pairs, unread } = sources;
    let (runs, told) = explain::explained(runs, hardware);
    let names = of_run::names(&runs);
    let each = || names.iter().zip(runs.iter().zip(&told));
    let mut series: Vec<Series> =
        each().map(|(name, (run, told))| of_run::series(name, run, told)).collect();
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
        subject: summary::subject(&runs, &told, &sweeps, &pairs),
        verdict: Vec::new(),
        unread,
        runs: each().map(|(name, (run, told))| of_run::run(name, run, told)).collect(),
        sweeps: titles
            .iter()
            .zip(&sweeps)
            .map(|(title, sweep)| of_sweep::sweep(title, sweep))
            .collect(),
        pairs,
        series,
    };
    report.verdict = summary::verdict(&report);
    report
}
