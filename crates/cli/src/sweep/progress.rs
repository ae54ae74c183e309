//! Progress while launches follow each other: a bar on a terminal, one line a launch elsewhere, and
//! every remark of the launches once.
//! Not results.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

use super::{launch::Launch, say};

/// Progress on stderr.
pub(super) struct Progress {
    bar: ProgressBar,
    is_seen: bool,
    all: u64,
    printed: Vec<String>,
}

impl Progress {
    /// For this number of environments, and of launches of each; remarks in `printed` are not printed
    /// again.
    pub(super) fn new(environments: usize, launches: u32, printed: Vec<String>) -> Progress {
        let all = environments as u64 * u64::from(launches);
        let bar = ProgressBar::new(all);
        let style = ProgressStyle::with_template(
            "{spinner} {wide_bar} launch {pos} of {len}, {msg} ({elapsed})",
        );
        let bar = style.map_or(bar.clone(), |style| bar.with_style(style));
        Progress { bar, is_seen: io::stderr().is_terminal(), all, printed }
    }

    /// A launch, counted from 0, has finished.
    pub(super) fn launched(&mut self, environment: &str, launch: u32, over: &Launch) {
        self.bar.inc(1);
        let took = over.took.as_secs_f64();
        let number = launch + 1;
        match &over.failure {
            Some((exit, why)) => {
                self.say(&format!("{environment}, launch {number}: failed (exit {exit}): {why}"));
            }
            None if self.is_seen => {
                self.bar.set_message(format!("{environment} took {took:.1} s"));
            }
            None => say(&format!(
                "launch {} of {}: {environment}, {took:.1} s",
                self.bar.position(),
                self.all
            )),
        }
        let remarks = over.record.iter().flat_map(|record| record.run.remarks.clone());
        for remark in remarks.collect::<Vec<_>>() {
            if !self.printed.contains(&remark) {
                self.say(&remark);
                self.printed.push(remark);
            }
        }
    }

    fn say(&self, text: &str) {
        self.bar.suspend(|| say(text));
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
