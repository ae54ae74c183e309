//! Progress of a tuning on stderr: what is tried, how long still, the best so far; a line a launch where stderr is no terminal.
//! Not results.

use std::io::{self, IsTerminal};

use busbw_render::Left;
use busbw_runner::progress_line::{Estimate, ProgressLine};
use busbw_tune::{Assignment, Finished, Search, Trial};

use crate::sweep::say;

/// Progress on stderr.
pub(super) struct Progress {
    line: ProgressLine<Until>,
    is_seen: bool,
    /// What the line calls the search.
    title: &'static str,
}

/// When the search must have ended, in seconds since it began; `None` where launches and not time are its bound.
#[derive(Clone, Copy)]
struct Until(Option<f64>);

impl Estimate for Until {
    fn left(&self, now: f64) -> Option<Left> {
        Some(Left { seconds: (self.0? - now).max(0.0), at_least: false })
    }
}

impl Progress {
    /// For a search that may take `seconds` from now on, where time is its bound.
    pub(super) fn new(title: &'static str, seconds: Option<f64>) -> Progress {
        let line = ProgressLine::new(Until(seconds), title.to_owned());
        Progress { line, is_seen: io::stderr().is_terminal(), title }
    }

    /// A trial begins.
    pub(super) fn begins(&self, trial: &Trial, search: &Search) {
        if !self.is_seen {
            return;
        }
        let best = search.best().filter(|best| !best.environment.is_empty()).map(|best| {
            let (low, high) = (100.0 * best.between.0, 100.0 * best.between.1);
            let gain = 100.0 * best.gain;
            format!(
                "; best so far {gain:+.1} % ({low:.1} to {high:.1}): {}",
                set(&best.environment)
            )
        });
        self.line.message(format!(
            "{}: launch {}: {}{}",
            self.title,
            trial.id + 1,
            set(&trial.environment),
            best.unwrap_or_default()
        ));
    }

    /// A trial has ended.
    pub(super) fn ended(&self, one: &Finished) {
        let what = set(&one.trial.environment);
        let number = one.trial.id + 1;
        match &one.result {
            Err(failed) => {
                let (how, why) = (failed.failure.word(), &failed.text);
                let text = format!("launch {number}: {what}: {how}: {why}");
                self.line.suspend(|| say(&text));
            }
            Ok(_) if self.is_seen => {}
            Ok(_) => say(&format!("launch {number}: {what}, {:.1} s", one.took_s)),
        }
    }

    /// Removes the line.
    pub(super) fn finish(&self) {
        self.line.clear();
    }
}

/// `A=1 B=2`, or `the defaults`.
pub(super) fn set(sets: &[Assignment]) -> String {
    match sets.is_empty() {
        true => "the defaults".to_owned(),
        false => sets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    }
}
