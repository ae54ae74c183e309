//! The first screen of a tuning: what it gains, and what to set.
//! Not the judgement (`busbw-tune`).

use busbw_tune::{Advice, Compared, Report, tuned::Tuned};

use super::{exports, sentence, words};
use crate::data::{Answer, Level, Remedy};

/// A tuning's answer.
pub(crate) fn answer(title: &str, tuned: &Tuned) -> Answer {
    let (level, word, remedy) = match &tuned.outcome {
        None => (Level::Unknown, "Interrupted", go_on()),
        Some(report) => of_report(report),
    };
    let best = tuned.outcome.as_ref().and_then(|report| report.best.as_ref());
    let is_set = tuned.outcome.as_ref().is_some_and(|report| report.advice == Advice::Set);
    let compared = best.filter(|_| is_set).map(|best| best.compared);
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
        remedy: Some(remedy),
        ..Answer::default()
    }
}

fn go_on() -> Remedy {
    let text = "Go on with `busbw tune --resume` and the file that it named.";
    Remedy { text: text.to_owned(), command: None }
}

fn of_report(report: &Report) -> (Level, &'static str, Remedy) {
    let slower: Vec<String> =
        report.calls.iter().filter(|at| at.compared.is_loss()).map(|at| words(&at.call)).collect();
    let (level, word, text) = match report.advice {
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
    };
    (level, word, Remedy { text, command: exports(report) })
}
