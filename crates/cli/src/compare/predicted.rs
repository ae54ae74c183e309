//! `compare PREDICTION RUN…`: how right `plan --from` was.
//! Not a comparison of two runs, and not the prediction (`busbw_analysis::extrapolation`).

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use anyhow::Result;
use busbw_analysis::extrapolation::{Outcome, Prediction, hold};
use busbw_core::{
    columns::aligned,
    exit::{Exit, ExitError},
    quantity::{bytes, count, list, rate},
};
use busbw_logs::measurement::Measurement;
use busbw_render::answer::{answer, json_line};
use busbw_stats::median;
use serde::Serialize;

use super::{SCHEMA, print_remark, sides};
use crate::options::CompareArguments;

/// Maximum size of a prediction, bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// What is printed as JSON.
#[derive(Debug, Serialize)]
struct Report<'p> {
    compare_schema: u32,
    by: &'static str,
    prediction: &'p Path,
    runs: Vec<String>,
    outcomes: &'p [Outcome],
    /// Cases of the prediction that no run is of.
    not_measured: Vec<String>,
}

/// A prediction; none where the word is no file of one.
pub(super) fn read(word: &Path) -> Option<Prediction> {
    // A pipe is left for who reads it.
    fs::metadata(word).ok().filter(|about| about.is_file() && about.len() <= MAX_FILE_BYTES)?;
    let text = fs::read_to_string(word).ok()?;
    serde_json::from_str(&text)
        .ok()
        .filter(|read: &Prediction| read.question == Prediction::QUESTION)
}

/// Prints what was expected beside what was measured.
///
/// # Errors
/// There is no run beside the prediction, an option is of other comparisons, or a run cannot be read.
pub(super) fn run(arguments: &CompareArguments, prediction: &Prediction) -> Result<Exit> {
    let usage = |text: String| ExitError::new(Exit::Usage, text);
    let others = [
        ("--with", arguments.with.is_some()),
        ("--last", arguments.last.is_some()),
        ("--by", arguments.by.is_some()),
        ("--fail-below", arguments.fail_below.is_some()),
        ("--fail-below-limit", arguments.fail_below_limit.is_some()),
    ];
    if let Some((option, _)) = others.into_iter().find(|(_, given)| *given) {
        return Err(
            usage(format!("{option} is not read where the first word is a prediction")).into()
        );
    }
    let (file, words) = match arguments.sources.split_first() {
        Some((file, words)) if !words.is_empty() => (file, words),
        _ => {
            return Err(
                usage("a prediction is compared with runs: name one behind it".to_owned()).into()
            );
        }
    };
    let mut runs: Vec<Measurement> = Vec::new();
    for word in words {
        runs.extend(sides::runs(word).map_err(|error| usage(format!("{error:#}")))?);
    }
    let (mut outcomes, mut not_measured) = (Vec::new(), Vec::new());
    for case in &prediction.cases {
        match hold(case, &runs).map_err(|error| usage(error.to_string()))? {
            Some(outcome) if !outcome.sizes.is_empty() => outcomes.push(outcome),
            _ => not_measured.push(format!(
                "{} on {}, {}",
                case.case.name(),
                count(case.to.hosts as u64, "host"),
                count(case.to.ranks as u64, "rank")
            )),
        }
    }
    let report = Report {
        compare_schema: SCHEMA,
        by: "prediction",
        prediction: file,
        runs: words.iter().map(|word| word.display().to_string()).collect(),
        outcomes: &outcomes,
        not_measured,
    };
    answer(|out, _| match arguments.json {
        true => json_line(out, &report),
        false => outcomes.iter().try_for_each(|outcome| print(out, outcome, arguments.markdown)),
    })?;
    if !report.not_measured.is_empty() {
        let all = list(&report.not_measured, "and");
        print_remark(&format!("no run that was named is of {all}"));
    }
    Ok(if outcomes.is_empty() { Exit::Internal } else { Exit::Ok })
}

fn print(out: &mut impl Write, outcome: &Outcome, markdown: bool) -> io::Result<()> {
    let expected = &outcome.expected;
    let title = format!(
        "{} on {}, {}: expected from {}, and measured ({})",
        expected.case.name(),
        count(expected.to.hosts as u64, "host"),
        count(expected.to.ranks as u64, "rank"),
        count(expected.from.hosts as u64, "host"),
        launches(outcome.launches),
    );
    let heading =
        ["size", "expected us", "range us", "measured us", "difference", "busbw", "in range"];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    for one in &outcome.sizes {
        let span = &one.expected.time_us;
        lines.push(vec![
            bytes(one.expected.bytes),
            us(span.middle),
            format!("{}-{}", us(span.low), us(span.high)),
            us(one.was_us),
            format!("{:+.1} %", one.difference),
            rate(one.expected.busbw.middle * span.middle / one.was_us),
            if one.inside { "yes" } else { "no" }.to_owned(),
        ]);
    }
    if markdown {
        writeln!(out, "**{title}**\n\n| {} |", heading.join(" | "))?;
        writeln!(out, "|{}", "---|".repeat(heading.len()))?;
        lines.iter().skip(1).try_for_each(|line| writeln!(out, "| {} |", line.join(" | ")))?;
        writeln!(out)?;
    } else {
        writeln!(out, "# {title}")?;
        write!(out, "{}", aligned(&lines))?;
    }
    let differences: Vec<f64> = outcome.sizes.iter().map(|one| one.difference.abs()).collect();
    writeln!(
        out,
        "{}{} of {} in the range; the median difference is {:.1} %",
        if markdown { "" } else { "# " },
        outcome.inside,
        count(outcome.sizes.len() as u64, "size"),
        median(&differences).unwrap_or(f64::NAN)
    )
}

fn launches(number: usize) -> String {
    if number == 1 { "1 launch".to_owned() } else { format!("{number} launches") }
}

fn us(value: f64) -> String {
    if value < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}
