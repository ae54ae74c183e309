//! The first lines of a report: test, hardware, and the verdict in a sentence.
//! Not the sentence about one run (`busbw-analysis`).

use std::collections::BTreeSet;

use busbw_core::pairs::Pairs;
use busbw_logs::measurement::Measurement;
use busbw_tune::tuned::Tuned;
use busbw_watch::Job;

use super::data::{Report, Run};
use busbw_analysis::check::CheckReport;
use busbw_analysis::explain::Explanation;
use busbw_analysis::sweep::Outcome;
use busbw_core::quantity::{bytes, count, list, rate, time};

/// Maximum of test names in a title.
const MAX_NAMES: usize = 4;

/// What a report is of, beside runs.
pub(super) struct Measured<'a> {
    pub(super) sweeps: &'a [Outcome],
    pub(super) tunings: &'a [Tuned],
    pub(super) pairs: &'a [Pairs],
    pub(super) checks: &'a [CheckReport],
    pub(super) jobs: &'a [Job],
}

/// What was measured.
pub(super) fn title(runs: &[Measurement], others: &Measured<'_>) -> String {
    let Measured { sweeps, tunings, pairs, checks, jobs } = others;
    let mut names: Vec<String> = runs.iter().map(|run| run.test_name().to_owned()).collect();
    names.extend(sweeps.iter().map(|sweep| format!("{} of {}", sweep.command, sweep.program)));
    names.extend(tunings.iter().map(|one| format!("tuning of {}", operations(one))));
    if !pairs.is_empty() {
        names.push("pairs".to_owned());
    }
    names.extend(checks.iter().map(|one| format!("check of {}", hosts(one.hosts.len()))));
    names.extend(jobs.iter().map(|one| format!("collectives of {}", job_name(one))));
    let all = names.len();
    let names = distinct(names.into_iter());
    let what = if names.len() > MAX_NAMES {
        format!("{} and {} more", names[..MAX_NAMES].join(", "), names.len() - MAX_NAMES)
    } else {
        list(&names, "and")
    };
    match all {
        0 | 1 => what,
        all => format!("{what} ({})", count(all as u64, "measurement")),
    }
}

/// On what: one run's own words; of several, what they have in common, and what not.
pub(super) fn subject(runs: &[Measurement], told: &[Explanation], others: &Measured<'_>) -> String {
    let Measured { sweeps, tunings, pairs, checks, jobs } = others;
    let mut subjects: Vec<String> = told.iter().map(|told| told.subject.clone()).collect();
    subjects.extend(sweeps.iter().map(|sweep| format!("{}, {}", sweep.program, sweep.on)));
    subjects.extend(tunings.iter().map(of_tuning));
    subjects.extend(pairs.iter().map(|pairs| {
        let what = pairs.what.as_deref().unwrap_or("pairs");
        format!("{what}, {}, {}", count(pairs.labels.len() as u64, "rank"), bytes(pairs.size))
    }));
    subjects.extend(checks.iter().map(of_check));
    subjects.extend(jobs.iter().map(of_job));
    subjects.dedup();
    if let [only] = subjects.as_slice() {
        return only.clone();
    }
    let devices = runs.iter().filter_map(|run| Some(run.devices.first()?.name.clone()));
    let ranks = runs.iter().filter_map(|run| Some(count(run.rank_count()? as u64, "rank")));
    let nccl = runs.iter().filter_map(|run| Some(format!("NCCL {}", run.nccl.as_ref()?)));
    let on = sweeps.iter().map(|sweep| sweep.on.clone());
    let on = on.chain(tunings.iter().map(of_tuning)).chain(jobs.iter().map(of_job));
    let on = on.chain(checks.iter().map(of_check));
    let mut parts: Vec<String> = Vec::new();
    for part in [distinct(ranks), distinct(devices), distinct(nccl), distinct(on)] {
        if !part.is_empty() {
            parts.push(part.join(" / "));
        }
    }
    if parts.is_empty() { "The sources do not say on what.".to_owned() } else { parts.join(", ") }
}

/// What a tuning launched, and on what.
pub(super) fn of_tuning(tuned: &Tuned) -> String {
    let mut parts = vec![operations(tuned), count(tuned.ranks as u64, "rank")];
    parts.push(format!("the {} backend", tuned.backend));
    parts.extend(tuned.nccl.as_ref().map(|nccl| format!("NCCL {nccl}")));
    parts.join(", ")
}

/// What a check looked at.
pub(super) fn of_check(report: &CheckReport) -> String {
    let hosts = match report.hosts.len() {
        0 => "no host answered".to_owned(),
        some => hosts(some),
    };
    match report.ranks {
        Some(ranks) => format!("{hosts}, {}", count(ranks as u64, "rank")),
        None => hosts,
    }
}

