//! An explanation as text for people.
//! Not the JSON, which is the data as it is.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use busbw_hardware::limits::{Resource, Verdict};
use busbw_logs::measurement::Form;

use super::{Explanation, finding::Weight};
use busbw_core::quantity::{bytes, list, percent, rate, time};

/// Width at which lines are broken.
const WIDTH: usize = 100;

/// Prints explanations. Of runs of one source of which the same is to be said, the first stands for all.
///
/// # Errors
/// When `out` cannot be written.
pub fn print_all(out: &mut impl Write, all: &[Explanation], colour: bool) -> io::Result<()> {
    let mut groups: HashMap<String, Vec<&Explanation>> = HashMap::new();
    let mut order = Vec::new();
    for told in all {
        let group = groups.entry(said(told)).or_default();
        if group.is_empty() {
            order.push(said(told));
        }
        group.push(told);
    }
    for (at, group) in order.iter().filter_map(|said| groups.get(said)).enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        let [first, others @ ..] = group.as_slice() else { continue };
        print(out, first, colour)?;
        if !others.is_empty() {
            writeln!(out)?;
            wrapped(out, "  ", &more(others))?;
        }
    }
    Ok(())
}

/// What is to be said of a run, but for its figures.
fn said(told: &Explanation) -> String {
    let rules: Vec<&str> = told.findings.iter().map(|one| one.rule).collect();
    let Explanation { source, subject, culprit, standing, .. } = told;
    format!("{} {subject} {culprit:?} {standing:?} {rules:?}", source.name)
}

/// Where the others are, and how fast they were.
fn more(others: &[&Explanation]) -> String {
    let lines: Vec<String> = others.iter().map(|told| told.source.line.to_string()).collect();
    let shown: Vec<&str> = lines.iter().take(8).map(String::as_str).collect();
    let lines = match lines.len().saturating_sub(shown.len()) {
        0 => list(&shown, "and"),
        left => format!("{} and {left} more", shown.join(", ")),
    };
    let speeds = || others.iter().filter_map(|told| told.measured.as_ref()?.busbw);
    let (low, high) = (speeds().fold(f64::INFINITY, f64::min), speeds().fold(0.0, f64::max));
    let speeds = match (rate(low), rate(high)) {
        _ if high <= 0.0 => String::new(),
        (low, high) if low == high => format!("; they reach {low} GB/s"),
        (low, high) => format!("; they reach {low} to {high} GB/s"),
    };
    let (tables, line) = if others.len() == 1 { ("table", "line") } else { ("tables", "lines") };
    format!("The same holds for {} more {tables} ({line} {lines}){speeds}.", others.len())
}

/// Prints an explanation.
///
/// # Errors
/// When `out` cannot be written.
pub fn print(out: &mut impl Write, told: &Explanation, colour: bool) -> io::Result<()> {
    let bold = |text: &str| if colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() };
    let line =
        if told.source.line > 1 { format!(", line {}", told.source.line) } else { String::new() };
    writeln!(out, "{}", bold(&format!("{}{line}: {}", told.source.name, told.subject)))?;
    if let Some(measured) = &told.measured {
        let figure = match (measured.busbw, measured.time_us) {
            (Some(busbw), _) => both(busbw),
            (None, Some(us)) => time(us),
            (None, None) => "-".to_owned(),
        };
        let peak = measured.peak.map_or(String::new(), |(size, speed)| {
            format!("; best {} at {}", rate(speed), bytes(size))
        });
        field(out, "measured", &format!("{figure} at {}{peak}", bytes(measured.size)))?;
    }
    if told.source.form != Form::NetStats {
        against_limit(out, told)?;
    }
    writeln!(out)?;
    wrapped(out, "  ", &told.sentence)?;
    for finding in &told.findings {
        writeln!(out)?;
        let mark = match finding.weight {
            Weight::Wrong => {
                if colour {
                    "\x1b[31mwrong\x1b[0m"
                } else {
                    "wrong"
                }
            }
            Weight::Slow => {
                if colour {
                    "\x1b[33mslow\x1b[0m"
                } else {
                    "slow"
                }
            }
            Weight::Note => "note",
        };
        wrapped(out, "  ", &format!("{mark}: {} ({})", finding.cause, finding.confidence.name()))?;
        for evidence in &finding.evidence {
            wrapped(out, "        ", &format!("seen: {evidence}"))?;
        }
        if let Some(remedy) = &finding.remedy {
            wrapped(out, "        ", &format!("do: {remedy}"))?;
        }
        if let Some(confirm) = &finding.confirm {
            wrapped(out, "        ", &format!("confirm: {confirm}"))?;
        }
    }
    for (name, facts) in [
        ("assumed", &told.assumed),
        ("not known, and could only lower the limit", &told.unchecked),
        ("missing", &told.missing),
    ] {
        if !facts.is_empty() {
            writeln!(out)?;
            wrapped(out, "  ", &format!("{name}: {}", facts.join("; ")))?;
        }
    }
    Ok(())
}

/// What the hardware allows, and how far that is.
fn against_limit(out: &mut impl Write, told: &Explanation) -> io::Result<()> {
    let unknown = "unknown";
    match &told.limit {
        Some(limit) => {
            let by = limit.choice.brief();
            let line = if limit.figure == "payload" {
                format!(", line {}", rate(limit.line))
            } else {
                String::new()
            };
            let expects = limit
                .nccl_expects
                .map_or(String::new(), |expects| format!("; NCCL expects {}", rate(expects)));
            field(
                out,
                "limit",
                &format!("{} {}{line} ({by}){expects}", both(limit.busbw), limit.figure),
            )?;
        }
        None => field(out, "limit", unknown)?,
    }
    field(
        out,
        "percent",
        &told.percent.map_or(unknown.to_owned(), |value| format!("{} %", percent(value))),
    )?;
    field(out, "culprit", &culprit(told))
}

fn field(out: &mut impl Write, name: &str, text: &str) -> io::Result<()> {
    writeln!(out, "  {name:<9} {text}")
}

fn both(speed: f64) -> String {
    format!("{} GB/s ({:.0} Gb/s)", rate(speed), speed * 8.0)
}

fn culprit(told: &Explanation) -> String {
    let name = |one: &Resource| told.limit.as_ref().map_or(one.name(), |limit| limit.name(*one));
    match &told.culprit {
        Verdict::SetBy { resource } => name(resource).to_owned(),
        Verdict::NotTheLine { considered } => {
            let names: Vec<&str> = considered.iter().map(name).collect();
            match names.as_slice() {
                [only] => format!("not {only}"),
                all => format!("neither {}", all.join(" nor ")),
            }
        }
        Verdict::Software => "software".to_owned(),
        Verdict::AboveLimit => "none: it is above the limit".to_owned(),
        Verdict::Unknown { .. } => "unknown".to_owned(),
    }
}

/// Breaks a text into lines; those after the first are indented by two more.
fn wrapped(out: &mut impl Write, indent: &str, text: &str) -> io::Result<()> {
    let mut line = indent.to_owned();
    let mut empty = true;
    for word in text.split(' ') {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{line}")?;
            line = format!("{indent}  ");
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(out, "{line}")
}
