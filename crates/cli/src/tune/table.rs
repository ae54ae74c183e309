//! A tuning as text for people: rungs, what is recommended and by how much, sizes, what to set, what failed, what remains.
//! Not what follows from launches, which is data by then (`busbw_tune::Report`).

use std::fmt::Write;

use busbw_core::{
    columns::aligned,
    printable::printable,
    quantity::{bytes, count, time},
};
use busbw_tune::{Advice, Compared, Report, tuned::Tuned};

use super::{forms, progress::set};

/// Findings about the first launch that are printed.
const MAX_FINDINGS: usize = 5;
/// Failures that are printed, and characters of each.
const MAX_FAILURES: usize = 8;
const MAX_FAILURE_CHARS: usize = 120;

/// The whole text.
pub(super) fn table(tuned: &Tuned, colour: bool) -> String {
    let how = if tuned.is_ladder { "the ladder" } else { "a search" };
    let nccl = tuned.nccl.as_ref().map_or(String::new(), |nccl| format!(", NCCL {nccl}"));
    let launches =
        (tuned.history.len() + tuned.history_by_call.len() + tuned.history_with_file.len()) as u64;
    let mut text = format!(
        "# busbw {} tune: {how} with {} on {}{nccl}; {launches} launches in {:.0} s\n",
        tuned.busbw,
        count(tuned.ranks as u64, "rank"),
        tuned.backend,
        tuned.took_s,
    );
    let Some(report) = &tuned.outcome else {
        text.push_str("# interrupted: nothing was compared finally, so nothing is recommended\n");
        return text;
    };
    for part in &tuned.parts {
        for said in &part.said {
            let line = format!("{}: {said}", part.name);
            let _ = writeln!(text, "# {}", printable(&line));
        }
    }
    for finding in tuned.before.iter().take(MAX_FINDINGS) {
        let remedy = finding.remedy.as_ref().map_or(String::new(), |remedy| format!("; {remedy}"));
        let line = format!("before tuning: {}{remedy}", finding.cause.trim_end_matches('.'));
        let _ = writeln!(text, "# {}", printable(&line));
    }
    if tuned.is_ladder {
        text.push_str(&ladder(report, tuned));
    }
    let mut sentence = report.sentence();
    if let Some(first) = sentence.get_mut(0..1) {
        first.make_ascii_uppercase();
    }
    let sentence = printable(&sentence).into_owned();
    let shown = match (colour, report.advice) {
        (true, Advice::Set) => format!("\x1b[32m{sentence}\x1b[0m"),
        (true, Advice::Repair) => format!("\x1b[31m{sentence}\x1b[0m"),
        _ => sentence,
    };
    let _ = writeln!(text, "#\n# {shown}");
    if report.advice == Advice::Set {
        text.push_str(&own_gains(report));
    }
    text.push_str(&calls(report));
    if report.advice == Advice::Set {
        let _ = writeln!(text, "#\n# What to set\n{}", forms::blocks(&report.environment));
    }
    if let Some(by_call) = &tuned.by_call {
        text.push_str(&choices(by_call));
    }
    text.push_str(&with_file(tuned));
    for report in
        [Some(report), tuned.by_call.as_ref(), tuned.with_file.as_ref()].into_iter().flatten()
    {
        text.push_str(&failures(report));
    }
    for line in &tuned.remains {
        let _ = writeln!(text, "# what remains: {}", printable(line));
    }
    text
}

/// The rungs: whether one is kept, what its best step gives, and which that is.
fn ladder(report: &Report, tuned: &Tuned) -> String {
    let mut cells = vec![["rung", "steps", "kept", "gain"].map(str::to_owned).to_vec()];
    let mut behind = vec!["the best step".to_owned()];
    for rung in &report.rungs {
        let best = rung.best();
        // The screening's gain chose the step, and flatters it.
        let gained = rung.compared.as_ref().map_or("-".to_owned(), gain);
        let is_kept = if rung.kept.is_empty() { "no" } else { "yes" };
        let steps = rung.steps.len().to_string();
        cells.push(vec![rung.name.clone(), steps, is_kept.to_owned(), gained]);
        behind.push(best.map_or("every step failed".to_owned(), |step| set(&step.sets)));
    }
    for name in &report.rungs_unreached {
        cells.push([name.as_str(), "-", "waived", "-"].map(str::to_owned).to_vec());
        behind.push("no launches were left for it: --time, --trials".to_owned());
    }
    for left_out in &tuned.rungs_left_out {
        let row = [left_out.name.as_str(), "-", "waived", "-"];
        cells.push(row.map(str::to_owned).to_vec());
        behind.push(left_out.reason.clone());
    }
    let mut text = String::from("#\n");
    for (row, behind) in aligned(&cells).lines().zip(behind) {
        let _ = writeln!(text, "{row}  {}", printable(&behind));
    }
    text
}

