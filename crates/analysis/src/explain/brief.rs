//! An explanation in at most 12 lines, or in one where there are several: what one would send a colleague, and
//! what to do next.
//! Not everything that is known (`print`, `busbw explain -v`).

use std::io::{self, Write};

use busbw_core::{
    finding::{Finding, Severity},
    quantity::{bytes, count, percent, rate, time},
};

use super::{
    Explanation, Verdict,
    context::of_size,
    print::bottleneck,
    rules::{LOG_ALONE, SET_UP},
};

/// The most lines of an explanation.
const MAX_LINES: usize = 12;
/// Columns of a line.
const LINE_WIDTH: usize = 100;
/// The most lines of the sentence, behind its first one, and of the finding.
const MAX_SENTENCE_LINES: usize = 3;
const MAX_FINDING_LINES: usize = 2;
/// The longest second sentence in the line of one of several runs.
const MAX_SECOND_BYTES: usize = 200;
/// The same of the machines that it may have been.
const MAX_HYPOTHESES_LINES: usize = 3;

/// Prints explanations briefly: one in up to 12 lines, several in one line each.
///
/// # Errors
/// `out` cannot be written.
pub fn print_briefly(out: &mut impl Write, all: &[Explanation], colour: bool) -> io::Result<()> {
    if let [only] = all {
        let mut text = Vec::new();
        one(&mut text, only, colour)?;
        return at_most(out, &text, MAX_LINES);
    }
    for explanation in all {
        let subject = &explanation.subject;
        let then = second_sentence(explanation);
        let figure = explanation.measured.as_ref().and_then(|one| one.busbw).map(rate);
        let said = figure.is_some_and(|figure| then.contains(&figure));
        let first = match said {
            true => first_sentence(explanation).to_owned(),
            false => first_line(explanation),
        };
        headline(out, explanation, &format!("{subject}: {first}{then}"), colour)?;
    }
    let findings: usize = all.iter().map(|one| one.findings.len()).sum();
    if findings > 0 {
        writeln!(out, "  busbw explain -v says more: {}", count(findings as u64, "finding"))?;
    }
    Ok(())
}

/// The first lines of a text, and where more are.
fn at_most(out: &mut impl Write, text: &[u8], most: usize) -> io::Result<()> {
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    if lines.len() <= most {
        return out.write_all(text);
    }
    out.write_all(&lines.get(..most - 1).unwrap_or_default().concat())?;
    writeln!(out, "  -v says more")
}

/// The first line: the source, and what one would say in a sentence. It is never broken.
fn headline(
    out: &mut impl Write,
    explanation: &Explanation,
    text: &str,
    colour: bool,
) -> io::Result<()> {
    let source = &explanation.source;
    let line = if source.line > 1 { format!(", line {}", source.line) } else { String::new() };
    let (on, off) = match (colour, worst(explanation)) {
        (false, _) => ("", ""),
        (true, Some(Severity::Error)) => ("\x1b[1;31m", "\x1b[0m"),
        (true, Some(Severity::Slow | Severity::Warning)) => ("\x1b[1;33m", "\x1b[0m"),
        (true, _) => ("\x1b[1m", "\x1b[0m"),
    };
    writeln!(out, "{}{line}: {on}{text}{off}", source.name)
}

fn worst(explanation: &Explanation) -> Option<Severity> {
    explanation.findings.iter().map(|finding| finding.severity).max()
}

