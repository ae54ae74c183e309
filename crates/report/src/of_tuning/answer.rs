//! The first screen of a tuning: what it gains, and what to set.
//! Not the judgement (`busbw-tune`).

use busbw_tune::{Advice, Compared, Report, tuned::Tuned};

use super::{exports, file_exports, sentence, words};
use crate::data::{Answer, Level, Remedy};

/// A tuning's answer: of the environment, or of it and a tuner's file where these are recommended together.
pub(crate) fn answer(title: &str, tuned: &Tuned) -> Answer {
    let file = file_exports(tuned);
    let report = tuned.with_file.as_ref().filter(|_| file.is_some()).or(tuned.outcome.as_ref());
    let (level, word, text) = report.map_or_else(under_way, judged);
    let environment = tuned.outcome.as_ref().and_then(|report| exports(&report.environment));
    let commands: Vec<String> = environment.into_iter().chain(file).collect();
    let set = report.filter(|report| report.advice == Advice::Set);
    let compared = set.and_then(|report| report.best.as_ref()).map(|best| best.compared);
    let over = |one: Compared| {
        let (low, high) = (100.0 * one.interval.low, 100.0 * one.interval.high);
        format!("gain over the defaults, 95 % interval {low:.1} to {high:.1} %")
    };
    Answer {
        level,
        word: word.to_owned(),
        about: title.to_owned(),
        figure: compared.map(|one| format!("{:+.1}", 100.0 * one.gain)),
        unit: compared.map(|_| "%".to_owned()),
        at: compared.map(over),
        sentence: sentence(tuned),
        remedy: Some(Remedy { text, command: (!commands.is_empty()).then(|| commands.join("\n")) }),
        ..Answer::default()
    }
}

fn under_way() -> (Level, &'static str, String) {
    let text = "Go on with `busbw tune --resume` and the file that it named.";
    (Level::Unknown, "Interrupted", text.to_owned())
}

/// Level, verdict and what to do.
fn judged(report: &Report) -> (Level, &'static str, String) {
    let slower: Vec<String> =
        report.calls.iter().filter(|at| at.compared.is_loss()).map(|at| words(&at.call)).collect();
    match report.advice {
        Advice::Set if slower.is_empty() => {
            (Level::Good, "Faster settings found", "Set it for your jobs.".to_owned())
        }
        Advice::Set => (
            Level::Slow,
            "Faster, but not at all sizes",
            format!("Set it for jobs that do not depend on {}: slower there.", slower.join(", ")),
        ),
        Advice::Leave => (
            Level::Good,
            "Leave the defaults",
            "Nothing: no setting that was tried is worth it.".to_owned(),
        ),
        Advice::Undecided => (
            Level::Unknown,
            "Not compared",
            "Allow more launches: a longer --time, or more --trials.".to_owned(),
        ),
        Advice::Repair => (
            Level::Bad,
            "The defaults fail",
            match report.disqualified.first() {
                Some(one) => format!("Repair this first: {}: {}.", one.failure.word(), one.text),
                None => "Repair the launch with the defaults first.".to_owned(),
            },
        ),
    }
}
