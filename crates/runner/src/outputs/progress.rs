//! What the progress line of a run says: the row or pass under way.
//! Not rows, and not the estimate (`remaining`).

use busbw_core::{Benchmark, plan::Plan, quantity};

use super::remaining::Remaining;
use crate::progress_line::ProgressLine;

/// The progress line of a run.
pub(super) struct Progress {
    line: ProgressLine<Remaining>,
    launches: u32,
    pairs: bool,
}

impl Progress {
    /// For a run that begins now.
    pub(super) fn new(plan: &Plan) -> Progress {
        let message = format!("{} ranks start and allocate their buffers", plan.ranks());
        Progress::with(ProgressLine::new(Remaining::of(plan), message), plan)
    }

    /// None at all.
    pub(super) fn hidden(plan: &Plan) -> Progress {
        Progress::with(ProgressLine::hidden(Remaining::of(plan)), plan)
    }

    fn with(line: ProgressLine<Remaining>, plan: &Plan) -> Progress {
        let launches = plan.sampling.launches;
        Progress { line, launches, pairs: plan.benchmark == Benchmark::Pairs }
    }

    /// All ranks have joined.
    pub(super) fn ranks_are_ready(&self) {
        if !self.pairs {
            self.line.message("ranks are ready, before the first row".to_owned());
        }
    }

    /// A row of this size begins in this launch, counted from 0.
    pub(super) fn row(&self, bytes: u64, launch: u32) {
        let (row, rows) = self.line.tell(|remaining, now| {
            remaining.row(bytes, now);
            remaining.rows()
        });
        let launch = match self.launches {
            0 | 1 => String::new(),
            launches => format!("launch {} of {launches}, ", launch + 1),
        };
        let of = if rows > 0 { format!(" of {rows}") } else { String::new() };
        self.line.message(format!("{launch}row {row}{of}, {}", quantity::bytes(bytes)));
    }

    /// This share of the current row is measured.
    pub(super) fn within(&self, share: f64) {
        self.line.tell(|remaining, now| remaining.within(share, now));
    }

    /// A pass over all pairs of a matrix, counted from 0, begins, after `done` of `all`.
    pub(super) fn pairs_pass(&self, matrix: u64, bytes: u64, done: u64, all: u64) {
        self.line.tell(|remaining, now| remaining.pairs_pass(matrix, done, all, now));
        let (pass, bytes) = (done + 1, quantity::bytes(bytes));
        self.line.message(format!("pass {pass} of {all} over all pairs, {bytes}"));
    }

    /// Runs `print` while the line is not drawn.
    pub(super) fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        self.line.suspend(print)
    }

    /// Removes the line.
    pub(super) fn clear(&self) {
        self.line.clear();
    }
}
