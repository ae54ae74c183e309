//! Progress while launches follow each other: a bar on a terminal, one line a launch elsewhere, and
//! every remark of the launches once.
//! Not results.

use std::io::{self, IsTerminal};

use busbw_render::Left;
use busbw_runner::progress_line::{Estimate, ProgressLine};

use super::{launch::Launch, say};

/// Progress on stderr.
pub(super) struct Progress {
    line: ProgressLine<Launches>,
    is_seen: bool,
    printed: Vec<String>,
}

/// The launches so far.
#[derive(Clone, Copy)]
struct Launches {
    all: u64,
    done: u64,
    /// When all of them must have ended, in seconds since the first began.
    limit: Option<f64>,
    /// Seconds of those that are done, which follow each other.
    took: f64,
}

impl Estimate for Launches {
    /// As much a launch as so far, within the limit.
    fn left(&self, now: f64) -> Option<Left> {
        let each = (self.done > 0).then(|| self.took / self.done as f64)?;
        let following = self.all.saturating_sub(self.done + 1) as f64;
        let seconds = (each - (now - self.took)).max(0.0) + each * following;
        let until = self.limit.map_or(f64::INFINITY, |limit| (limit - now).max(0.0));
        Some(Left { seconds: seconds.min(until), at_least: false })
    }
}

impl Progress {
    /// For this number of environments, and of launches of each, which must have ended after `limit` seconds; remarks in
    /// `printed` are not printed again.
    pub(super) fn new(
        environments: usize,
        launches: u32,
        limit: Option<f64>,
        printed: Vec<String>,
    ) -> Progress {
        let all = environments as u64 * u64::from(launches);
        let launches = Launches { all, done: 0, limit, took: 0.0 };
        let line = ProgressLine::new(launches, format!("launch 1 of {all}"));
        Progress { line, is_seen: io::stderr().is_terminal(), printed }
    }

    /// A launch, counted from 0, has finished.
    pub(super) fn launched(&mut self, environment: &str, launch: u32, over: &Launch) {
        let took = over.took.as_secs_f64();
        let Launches { all, done, .. } = self.line.tell(|launches, _| {
            launches.done += 1;
            launches.took += took;
            *launches
        });
        let number = launch + 1;
        match &over.failure {
            Some((exit, why)) => {
                self.say(&format!("{environment}, launch {number}: failed (exit {exit}): {why}"));
            }
            None if self.is_seen => {
                let next = (done + 1).min(all);
                let message = format!("launch {next} of {all} ({environment} took {took:.1} s)");
                self.line.message(message);
            }
            None => say(&format!("launch {done} of {all}: {environment}, {took:.1} s")),
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
        self.line.suspend(|| say(text));
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_take_alike_and_end_in_time() {
        let launches = |limit| Launches { all: 6, done: 2, limit, took: 20.0 };
        let seconds = |limit, now| launches(limit).left(now).map(|left| left.seconds);
        assert_eq!(seconds(None, 24.0), Some(36.0));
        // The third takes longer than the others did.
        assert_eq!(seconds(None, 34.0), Some(30.0));
        assert_eq!(seconds(Some(40.0), 24.0), Some(16.0));
        assert_eq!(Launches { done: 0, ..launches(None) }.left(3.0), None);
    }
}
