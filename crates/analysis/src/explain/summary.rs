//! The line that ends a run: the speed at its largest size, the share of the limit or what is missing to tell it, the
//! most important finding, and the next command.
//! Not a judgement of its own: it is made of an explanation.

use busbw_core::{
    Benchmark,
    finding::{Finding, Severity},
    quantity::{bytes, percent, rate, time},
    record::{Folded, Status},
};
use busbw_logs::measurement::{Figure, Measurement, Row};

use super::{
    Explanation, Hardware, Verdict, brief,
    context::{LATENCY_FLOOR_BYTES, row_mean, row_speed},
    explained, rules,
    sentence::capital,
};

/// The most characters of a finding.
const MAX_FINDING_CHARS: usize = 160;

/// The line of a run that has just ended. `name` is what other commands find its record by; none where none is kept.
pub fn summary(record: Folded, name: Option<&str>) -> String {
    let end = record.end.clone();
    let status = end.as_ref().map_or(Status::Complete, |end| end.status);
    let run = Measurement::from_record(record, name.unwrap_or_default());
    let (runs, explanations) = explained(vec![run], &Hardware::default());
    let shown = shown(&runs);
    let (Some(run), Some(explanation)) = (runs.get(shown), explanations.get(shown)) else {
        return "no size was measured".to_owned();
    };
    // Also of a run that failed behind it.
    let error = |finding: &&Finding| finding.severity == Severity::Error && !is_failure(finding);
    let mut errors = explanation.findings.iter().filter(error);
    let data = errors.clone().find(|finding| finding.rule == rules::WRONG_DATA);
    let wrong = data.or_else(|| errors.next());
    let missed = end.is_some_and(|end| end.min_bandwidth_held == Some(false));
    let finding = finding(explanation);
    let cause = finding.filter(|_| wrong.is_none());
    // In place a single rank copies nothing: no figure of it is a speed.
    let is_alone = run.rank_count() == Some(1) && run.collective().is_some();
    let figure = if is_alone { String::new() } else { speed(run, explanation) };
    let mut parts: Vec<String> = [
        wrong.map(|finding| capital(&shortened(&finding.cause)).trim_end_matches('.').to_owned()),
        missed.then(|| "the average misses NCCL_TESTS_MIN_BW".to_owned()),
        Some(
            [ended(status), &figure]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join(", "),
        )
        .filter(|text| !text.is_empty()),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !run.rows.is_empty() && !is_alone {
        parts.push(share(run, explanation, cause));
    }
    parts.extend(cause.map(|finding| shortened(&finding.cause)));
    parts.push(next(explanation, finding, name));
    parts.join("; ")
}

/// Which run the line is about: the first, of variants one with wrong data, else the one that is fastest at its largest
/// size.
fn shown(runs: &[Measurement]) -> usize {
    if runs.iter().any(|run| run.variant().is_none()) {
        return 0;
    }
    let is_wrong = |run: &Measurement| run.out_of_bounds.is_some_and(|count| count > 0);
    let time = |run: &Measurement| {
        let row = run.rows.iter().max_by_key(|row| row.size)?;
        row_mean(run, row, |half| half.time_us)
    };
    let timed = runs.iter().enumerate().filter_map(|(at, run)| Some((at, time(run)?)));
    let fastest = timed.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(at, _)| at);
    runs.iter().position(is_wrong).or(fastest).unwrap_or(0)
}

fn ended(status: Status) -> &'static str {
    match status {
        Status::Complete => "",
        Status::Interrupted => "interrupted",
        Status::ReaderGone => "stopped since nobody reads stdout",
        Status::Failed => "failed",
    }
}

