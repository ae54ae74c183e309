//! An explanation as text for people.
//! Not the JSON, which is the data as it is.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use busbw_core::finding::Finding;
use busbw_hardware::limits::{Bottleneck, Resource};
use busbw_render::wrapped;

use super::{Explanation, context::of_size, limit::RateKind, rules::SOCKETS};
use busbw_core::quantity::{bytes, list, percent, rate, time};

/// Prints explanations. Runs of one source that have the same findings and bottleneck are printed
/// once, followed by the number and lines of the others.
///
/// # Errors
/// `out` cannot be written.
pub fn print_all(out: &mut impl Write, all: &[Explanation], colour: bool) -> io::Result<()> {
    let mut groups: HashMap<String, Vec<&Explanation>> = HashMap::new();
    let mut order = Vec::new();
    for explanation in all {
        let key = group_key(explanation);
        let group = groups.entry(key.clone()).or_default();
        if group.is_empty() {
            order.push(key);
        }
        group.push(explanation);
    }
    for (at, group) in order.iter().filter_map(|key| groups.get(key)).enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        let [first, others @ ..] = group.as_slice() else { continue };
        print(out, first, colour)?;
        if !others.is_empty() {
            writeln!(out)?;
            sentence(out, &others_of_group(others))?;
        }
    }
    Ok(())
}

/// All that an explanation says except its figures: explanations with equal keys are printed once.
fn group_key(explanation: &Explanation) -> String {
    let rules: Vec<&str> = explanation.findings.iter().map(|one| &*one.rule).collect();
    let Explanation { source, subject, bottleneck, rating, .. } = explanation;
    format!("{} {subject} {bottleneck:?} {rating:?} {rules:?}", source.name)
}

/// The lines of the runs that are not printed, and how fast they were.
fn others_of_group(others: &[&Explanation]) -> String {
    let lines: Vec<String> = others.iter().map(|one| one.source.line.to_string()).collect();
    let shown: Vec<&str> = lines.iter().take(8).map(String::as_str).collect();
    let lines = match lines.len().saturating_sub(shown.len()) {
        0 => list(&shown, "and"),
        left => format!("{} and {left} more", shown.join(", ")),
    };
    let speeds = || others.iter().filter_map(|one| one.measured.as_ref()?.busbw);
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
/// `out` cannot be written.
pub fn print(out: &mut impl Write, explanation: &Explanation, colour: bool) -> io::Result<()> {
    let bold = |text: &str| if colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() };
    let line = if explanation.source.line > 1 {
        format!(", line {}", explanation.source.line)
    } else {
        String::new()
    };
    writeln!(
        out,
        "{}",
        bold(&format!("{}{line}: {}", explanation.source.name, explanation.subject))
    )?;
    if let Some(measured) = &explanation.measured {
        let figure = match (measured.busbw, measured.time_us) {
            (Some(busbw), _) => format!("{}{}", both(busbw), of_size(measured.size)),
            (None, Some(us)) => format!("{} at {}", time(us), bytes(measured.size)),
            (None, None) => format!("- at {}", bytes(measured.size)),
        };
        let peak = measured.peak.map_or(String::new(), |(size, speed)| {
            format!("; best {} at {}", rate(speed), bytes(size))
        });
        field(out, "measured", &format!("{figure}{peak}"))?;
    }
    if explanation.source.form.facts().benchmark {
        against_limit(out, explanation)?;
    }
    writeln!(out)?;
    sentence(out, &explanation.sentence)?;
    if let (Some(found), Some(measured)) = (&explanation.hypotheses, &explanation.measured) {
        writeln!(out)?;
        for line in found.lines(measured.busbw.unwrap_or_default()) {
            sentence(out, &line)?;
        }
    }
    if !explanation.findings.is_empty() {
        writeln!(out)?;
    }
    // Where the sentence already gives the cause, the rule's name stands in its place.
    let shown = |finding: &Finding| match quotes(&explanation.sentence, &finding.cause) {
        true => Finding { cause: finding.rule.to_string(), ..finding.clone() },
        false => finding.clone(),
    };
    let shown: Vec<Finding> = explanation.findings.iter().map(shown).collect();
    busbw_render::findings(out, &shown, colour)?;
    for (name, facts) in [
        ("assumed", &explanation.assumed),
        ("not known, and could only lower the limit", &explanation.unchecked),
        ("missing", &explanation.missing),
    ] {
        let in_sentence = |fact: &&String| explanation.sentence.contains(fact.as_str());
        let facts: Vec<&str> =
            facts.iter().filter(|fact| !in_sentence(fact)).map(String::as_str).collect();
        if !facts.is_empty() {
            writeln!(out)?;
            sentence(out, &format!("{name}: {}", facts.join("; ")))?;
        }
    }
    Ok(())
}

/// Whether a sentence contains a cause, which may begin with a capital there.
fn quotes(sentence: &str, cause: &str) -> bool {
    let rest = cause.char_indices().nth(1).and_then(|(at, _)| cause.get(at..));
    rest.is_some_and(|rest| sentence.contains(rest))
}

/// The hardware's limit, the measured percentage of it, and the bottleneck. Without a limit there is no
/// percentage, and the sentence says what is missing.
fn against_limit(out: &mut impl Write, explanation: &Explanation) -> io::Result<()> {
    match &explanation.limit {
        Some(limit) => {
            let by = limit.choice.brief();
            let line_rate = if limit.rate == RateKind::Payload {
                format!(", line rate {}", rate(limit.line_busbw))
            } else {
                String::new()
            };
            let expects = limit
                .nccl_expects
                .map_or(String::new(), |expects| format!("; NCCL expects {}", rate(expects)));
            field(
                out,
                "limit",
                &format!("{} {}{line_rate} ({by}){expects}", both(limit.busbw), limit.rate.name()),
            )?;
        }
        None => field(out, "limit", "unknown")?,
    }
    if let Some(value) = explanation.percent {
        field(out, "percent", &format!("{} %", percent(value)))?;
    }
    match &explanation.bottleneck {
        Bottleneck::Unknown { .. } if explanation.limit.is_none() => Ok(()),
        _ => field(out, "bottleneck", &bottleneck(explanation)),
    }
}

fn field(out: &mut impl Write, name: &str, text: &str) -> io::Result<()> {
    writeln!(out, "  {name:<10} {text}")
}

fn both(speed: f64) -> String {
    format!("{} GB/s ({:.0} Gb/s)", rate(speed), speed * 8.0)
}

pub(super) fn bottleneck(explanation: &Explanation) -> String {
    let name =
        |one: &Resource| explanation.limit.as_ref().map_or(one.name(), |limit| limit.name(*one));
    match &explanation.bottleneck {
        Bottleneck::SetBy { resource } => name(resource).to_owned(),
        Bottleneck::Elsewhere { .. }
            if explanation.findings.iter().any(|one| one.rule == SOCKETS) =>
        {
            "sockets without helper threads".to_owned()
        }
        Bottleneck::Elsewhere { considered } => {
            let names: Vec<&str> = considered.iter().map(name).collect();
            match names.as_slice() {
                [only] => format!("not {only}"),
                all => format!("neither {}", all.join(" nor ")),
            }
        }
        Bottleneck::Software => "software".to_owned(),
        Bottleneck::AboveLimit => "none: the result is above the limit".to_owned(),
        Bottleneck::Unknown { .. } => "unknown".to_owned(),
    }
}

/// A sentence in lines; those after the first are indented by two more.
fn sentence(out: &mut impl Write, text: &str) -> io::Result<()> {
    write!(out, "  ")?;
    wrapped(out, 2, 4, text)
}
