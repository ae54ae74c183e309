//! Progress while launches follow each other: a bar on a terminal, one line a launch elsewhere, and
//! every remark of the launches once.
//! Not results.

use std::{
    fmt::Write,
    io::{self, IsTerminal},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use busbw_render::{Left, time_left};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use super::{launch::Launch, say};

/// How often the line is drawn: it goes on within a launch, too.
const DRAW_INTERVAL: Duration = Duration::from_millis(250);

/// Progress on stderr.
pub(super) struct Progress {
    bar: ProgressBar,
    is_seen: bool,
    all: u64,
    launches: Arc<Mutex<Launches>>,
    printed: Vec<String>,
}

/// The launches so far.
#[derive(Clone, Copy)]
struct Launches {
    all: u64,
    done: u64,
    /// When all of them must have ended, in seconds since the first began.
    limit: Option<f64>,
    /// Seconds of those that are done, and when the last one ended.
    took: f64,
    ended: f64,
}

impl Launches {
    /// What is left at `now`: as much a launch as so far, within the limit.
    fn left(&self, now: f64) -> Option<Left> {
        let each = (self.done > 0).then(|| self.took / self.done as f64)?;
        let following = self.all.saturating_sub(self.done + 1) as f64;
        let seconds = (each - (now - self.ended)).max(0.0) + each * following;
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
        let launches = Launches { all, done: 0, limit, took: 0.0, ended: 0.0 };
        let launches = Arc::new(Mutex::new(launches));
        let bar = ProgressBar::new(all);
        if !bar.is_hidden() {
            let (known, began) = (launches.clone(), Instant::now());
            let left = move |_: &ProgressState, to: &mut dyn Write| {
                let now = began.elapsed().as_secs_f64();
                let known = *known.lock().unwrap_or_else(PoisonError::into_inner);
                // A line that cannot be drawn is drawn the next time.
                let _ = to.write_str(&time_left(now, known.left(now)));
            };
            let style = ProgressStyle::with_template("{spinner} {left}{wide_msg}");
            bar.set_style(style.map_or_else(
                |_| ProgressStyle::default_spinner(),
                |style| style.with_key("left", left),
            ));
            bar.set_message(format!("launch 1 of {all}"));
            bar.enable_steady_tick(DRAW_INTERVAL);
        }
        Progress { bar, is_seen: io::stderr().is_terminal(), all, launches, printed }
    }

    /// A launch, counted from 0, has finished.
    pub(super) fn launched(&mut self, environment: &str, launch: u32, over: &Launch) {
        self.bar.inc(1);
        let took = over.took.as_secs_f64();
        {
            let mut launches = self.launches.lock().unwrap_or_else(PoisonError::into_inner);
            launches.done += 1;
            launches.took += took;
            launches.ended += took;
        }
        let number = launch + 1;
        match &over.failure {
            Some((exit, why)) => {
                self.say(&format!("{environment}, launch {number}: failed (exit {exit}): {why}"));
            }
            None if self.is_seen => {
                let next = (self.bar.position() + 1).min(self.all);
                let all = self.all;
                self.bar.set_message(format!(
                    "launch {next} of {all} ({environment} took {took:.1} s)"
                ));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_take_alike_and_end_in_time() {
        let launches = |limit| Launches { all: 6, done: 2, limit, took: 20.0, ended: 20.0 };
        let seconds = |limit, now| launches(limit).left(now).map(|left| left.seconds);
        assert_eq!(seconds(None, 24.0), Some(36.0));
        // The third takes longer than the others did.
        assert_eq!(seconds(None, 34.0), Some(30.0));
        assert_eq!(seconds(Some(40.0), 24.0), Some(16.0));
        assert_eq!(Launches { done: 0, ..launches(None) }.left(3.0), None);
    }
}
