//! The first screen of a watched job: how it is, how fast its most costly calls are, and what to do.
//! Not the judgement (`busbw-watch`).

use busbw_core::quantity::rate;
use busbw_watch::{State, View};

use crate::{
    data::{Answer, CallClass, Level, Remedy},
    summary,
};

/// A job's answer; `first` are the calls that took most time.
pub(super) fn answer(
    title: &str,
    view: &View,
    sentence: &str,
    first: Option<&CallClass>,
) -> Answer {
    let (level, word) = match view.state {
        State::Fine => (Level::Good, "Nobody is late"),
        State::Late if !view.stragglers.is_empty() => (Level::Slow, "A rank is late"),
        State::Late if !view.slow_paths.is_empty() => (Level::Slow, "A path is slow"),
        State::Late => (Level::Slow, "A process stood still"),
        State::Hangs => (Level::Bad, "It hangs"),
        State::CannotTell => (Level::Unknown, "Cannot tell who is late"),
    };
    let first = first.filter(|class| class.busbw.is_some());
    let wholes =
        first.map(|class| [(class.limit, "the limit"), (class.earlier, "the run beside it")]);
    let whole = wholes.into_iter().flatten().find_map(|(whole, of)| Some((whole?, of)));
    let percent = whole.and_then(|(whole, _)| Some(first?.busbw? / whole * 100.0));
    Answer {
        level,
        word: word.to_owned(),
        about: title.to_owned(),
        figure: first.and_then(|class| class.busbw.map(rate)),
        unit: first.map(|_| "GB/s".to_owned()),
        at: first.map(|class| format!("median bus bandwidth of {}", class.call)),
        percent,
        whole: whole.map(|(whole, of)| format!("of {of}, {} GB/s", rate(whole))),
        sentence: sentence.to_owned(),
        last: None,
        remedy: Some(remedy(view)),
    }
}

/// What the worst finding says; of a hang, who can tell more.
fn remedy(view: &View) -> Remedy {
    let told = |text: &str, command: Option<&str>| Remedy {
        text: text.to_owned(),
        command: command.map(str::to_owned),
    };
    let worst = view.findings.iter().max_by_key(|finding| finding.severity);
    match (view.state, worst) {
        (State::Fine, _) => told("Nothing: no rank is late beyond the noise.", None),
        (State::CannotTell, _) => told("Name the files of all ranks: those of all hosts.", None),
        (State::Hangs, _) => {
            let text = "Ask which rank does not come: name the folder of these files.";
            told(text, Some("busbw explain FOLDER"))
        }
        (State::Late, Some(finding)) => {
            let text = finding.remedy.as_deref().map(summary::sentence);
            let text = text.unwrap_or_else(|| "Measure the paths by themselves.".to_owned());
            told(&text, finding.confirm.as_deref())
        }
        (State::Late, None) => told("See what stands out, below.", None),
    }
}