/// `+12.1 % (8.0 to 15.3)`.
fn gain(compared: &Compared) -> String {
    format!(
        "{:+.1} % ({:.1} to {:.1})",
        100.0 * compared.gain,
        100.0 * compared.interval.low,
        100.0 * compared.interval.high
    )
}

/// What each variable of the recommendation gives.
fn own_gains(report: &Report) -> String {
    if report.variables.len() < 2 {
        return String::new();
    }
    let mut text = String::from("# of which, by leaving out one at a time:\n");
    for own in &report.variables {
        let shown = match &own.compared {
            None => "not measured".to_owned(),
            Some(compared) if compared.interval.low > 0.0 => gain(compared),
            Some(compared) => {
                format!("{}, no gain of its own is shown: may be left out", gain(compared))
            }
        };
        let _ = writeln!(text, "#   {}: {shown}", printable(&own.variable.to_string()));
    }
    text
}

/// The best environment at each call, losses beside gains.
fn calls(report: &Report) -> String {
    if report.calls.is_empty() {
        return String::new();
    }
    let mut cells =
        vec![["operation", "size", "default", "with it", "gain", ""].map(str::to_owned).to_vec()];
    for at in &report.calls {
        let verdict = match (at.compared.is_gain(), at.compared.is_loss()) {
            (true, _) => "faster",
            (_, true) => "SLOWER",
            _ if at.compared.interval.low > 0.0 => "likely faster",
            _ => "not decided",
        };
        cells.push(vec![
            at.call.operation.clone(),
            bytes(at.call.size),
            time(at.default_s * 1e6),
            time(at.with_it_s * 1e6),
            gain(&at.compared),
            verdict.to_owned(),
        ]);
    }
    let what = match report.advice {
        Advice::Set => "the recommendation",
        _ => "the best that was found, which is not recommended",
    };
    format!("#\n# {what}, by size\n{}", aligned(&cells))
}

/// The best of each call within the environment.
fn choices(report: &Report) -> String {
    let mut cells = vec![["operation", "size", "best", "gain"].map(str::to_owned).to_vec()];
    for choice in &report.choices {
        let gain = choice.compared.as_ref().map_or("-".to_owned(), gain);
        cells.push(vec![
            choice.call.operation.clone(),
            bytes(choice.call.size),
            printable(&set(&choice.environment)).into_owned(),
            gain,
        ]);
    }
    match (report.advice, report.choices.is_empty()) {
        (Advice::Repair | Advice::Undecided, _) => {
            format!("#\n# by size: {}\n", printable(&report.sentence()))
        }
        (_, true) => "#\n# by size: no choice of algorithm or protocol is worth it\n".to_owned(),
        (_, false) => format!("#\n# by size, within that environment\n{}", aligned(&cells)),
    }
}

/// The tuner's file, and what it gives together with the environment.
fn with_file(tuned: &Tuned) -> String {
    let Some(report) = &tuned.with_file else { return String::new() };
    let mut text = calls(report).replacen(
        "# the recommendation, by size",
        "# that environment and a tuner's file of these choices, against the defaults, by size",
        1,
    );
    if tuned.file_settings.is_empty() {
        text.push_str(
            "# together they are not established as faster: the file is not recommended\n",
        );
        return text;
    }
    text.push_str("#\n# To choose by size, beside what is to be set: the file is ");
    let file = tuned.file_settings.iter().find_map(|one| one.value.as_deref()).unwrap_or_default();
    let path = file.split('#').next().unwrap_or_default();
    let _ = writeln!(text, "{}, and holds", printable(path));
    for line in tuned.tuner_file.iter().filter(|line| !line.starts_with('#')) {
        let _ = writeln!(text, "#   {}", printable(line));
    }
    text.push_str("export NCCL_TUNER_PLUGIN=$(busbw plugin path tuner)\n");
    for one in &tuned.file_settings {
        let _ = writeln!(text, "export {}", printable(&one.to_string()));
    }
    text
}

/// What was disqualified, and which values are suspected.
fn failures(report: &Report) -> String {
    let mut text = String::new();
    if report.disqualified.is_empty() {
        return text;
    }
    let many = count(report.disqualified.len() as u64, "launch").replace("launchs", "launches");
    let _ = writeln!(text, "#\n# {many} failed, whose settings are out:");
    for one in report.disqualified.iter().take(MAX_FAILURES) {
        let why: String = one.text.chars().take(MAX_FAILURE_CHARS).collect();
        let sets = set(&one.environment);
        let line = format!("{sets}: {}: {why}", one.failure.word());
        let _ = writeln!(text, "#   {}", printable(&line));
    }
    if let Some(more) = report.disqualified.len().checked_sub(MAX_FAILURES + 1) {
        let _ = writeln!(text, "#   and {} more", more + 1);
    }
    for one in &report.suspected {
        let line = set(&one.values);
        let _ =
            writeln!(text, "#   every launch with {} failed ({})", printable(&line), one.failed);
    }
    text
}
