//! `busbw compare`: which of several sets of runs is faster, point by point, and whether a gate holds.
//! Not the verdicts (`busbw_analysis::comparison`), and not reading (`busbw_logs::import`).

mod differences;
mod duplicate_files;
mod headline;
mod history;
mod limit_gate;
mod predicted;
mod scaling;
mod sides;
mod table;

use std::io::{self, Write};

use anyhow::Result;
use busbw_analysis::comparison::{Matched, Matching, Point, compare_sides};
use busbw_core::exit::Exit;
use busbw_stats::Rule;
use serde::Serialize;

use self::{
    differences::Difference,
    history::History,
    limit_gate::LimitGate,
    sides::{Source, agree_on_ranks, resolve},
};
pub(crate) use sides::{runs, side};

use crate::options::CompareArguments;
use busbw_core::exit::ExitError;
use busbw_core::{printable::Printable, quantity::count};
use busbw_render::answer::{answer, json_line};

/// The version of the JSON that `--json` prints.
const SCHEMA: u32 = 3;

/// All comparisons of a command.
#[derive(Debug, Serialize)]
struct Outcome<'a> {
    compare_schema: u32,
    baseline: &'a Source,
    comparisons: Vec<Against<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<Gate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_gate: Option<LimitGate>,
}

/// One side against the baseline.
#[derive(Debug, Serialize)]
struct Against<'a> {
    candidate: &'a Source,
    differences: Vec<Difference>,
    #[serde(flatten)]
    matching: Matching,
}

/// Whether every point is fast enough.
#[derive(Debug, Serialize)]
struct Gate {
    fail_below: f64,
    held: bool,
    failed: Vec<Matched>,
    /// Points that look slower, but the difference may be noise.
    inconclusive: Vec<Matched>,
    /// Points of the baseline that a candidate lacks.
    missing: Vec<Point>,
    /// Points of a candidate whose data are wrong.
    wrong: Vec<Matched>,
    /// Candidates whose run did not complete, and why.
    incomplete: Vec<String>,
}

/// Compares the first side with each of the others.
///
/// # Errors
/// A side cannot be read (exit code 2), or stdout cannot be written.
pub fn run(arguments: &CompareArguments) -> Result<Exit> {
    if let Some(prediction) = arguments.sources.first().and_then(|word| predicted::read(word)) {
        return predicted::run(arguments, &prediction);
    }
    let mut sources =
        resolve(arguments).map_err(|e| ExitError::new(Exit::Usage, format!("{e:#}")))?;
    if arguments.by.is_some() {
        return scaling::run(arguments, &sources);
    }
    agree_on_ranks(&mut sources).iter().for_each(|remark| print_remark(remark));
    let Some((baseline, candidates)) = sources.split_first() else { return Ok(Exit::Usage) };
    // A lone side has nothing but its limit to be held against.
    let judged = if candidates.is_empty() { &sources } else { candidates };
    let limit_gate = arguments
        .fail_below_limit
        .map(|least| limit_gate::judge(least, arguments, judged))
        .transpose()?;
    let outcome = Outcome { limit_gate, ..compared(baseline, candidates, arguments.fail_below) };
    answer(|out, colour| match arguments.json {
        true => json_line(out, &outcome),
        false => table::print(out, &outcome, arguments.markdown, colour),
    })?;
    Ok(exit_code(&outcome))
}

fn compared<'a>(
    baseline: &'a Source,
    candidates: &'a [Source],
    fail_below: Option<f64>,
) -> Outcome<'a> {
    let mut history = History::new(baseline, candidates);
    let comparisons: Vec<Against<'_>> = candidates
        .iter()
        .map(|candidate| {
            let (a, b) = (&baseline.side, &candidate.side);
            let rule = Rule::default();
            Against {
                candidate,
                differences: differences::between(&baseline.runs, &candidate.runs),
                matching: compare_sides(a, b, &rule, &mut |point| history.of(point)),
            }
        })
        .collect();
    let gate = fail_below.map(|least| gate(least, baseline, &comparisons));
    Outcome { compare_schema: SCHEMA, baseline, comparisons, gate, limit_gate: None }
}

fn gate(least: f64, baseline: &Source, comparisons: &[Against<'_>]) -> Gate {
    let rows = || comparisons.iter().flat_map(|one| &one.matching.rows);
    let those = |is: &dyn Fn(&Matched) -> bool| rows().filter(|row| is(row)).cloned().collect();
    let missing = comparisons.iter().flat_map(|one| one.matching.only_baseline.clone());
    let mut gate = Gate {
        fail_below: least,
        held: false,
        failed: those(&|row| row.is_below(least)),
        inconclusive: those(&|row| row.may_be_below(least)),
        missing: missing.collect(),
        wrong: those(&|row| row.candidate.wrong > 0),
        incomplete: comparisons.iter().flat_map(|one| one.candidate.incomplete()).collect(),
    };
    gate.held = gate.failed.is_empty()
        && (gate.missing.is_empty() || baseline.is_reference)
        && gate.wrong.is_empty()
        && gate.incomplete.is_empty()
        && comparisons.iter().all(|one| !one.matching.rows.is_empty());
    gate
}

/// The exit code; a failure is explained on stderr.
fn exit_code(outcome: &Outcome<'_>) -> Exit {
    let mut exit = Exit::Ok;
    for one in outcome.comparisons.iter().filter(|one| one.matching.rows.is_empty()) {
        print_remark(&format!(
            "nothing was compared: {} and {} have no point in common (test, type, operator, root, ranks, group, size and place must be equal): {} has {}; {} has {}",
            outcome.baseline.side.name,
            one.candidate.side.name,
            outcome.baseline.side.name,
            table::describe_tables(&one.matching.only_baseline),
            one.candidate.side.name,
            table::describe_tables(&one.matching.only_candidate)
        ));
        exit = Exit::Internal;
    }
    if let Some(gate) = &outcome.gate {
        report_gate(gate);
        if !gate.held {
            exit = Exit::Internal;
        }
    }
    match (exit, outcome.limit_gate.as_ref().map(LimitGate::exit)) {
        (Exit::Ok, Some(limit)) => limit,
        (exit, _) => exit,
    }
}

/// Prints the points that missed the gate, and those that are inconclusive.
fn report_gate(gate: &Gate) {
    for row in &gate.failed {
        print_remark(&format!("below {}: {}", gate.fail_below, table::sentence(row)));
    }
    for row in &gate.wrong {
        let wrong = count(row.candidate.wrong, "wrong element");
        print_remark(&format!("wrong data: {}: {wrong}", table::sentence(row)));
    }
    if !gate.missing.is_empty() {
        print_remark(&format!("missing in the candidate: {}", table::list_points(&gate.missing)));
    }
    for why in &gate.incomplete {
        print_remark(&format!("not complete: {why}"));
    }
    for row in &gate.inconclusive {
        print_remark(&format!(
            "inconclusive, because noise may explain it: {}; add launches",
            table::sentence(row)
        ));
    }
}

fn print_remark(text: &str) {
    let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {text}");
}