/// What a job is called, and where it runs.
pub(super) fn of_job(job: &Job) -> String {
    let names = job.peers.iter().map(|one| one.process.host.as_str());
    let on = names.collect::<BTreeSet<_>>().len();
    let processes = match job.peers.len() {
        1 => "1 process".to_owned(),
        some => format!("{some} processes"),
    };
    format!("{}, {processes} on {}", job_name(job), hosts(on))
}

fn job_name(job: &Job) -> String {
    job.name.as_ref().map_or_else(|| "a job".to_owned(), |name| format!("job {name}"))
}

fn hosts(number: usize) -> String {
    count(number as u64, "host")
}

/// The operations of a tuning that ran, as a list.
fn operations(tuned: &Tuned) -> String {
    let times = tuned.history.iter().flat_map(|launch| &launch.times);
    let names = distinct(times.map(|time| time.call.operation.clone()));
    if names.is_empty() { "nothing that ran".to_owned() } else { list(&names, "and") }
}

fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for value in values.filter(|value| !value.is_empty()) {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// Words as a sentence. A name keeps its small letters.
pub(super) fn sentence(words: &str) -> String {
    let first = words.split(' ').next().unwrap_or_default();
    let is_word = first.chars().all(|c| c.is_ascii_lowercase()) && first != "busbw";
    let mut chars = words.chars();
    let begun = match (is_word, chars.next()) {
        (true, Some(letter)) => letter.to_ascii_uppercase().to_string() + chars.as_str(),
        _ => words.to_owned(),
    };
    if begun.ends_with(['.', '!', '?']) { begun } else { begun + "." }
}

/// The verdict.
pub(super) fn verdict(report: &Report) -> Vec<String> {
    let mut said = Vec::new();
    match report.runs.as_slice() {
        [] => {}
        [only] => said.push(only.sentence.clone()),
        runs => said.push(of_several(runs).join(" ")),
    }
    for sweep in &report.sweeps {
        said.push(match &sweep.sentence {
            Some(sentence) => format!("{}: {sentence}.", sweep.title),
            None => format!("{}: there is nothing to compare.", sweep.title),
        });
    }
    let tunings = report.tunings.iter();
    said.extend(tunings.map(|one| format!("{}: {}", one.title, one.sentence)));
    said.extend(report.pairs.iter().map(|one| of_pairs(&one.pairs)));
    said.extend(report.checks.iter().map(|one| format!("{}: {}", one.title, one.sentence)));
    said.extend(report.jobs.iter().map(|one| format!("{}: {}", one.title, one.sentence)));
    said
}

fn of_several(runs: &[Run]) -> Vec<String> {
    let mut said = Vec::new();
    let wrong = runs.iter().filter(|run| run.wrong.is_some_and(|wrong| wrong > 0)).count();
    let checked = runs.iter().filter(|run| run.wrong.is_some()).count();
    let all = runs.len();
    said.push(match (wrong, checked) {
        (0, 0) => "No run says whether its results were right.".to_owned(),
        (0, checked) if checked == all => format!("{all} runs, all results right."),
        (0, checked) => format!("{all} runs; of {checked} results were checked and right."),
        (wrong, _) => format!("{wrong} of {all} runs have WRONG results."),
    });
    let failed = runs.iter().filter(|run| run.complete == Some(false)).count();
    if failed > 0 {
        said.push(format!("{failed} of {all} did not complete."));
    }
    let mut known: Vec<(&Run, f64)> =
        runs.iter().filter_map(|run| Some((run, run.percent?))).collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    match known.as_slice() {
        [] => said.push("What the hardware allows is not known for any of them.".to_owned()),
        [(run, percent)] => {
            said.push(format!("{} reaches {percent:.1} % of its limit.", run.name));
        }
        [(worst, low), .., (best, high)] => said.push(format!(
            "Of what the hardware allows, the runs reach {low:.1} % ({}) to {high:.1} % ({}).",
            worst.name, best.name
        )),
    }
    let limitless = all - known.len();
    if limitless > 0 && !known.is_empty() {
        said.push(format!("For {limitless} the limit is not known."));
    }
    said
}

/// The slowest, the middle and the fastest pair.
pub(super) fn of_pairs(pairs: &Pairs) -> String {
    let worst_first = pairs.worst_first();
    let (Some(worst), Some(best)) = (worst_first.first(), worst_first.last()) else {
        return "No pair has a figure.".to_owned();
    };
    let figure = |value: f64| match pairs.unit.more_is_better() {
        true => format!("{} GB/s", rate(value)),
        false => time(value),
    };
    let middle = worst_first.get(worst_first.len() / 2).unwrap_or(best);
    format!(
        "Of {} pairs the slowest is {} to {} with {}; half reach {}, the fastest {}.",
        worst_first.len(),
        pairs.label(worst.from),
        pairs.label(worst.to),
        figure(worst.value),
        figure(middle.value),
        figure(best.value),
    )
}