fn one(out: &mut impl Write, explanation: &Explanation, colour: bool) -> io::Result<()> {
    headline(out, explanation, &first_line(explanation), colour)?;
    // A log alone says what it is of in its first line.
    if !explanation.findings.iter().any(|finding| finding.rule == LOG_ALONE) {
        lines(out, &explanation.subject, 1)?;
    }
    if let Some(figures) = figures(explanation) {
        lines(out, &figures, 2)?;
    }
    lines(out, behind_first_sentence(explanation), MAX_SENTENCE_LINES)?;
    if let (Some(found), Some(busbw)) = (&explanation.hypotheses, busbw(explanation)) {
        lines(out, &found.brief(busbw), MAX_HYPOTHESES_LINES)?;
        lines(out, &format!("what would decide: {}", found.decides), 1)?;
    }
    let shown = main_findings(explanation);
    for finding in &shown {
        finding_lines(out, finding, explanation)?;
    }
    // What a run that failed lacks for a verdict on its speed is beside the point.
    let failed = matches!(explanation.verdict, Verdict::Failed | Verdict::Hanging);
    for (name, facts) in [("missing", &explanation.missing), ("assumed", &explanation.assumed)] {
        let new: Vec<&str> = facts
            .iter()
            .map(String::as_str)
            .filter(|fact| !explanation.sentence.contains(fact))
            .collect();
        if !new.is_empty() && !failed {
            lines(out, &format!("{name}: {}", new.join("; ")), 1)?;
        }
    }
    let mut rules: Vec<&str> = explanation
        .findings
        .iter()
        .filter(|finding| !shown.contains(finding))
        .map(|finding| &*finding.rule)
        .collect();
    if !rules.is_empty() {
        let more = count(rules.len() as u64, "more finding");
        rules.dedup();
        lines(out, &format!("-v says more: {more} ({})", rules.join(", ")), 1)?;
    }
    Ok(())
}

/// An error; else what explains a log alone or a result without a limit, with what costs most; else the most important finding that says
/// what to do.
pub fn main_findings(explanation: &Explanation) -> Vec<&Finding> {
    let all = || explanation.findings.iter();
    let remedied = || all().find(|finding| finding.remedy.is_some());
    if let Some(error) = all().find(|finding| finding.severity == Severity::Error) {
        return vec![error];
    }
    if let Some(alone) = all().find(|finding| finding.rule == LOG_ALONE) {
        let costs = remedied().filter(|finding| finding.rule != LOG_ALONE);
        return [Some(alone), costs].into_iter().flatten().collect();
    }
    if let Some(set_up) = all().find(|finding| finding.rule == SET_UP) {
        let advice = remedied().filter(|finding| finding.rule != SET_UP);
        let costs = advice.is_some_and(|finding| finding.severity > Severity::Note);
        let shown = if costs { [advice, Some(set_up)] } else { [Some(set_up), advice] };
        return shown.into_iter().flatten().collect();
    }
    remedied().or(all().next()).into_iter().collect()
}

/// Cause, evidence of an error, remedy and the command to run next.
fn finding_lines(
    out: &mut impl Write,
    finding: &Finding,
    explanation: &Explanation,
) -> io::Result<()> {
    let sentence = &explanation.sentence;
    // Where the first letter may be a capital, the rest tells.
    let said = |text: &str| text.get(1..).is_none_or(|rest| sentence.contains(rest));
    match finding.cause.split_once(": ") {
        _ if said(&finding.cause) => {}
        Some((what, why)) if said(what) => lines(out, &format!("{}: {why}", finding.severity), 1)?,
        _ => lines(out, &format!("{}: {}", finding.severity, finding.cause), MAX_FINDING_LINES)?,
    }
    let whole = finding.severity == Severity::Error || finding.rule == LOG_ALONE;
    for (at, evidence) in finding.evidence.iter().take(if whole { 3 } else { 1 }).enumerate() {
        // A line of a log says what matters at its end.
        let most = if at == 0 && finding.severity == Severity::Error { 2 } else { 1 };
        lines(out, &format!("seen: {evidence}"), most)?;
    }
    if let Some(remedy) = &finding.remedy {
        lines(out, &format!("do: {remedy}"), MAX_FINDING_LINES)?;
    }
    if let Some(confirm) = &finding.confirm {
        // Not broken into lines: it is there to be copied.
        writeln!(out, "  next: {confirm}")?;
    }
    Ok(())
}

