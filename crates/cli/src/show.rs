//! `busbw show`: prints a run's table byte for byte from its record alone.
//! Not a comparison and not a diagnosis.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::Path,
};

use anyhow::{Context, Result};
use busbw_core::{
    exit::Exit,
    record::{Folded, Line},
};
use busbw_logs::measurement::Measurement;

use crate::{
    options::{ShowArguments, units_of},
    sweep, tune,
};
use busbw_analysis::explain::{self, Hardware};
use busbw_analysis::sweep::{Outcome, RESULT_FILE, read as read_sweep};
use busbw_core::exit::ExitError;
use busbw_core::{printable::Printable, quantity::count};
use busbw_render as render;
use busbw_render::answer::{answer, wants_colour};
use busbw_render::{Csv, JsonLines, Render};
use busbw_report as report;
use busbw_report::figure::{self, Figure};
use busbw_store as store;
use busbw_tune::tuned::{self, Tuned};

/// The result of a sweep, where `path` is one, or a folder with one.
fn result(path: &Path) -> Option<Result<Outcome, String>> {
    let path = if path.is_dir() { path.join(RESULT_FILE) } else { path.to_owned() };
    if path.extension().is_none_or(|extension| extension != "json") {
        return None;
    }
    let text = fs::read_to_string(&path).ok()?;
    // A record as one object is no result.
    text.contains("\"sweep_schema\"")
        .then(|| read_sweep(&text).map_err(|why| format!("{}: {why}", path.display())))
}

/// The result of a tuning, where `path` is one.
fn of_tuning(path: &Path) -> Option<Tuned> {
    path.extension().filter(|extension| *extension == "json")?;
    tuned::read(&fs::read_to_string(path).ok()?)
}

/// Prints a record.
///
/// # Errors
/// The record cannot be found or read.
pub fn run(arguments: &ShowArguments) -> Result<Exit> {
    let usage = |e: anyhow::Error| ExitError::new(Exit::Usage, format!("{e:#}"));
    let by_id = arguments.run.as_deref().and_then(|run| store::find_result(run).ok());
    let named = by_id.as_deref().or(arguments.run.as_deref());
    if let Some(result) = named.and_then(result) {
        let outcome = result.map_err(|why| ExitError::new(Exit::Usage, why))?;
        if arguments.plot {
            let title = format!("{}, {}", outcome.program, outcome.on);
            let series = report::sweep_series(&title, &outcome);
            return draw(title, &series);
        }
        print_sweep(&outcome, arguments.csv, arguments.json)?;
        return Ok(Exit::Ok);
    }
    if let Some(tuned) = named.and_then(of_tuning) {
        tune::print(&tuned, arguments.json)?;
        return Ok(Exit::Ok);
    }
    let path = store::find(arguments.run.as_deref()).map_err(usage)?;
    let record = store::read(&path).map_err(|e| ExitError::new(Exit::Usage, e.to_string()))?;
    if arguments.plot {
        return draw_record(record, &path.display().to_string());
    }
    let stdout = Printable::new(BufWriter::new(io::stdout().lock()), wants_colour());
    let mut output: Box<dyn Render> = match (arguments.csv, arguments.json) {
        (true, _) => Box::new(Csv::new(stdout)),
        (_, true) => Box::new(JsonLines(stdout)),
        _ => {
            let plan = &record.run.plan;
            let units = units_of(plan.benchmark, plan.style, plan.latency, arguments.units)
                .map_err(|why| ExitError::new(Exit::Usage, why))?;
            render::table(plan, units, stdout)
        }
    };
    let printed = output
        .run(&record.run)
        .and_then(|()| {
            let mut all = record.library.iter();
            all.try_for_each(|facts| output.library(&Line::Library(facts.clone().into())))
        })
        .and_then(|()| record.rows.iter().try_for_each(|row| output.row(row)))
        .and_then(|()| {
            // Of several facts that a process reported, the record holds the last: those of its end.
            let mut all = record.mpi.iter();
            all.try_for_each(|facts| output.library(&Line::Mpi(facts.clone().into())))
        })
        .and_then(|()| {
            let mut all = record.net.iter();
            all.try_for_each(|facts| output.library(&Line::Net(facts.clone().into())))
        })
        .and_then(|()| {
            let mut all = record.paths.iter();
            all.try_for_each(|stats| output.library(&Line::Paths(stats.clone().into())))
        })
        .and_then(|()| {
            let mut all = record.verbs.iter();
            all.try_for_each(|facts| output.library(&Line::Verbs(facts.clone().into())))
        })
        .and_then(|()| record.end.iter().try_for_each(|end| output.end(end)));
    match printed {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Ok),
        other => other.context("cannot write to stdout")?,
    }
    if let Some(message) = record.end.as_ref().and_then(|end| end.message.as_deref()) {
        let _ = writeln!(
            Printable::new(io::stderr(), false),
            "busbw: this run did not complete: {message}"
        );
    } else if record.end.is_none() {
        let rows = match record.unsettled() as u64 {
            0 => String::new(),
            rows => {
                format!("; {} of launches before the last stand in no table", count(rows, "row"))
            }
        };
        let _ = writeln!(
            io::stderr(),
            "busbw: this record has no end: its writer was killed, or still runs{rows}"
        );
    }
    Ok(Exit::Ok)
}

fn draw_record(record: Folded, name: &str) -> Result<Exit> {
    let run = Measurement::from_record(record, name);
    let (runs, explanations) = explain::explained(vec![run], &Hardware::default());
    let title =
        explanations.first().map_or(String::new(), |explanations| explanations.subject.clone());
    let name = |run: &Measurement| match run.group() {
        Some(group) => format!("{} group {group}", run.test_name()),
        None => run.test_name().to_owned(),
    };
    let each = runs.iter().zip(&explanations);
    let series: Vec<_> =
        each.map(|(run, explanations)| report::run_series(&name(run), run, explanations)).collect();
    draw(title, &series)
}

fn draw(title: String, series: &[report::Series]) -> Result<Exit> {
    let figure = Figure::of(title, series).ok_or_else(|| {
        ExitError::new(Exit::Usage, "there is nothing to draw: no row has a bandwidth")
    })?;
    answer(|out, colour| {
        out.write_all(figure::terminal(&figure, figure::screen(), colour).as_bytes())
    })?;
    Ok(Exit::Ok)
}

/// Prints the result of a sweep as its command printed it.
///
/// # Errors
/// stdout cannot be written.
fn print_sweep(outcome: &Outcome, as_csv: bool, as_json: bool) -> Result<()> {
    sweep::put(&match (as_csv, as_json) {
        (true, _) => sweep::csv(outcome),
        (_, true) => serde_json::to_string(outcome).context("cannot write JSON")? + "\n",
        _ if outcome.command == "transports" => crate::transports::table(outcome),
        _ => sweep::table(outcome),
    })
}
