//! Converts the result of a tuning into the data of the page.
//! Not what is recommended (`busbw-tune`), and not its first screen (`answer`).

mod answer;

use busbw_core::{
    finding::Finding,
    quantity::{bytes, count},
    shell::{line, quoted},
};
use busbw_stats::median;
use busbw_tune::{
    Advice, Assignment, Call, Climbed, Compared, Disqualified, Purpose, Report,
    tuned::{Tuned, TunedLaunch},
};

use crate::{
    data::{
        Choice, Fact, Failed, Gain, Launch, LaunchKind, Rung, Side, SideKind, TunerFile, Tuning,
    },
    summary,
};

pub(super) use answer::answer;

/// The title of each tuning, with a number where there are several.
pub(super) fn titles(tunings: &[Tuned]) -> Vec<String> {
    let title = |number: usize| match tunings.len() {
        1 => "Tuning".to_owned(),
        _ => format!("Tuning {}", number + 1),
    };
    (0..tunings.len()).map(title).collect()
}

/// The data of a tuning.
pub(super) fn tuning(title: &str, tuned: &Tuned) -> Tuning {
    let how = if tuned.is_ladder { "the ladder" } else { "a search" };
    let histories = [&tuned.history, &tuned.history_by_call, &tuned.history_with_file];
    let launches = match histories.map(Vec::len).into_iter().sum::<usize>() {
        1 => "1 launch".to_owned(),
        many => format!("{many} launches"),
    };
    let outcome = tuned.outcome.as_ref();
    let reports = [
        (outcome, ""),
        (tuned.by_call.as_ref(), ", by call"),
        (tuned.with_file.as_ref(), ", with the tuner's file"),
    ];
    let reports = || reports.iter().filter_map(|(report, of)| Some(((*report)?, *of)));
    let suspected = reports().flat_map(|(report, _)| &report.suspected).map(|one| {
        let times = count(one.failed as u64, "time");
        format!("Every launch with {} failed ({times}).", set(&one.values))
    });
    let left_out = tuned.variables_left_out.iter();
    Tuning {
        title: title.to_owned(),
        subject: format!(
            "{}: {how}, {launches} in {:.0} s, begun {}",
            summary::of_tuning(tuned),
            tuned.took_s,
            tuned.started
        ),
        sentence: sentence(tuned),
        set: outcome.and_then(|report| exports(&report.environment)),
        before: tuned.before.iter().cloned().map(begun).collect(),
        launches: self::launches(&tuned.history),
        sides: outcome.map(|report| sides(report, whole(report))).unwrap_or_default(),
        rungs: rungs(tuned),
        choices: tuned.by_call.iter().flat_map(|report| &report.choices).map(choice).collect(),
        file: tuned.with_file.as_ref().map(|report| TunerFile {
            lines: tuned.tuner_file.clone(),
            set: file_exports(tuned),
            sides: sides(report, "the environment and the file"),
        }),
        failures: reports()
            .flat_map(|(report, of)| report.disqualified.iter().map(move |one| failed(one, of)))
            .collect(),
        suspected: suspected.collect(),
        left_out: left_out
            .map(|one| Fact { name: one.name.clone(), value: one.reason.clone() })
            .collect(),
        remains: tuned.remains.iter().map(|one| summary::sentence(one)).collect(),
        invocation: line(std::iter::once("busbw").chain(tuned.args.iter().map(String::as_str))),
    }
}

/// What follows, in a sentence.
fn sentence(tuned: &Tuned) -> String {
    summary::sentence(&tuned.outcome.as_ref().map_or_else(
        || "interrupted: nothing was compared finally, so nothing is recommended".to_owned(),
        Report::sentence,
    ))
}

/// A finding whose cause and remedy are sentences.
fn begun(mut finding: Finding) -> Finding {
    finding.cause = summary::sentence(&finding.cause);
    finding.remedy = finding.remedy.map(|remedy| summary::sentence(&remedy));
    finding
}

/// `A=1 B=2`, or `the defaults`.
fn set(sets: &[Assignment]) -> String {
    match sets.is_empty() {
        true => "the defaults".to_owned(),
        false => sets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    }
}