/// What one would send a colleague: the first sentence, with the figure and its share of the limit where it has none.
pub(super) fn first_line(explanation: &Explanation) -> String {
    let first = first_sentence(explanation);
    let failed = explanation.findings.iter().any(|one| one.severity == Severity::Error);
    let figure = explanation.measured.as_ref().and_then(|one| Some((rate(one.busbw?), one.size)));
    match figure {
        Some((figure, size)) if !failed && !first.contains(&figure) => {
            let share = explanation.percent.map(percent).filter(|share| !first.contains(share));
            let share = share.map_or(String::new(), |share| format!(", {share} % of the limit"));
            format!("{figure} GB/s{}{share}. {first}", of_size(size))
        }
        _ if explanation.hypotheses.is_some() => {
            format!("{}; its limit is unknown.", first.trim_end_matches('.'))
        }
        _ => first.to_owned(),
    }
}

/// What a line of one of several runs has behind the first sentence: where no limit is known, that sentence has no more than
/// the figure.
fn second_sentence(explanation: &Explanation) -> String {
    let rest = explanation.sentence.get(first_sentence(explanation).len()..).unwrap_or_default();
    let figure = explanation.measured.is_some() && explanation.limit.is_none();
    match sentence_of(rest.trim()) {
        second if figure && !second.is_empty() && second.len() <= MAX_SECOND_BYTES => {
            format!(" {second}")
        }
        _ => String::new(),
    }
}

/// The first sentence of what is to be said, with its full stop.
fn first_sentence(explanation: &Explanation) -> &str {
    sentence_of(&explanation.sentence)
}

fn sentence_of(text: &str) -> &str {
    // A full stop ends a sentence where a capital or a figure follows: not within a number or a name.
    let begins = |rest: &str| rest.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit());
    let ends = text.match_indices(". ").find(|(at, _)| text.get(at + 2..).is_some_and(begins));
    ends.map_or(text, |(at, _)| &text[..=at])
}

/// What is to be said behind the first sentence.
pub(super) fn behind_first_sentence(explanation: &Explanation) -> &str {
    let first = first_sentence(explanation);
    explanation.sentence.get(first.len()..).unwrap_or_default().trim()
}

fn busbw(explanation: &Explanation) -> Option<f64> {
    explanation.measured.as_ref()?.busbw
}

/// Measured, limit, percent and bottleneck in one line; none of a source without figures.
fn figures(explanation: &Explanation) -> Option<String> {
    let measured = explanation.measured.as_ref()?;
    let size = measured.size;
    let figure = match (measured.busbw, measured.time_us) {
        (Some(busbw), _) => {
            format!("{} GB/s ({:.0} Gb/s){}", rate(busbw), busbw * 8.0, of_size(size))
        }
        (None, Some(us)) => format!("{} at {}", time(us), bytes(size)),
        (None, None) => return None,
    };
    let mut parts = vec![format!("measured {figure}")];
    match &explanation.limit {
        Some(limit) => {
            let by = limit.choice.brief();
            let mut text = format!("limit {} GB/s {} ({by})", rate(limit.busbw), limit.rate.name());
            if let Some(expects) = limit.nccl_expects {
                text.push_str(&format!(", NCCL expects {}", rate(expects)));
            }
            parts.push(text);
        }
        None if explanation.hypotheses.is_some() => {}
        None => parts.push("limit unknown".to_owned()),
    }
    parts.extend(explanation.percent.map(|value| format!("{} %", percent(value))));
    if explanation.limit.is_some() {
        parts.push(format!("bottleneck: {}", bottleneck(explanation)));
    }
    Some(parts.join("; "))
}

/// A text in lines of the usual width, `most` of them; the last one says that it was cut.
fn lines(out: &mut impl Write, text: &str, most: usize) -> io::Result<()> {
    let mut wrapped: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match wrapped.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= LINE_WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => wrapped.push(format!("    {word}")),
            None => wrapped.push(format!("  {word}")),
        }
    }
    let cut = wrapped.len() > most;
    wrapped.truncate(most);
    if let (true, Some(last)) = (cut, wrapped.last_mut()) {
        last.push_str(" …");
    }
    wrapped.iter().try_for_each(|line| writeln!(out, "{line}"))
}