/// The figure of the largest size, and the one that is held against the limit, where that is another.
fn speed(run: &Measurement, explanation: &Explanation) -> String {
    let Some(row) = run.rows.iter().max_by_key(|row| row.size) else {
        return "no size was measured".to_owned();
    };
    let us = row_mean(run, row, |half| half.time_us).map(time);
    let gigabytes = match run.test.figure {
        Figure::Latency => None,
        _ => row_speed(run, row),
    };
    if is_replay(run) {
        return us.map_or_else(|| "no figure".to_owned(), |us| format!("{us} for the sequence"));
    }
    let Some(value) = gigabytes.filter(|value| *value > 0.0) else {
        return us.map_or_else(|| "no figure".to_owned(), |us| at(&us, row));
    };
    let judged = explanation.measured.as_ref().filter(|one| one.size != row.size);
    let best = judged.and_then(|one| Some((one.busbw?, one.size)));
    let best = best.map_or(String::new(), |(busbw, size)| {
        format!(" ({} at {}, the best of the large sizes)", rate(busbw), bytes(size))
    });
    // The time of an operation that moves next to nothing says more than its bandwidth.
    let us = us.filter(|_| row.size <= LATENCY_FLOOR_BYTES);
    let us = us.map_or(String::new(), |us| format!(", {us}"));
    let variant = run.variant().map_or(String::new(), |variant| format!("{variant}: "));
    format!("{variant}{}{best}", at(&format!("{} GB/s{us}", rate(value)), row))
}

fn at(figure: &str, row: &Row) -> String {
    format!("{figure} at {}", bytes(row.size))
}

/// Percent of the limit, or what is missing to tell.
fn share(run: &Measurement, explanation: &Explanation, cause: Option<&Finding>) -> String {
    // That more bytes would be faster is what is missing.
    let said = cause.is_some_and(|finding| finding.rule == "not-there-yet");
    match (explanation.percent, explanation.missing.first()) {
        (Some(share), _) => format!("{} % of the limit", percent(share)),
        _ if is_replay(run) => "a sequence of calls has no limit here".to_owned(),
        _ if run.test.figure == Figure::Latency => "a latency has no limit here".to_owned(),
        (None, Some(missing)) if !said => {
            let missing = missing.split(", which ").next().unwrap_or(missing);
            format!("limit unknown, missing: {missing}")
        }
        _ => "limit unknown".to_owned(),
    }
}

fn is_replay(run: &Measurement) -> bool {
    run.test.name.as_deref() == Some(Benchmark::Replay.name())
}

fn is_failure(finding: &Finding) -> bool {
    finding.rule == "failure"
}

/// What costs most; of a run that did not complete its message has been printed.
fn finding(explanation: &Explanation) -> Option<&Finding> {
    // A sentence of its own says what was set up.
    let told = |finding: &&Finding| !is_failure(finding) && finding.rule != rules::SET_UP;
    let worst = || explanation.findings.iter().filter(told);
    let costs = worst().find(|finding| finding.severity > Severity::Note);
    costs.or_else(|| brief::main_findings(explanation).into_iter().find(told))
}

/// The command to run next: a finding's own, where it is one, else the explanation.
fn next(explanation: &Explanation, finding: Option<&Finding>, name: Option<&str>) -> String {
    let failed = matches!(explanation.verdict, Verdict::Failed | Verdict::Hanging);
    let own = finding.filter(|_| !failed).and_then(|finding| finding.confirm.as_deref());
    let own = own.filter(|words| words.starts_with("busbw ") && !words.contains([';', '…', ',']));
    match (own, name) {
        (Some(own), _) => format!("next: {own}"),
        (None, Some(name)) => format!("next: busbw explain {name}"),
        (None, None) => "next: the same with a record, then busbw explain".to_owned(),
    }
}

/// A cause, without its reasons where it is long.
fn shortened(cause: &str) -> String {
    let short = match cause.split_once(": ") {
        Some((what, _)) if cause.chars().count() > MAX_FINDING_CHARS => what,
        _ => cause,
    };
    match short.char_indices().nth(MAX_FINDING_CHARS) {
        Some((end, _)) => format!("{} …", &short[..end]),
        None => short.trim_end_matches('.').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_cause_loses_its_reasons_only() {
        assert_eq!(shortened("one: two."), "one: two");
        assert_eq!(shortened(&format!("what: {}", "why ".repeat(50))), "what");
        let endless = "ä".repeat(400);
        assert_eq!(shortened(&endless).chars().count(), MAX_FINDING_CHARS + 2);
    }
}
