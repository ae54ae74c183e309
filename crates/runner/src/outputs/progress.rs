//! The progress line on a terminal: the share of time that has passed, the time left, the row under way.
//! Not rows, and not the estimate (`remaining`).

use std::{
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use busbw_core::{Benchmark, plan::Plan, quantity};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use super::remaining::Remaining;
use busbw_render as render;

/// How often the line is drawn: it goes on within a row, too.
const DRAW_INTERVAL: Duration = Duration::from_millis(250);

/// The line; nothing unless stderr is a terminal.
pub(super) struct Progress {
    bar: ProgressBar,
    began: Instant,
    remaining: Arc<Mutex<Remaining>>,
    launches: u32,
    pairs: bool,
}

impl Progress {
    /// For a run that begins now.
    pub(super) fn new(plan: &Plan) -> Progress {
        let remaining = Arc::new(Mutex::new(Remaining::of(plan)));
        let began = Instant::now();
        let bar = ProgressBar::new_spinner();
        if !bar.is_hidden() {
            let known = remaining.clone();
            let left = move |_: &ProgressState, to: &mut dyn Write| {
                let now = began.elapsed().as_secs_f64();
                let known = known.lock().unwrap_or_else(PoisonError::into_inner);
                // A line that cannot be drawn is drawn the next time.
                let _ = to.write_str(&render::time_left(now, known.left(now)));
            };
            let style = ProgressStyle::with_template("{spinner} {left}{wide_msg}");
            bar.set_style(style.map_or_else(
                |_| ProgressStyle::default_spinner(),
                |style| style.with_key("left", left),
            ));
            bar.set_message(starting(plan));
            bar.enable_steady_tick(DRAW_INTERVAL);
        }
        let launches = plan.sampling.launches;
        Progress { bar, began, remaining, launches, pairs: plan.benchmark == Benchmark::Pairs }
    }

    /// None at all.
    pub(super) fn hidden(plan: &Plan) -> Progress {
        let bar = ProgressBar::hidden();
        let remaining = Arc::new(Mutex::new(Remaining::of(plan)));
        Progress { bar, began: Instant::now(), remaining, launches: 1, pairs: false }
    }

    /// All ranks have joined.
    pub(super) fn ranks_are_ready(&self) {
        if !self.pairs {
            self.bar.set_message("ranks are ready, before the first row");
        }
    }

    /// A row of this size begins in this launch, counted from 0.
    pub(super) fn row(&self, bytes: u64, launch: u32) {
        let mut rows = (0, 0);
        self.with(|remaining, now| {
            remaining.row(bytes, now);
            rows = remaining.rows();
        });
        let launch = match self.launches {
            0 | 1 => String::new(),
            launches => format!("launch {} of {launches}, ", launch + 1),
        };
        let of = if rows.1 > 0 { format!(" of {}", rows.1) } else { String::new() };
        self.bar.set_message(format!("{launch}row {}{of}, {}", rows.0, quantity::bytes(bytes)));
    }

    /// This share of the current row is measured.
    pub(super) fn within(&self, share: f64) {
        self.with(|remaining, now| remaining.within(share, now));
    }

    /// A pass over all pairs of a matrix, counted from 0, begins, after `done` of `all`.
    pub(super) fn pairs_pass(&self, matrix: u64, bytes: u64, done: u64, all: u64) {
        self.with(|remaining, now| remaining.pairs_pass(matrix, done, all, now));
        let (pass, bytes) = (done + 1, quantity::bytes(bytes));
        self.bar.set_message(format!("pass {pass} of {all} over all pairs, {bytes}"));
    }

    fn with(&self, change: impl FnOnce(&mut Remaining, f64)) {
        let now = self.began.elapsed().as_secs_f64();
        change(&mut self.remaining.lock().unwrap_or_else(PoisonError::into_inner), now);
    }

    /// Runs `print` while the line is not drawn.
    pub(super) fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    /// Removes the line.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// What happens before ranks join.
fn starting(plan: &Plan) -> String {
    format!("{} ranks start and allocate their buffers", plan.ranks())
}