/// Lines for a shell that set these, and a comment for an option of the command; none of none.
fn exports(sets: &[Assignment]) -> Option<String> {
    let lines = sets.iter().map(|one| match &one.value {
        Some(value) if one.is_option() => {
            format!("# an option of busbw's command: {} {}", one.name, quoted(value))
        }
        Some(value) => format!("export {}={}", one.name, quoted(value)),
        None => format!("unset {}", one.name),
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Lines for a shell so that NCCL chooses by the tuner's file, where that is recommended.
fn file_exports(tuned: &Tuned) -> Option<String> {
    let file = exports(&tuned.file_settings)?;
    Some(format!("export NCCL_TUNER_PLUGIN=$(busbw plugin path tuner)\n{file}"))
}

/// Every launch with its gain over the median of those with the defaults.
fn launches(history: &[TunedLaunch]) -> Vec<Launch> {
    let defaults = history.iter().filter(|one| one.environment.is_empty());
    let baseline = median(&defaults.filter_map(log_time).collect::<Vec<_>>());
    let of = |one: &TunedLaunch| Launch {
        number: one.number.saturating_add(1),
        kind: match one.purpose {
            Purpose::Baseline => LaunchKind::Baseline,
            Purpose::Explore => LaunchKind::Explored,
            Purpose::Race => LaunchKind::Race,
            Purpose::Rung(_) => LaunchKind::Rung,
            Purpose::Final(_) => LaunchKind::Final,
        },
        sets: set(&one.environment),
        gain: baseline
            .zip(log_time(one))
            .map(|(baseline, log)| (baseline - log).exp_m1())
            .filter(|gain| gain.is_finite()),
        failed: one.failed.as_ref().map(|one| format!("{}: {}", one.failure.word(), one.text)),
    };
    history.iter().map(of).collect()
}

/// The logarithm of the geometric mean of a launch's times, as the search weighs them.
fn log_time(launch: &TunedLaunch) -> Option<f64> {
    let logs = launch.times.iter().map(|time| time.seconds.ln()).sum::<f64>();
    let log = logs / launch.times.len() as f64;
    log.is_finite().then_some(log)
}

fn gain(compared: &Compared) -> Gain {
    let interval = [compared.interval.low, compared.interval.high];
    Gain { gain: compared.gain, interval: Some(interval) }
}

/// What a report's final comparison holds against the defaults.
fn whole(report: &Report) -> &'static str {
    match report.advice {
        Advice::Set => "the recommendation",
        _ => "the best that was found, not recommended",
    }
}

/// The final comparison, line by line.
fn sides(report: &Report, whole: &str) -> Vec<Side> {
    let side = |kind, name: String, compared: Option<&Compared>| Side {
        kind,
        name,
        default_us: None,
        with_it_us: None,
        gain: compared.map(gain),
        status: status(kind, compared).to_owned(),
    };
    let best = report.best.iter();
    let mut all: Vec<Side> =
        best.map(|best| side(SideKind::Whole, whole.to_owned(), Some(&best.compared))).collect();
    // The gain of a single variable is that of the whole.
    if report.variables.len() > 1 {
        all.extend(
            report.variables.iter().map(|own| {
                side(SideKind::Variable, own.variable.to_string(), own.compared.as_ref())
            }),
        );
    }
    all.extend(report.calls.iter().map(|at| Side {
        default_us: Some(at.default_s * 1e6),
        with_it_us: Some(at.with_it_s * 1e6),
        ..side(SideKind::Call, words(&at.call), Some(&at.compared))
    }));
    all
}

fn status(kind: SideKind, compared: Option<&Compared>) -> &'static str {
    match (compared, kind) {
        (None, _) => "not measured",
        (Some(one), _) if one.is_loss() => "slower",
        // Four launches a side cannot pass the rank test.
        (Some(one), SideKind::Variable) if one.interval.low > 0.0 => "faster",
        (Some(one), SideKind::Whole | SideKind::Call) if one.is_gain() => "faster",
        _ => "not decided",
    }
}

fn words(call: &Call) -> String {
    format!("{} {}", call.operation, bytes(call.size))
}

/// Rungs that were tried, then those that were not.
fn rungs(tuned: &Tuned) -> Vec<Rung> {
    let waived = |name: &str, reason: &str| Rung {
        name: name.to_owned(),
        steps: 0,
        kept: "waived".to_owned(),
        gain: None,
        best: reason.to_owned(),
    };
    let outcome = tuned.outcome.iter();
    let unreached = outcome.clone().flat_map(|report| &report.rungs_unreached);
    let unreached = unreached.map(|name| waived(name, "no launches were left: --time, --trials"));
    let left_out = tuned.rungs_left_out.iter().map(|one| waived(&one.name, &one.reason));
    let tried = outcome.flat_map(|report| &report.rungs).map(rung);
    tried.chain(unreached).chain(left_out).collect()
}

fn rung(climbed: &Climbed) -> Rung {
    let best = climbed.best();
    let screened = best.and_then(|step| step.gain).map(|gain| Gain { gain, interval: None });
    Rung {
        name: climbed.name.clone(),
        steps: climbed.steps.len(),
        kept: if climbed.kept.is_empty() { "no" } else { "yes" }.to_owned(),
        gain: climbed.compared.as_ref().map(gain).or(screened),
        best: best.map_or_else(|| "every step failed".to_owned(), |step| set(&step.sets)),
    }
}

fn choice(choice: &busbw_tune::Choice) -> Choice {
    Choice {
        call: words(&choice.call),
        sets: set(&choice.environment),
        gain: choice.compared.as_ref().map(gain),
    }
}

fn failed(one: &Disqualified, of: &str) -> Failed {
    Failed {
        launch: format!("{}{of}", one.trial.saturating_add(1)),
        sets: set(&one.environment),
        how: one.failure.word().to_owned(),
        text: one.text.clone(),
    }
}

#[cfg(test)]
mod tests;
