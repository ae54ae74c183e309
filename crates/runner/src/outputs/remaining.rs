//! How much longer a run takes: rows that are left, by the time that rows took so far.
//! Not a clock and not a bar: the caller says when a row began.

use std::collections::BTreeMap;

use busbw_core::plan::Plan;
use busbw_render::Left;

use crate::progress_line::Estimate;

/// Beyond this number of sizes in one pass, what is left is counted in rows, not in bytes.
const MAX_SIZES: u64 = 4096;
/// Measured sizes that tell how time grows with size.
const FITTED_SIZES: usize = 3;
/// A size this many times the largest measured one may be bound by something else: the estimate is a lower bound.
const MAX_EXTRAPOLATION: u64 = 8;

/// A pass over all pairs begins.
#[derive(Debug, Clone, Copy)]
struct PairsPass {
    /// The matrix, counted from 0.
    matrix: u64,
    done: u64,
    all: u64,
    /// When the first pass began, and when this one did.
    first: f64,
    began: f64,
}

/// What was measured, and what is left of the plan.
#[derive(Debug, Default)]
pub(super) struct Remaining {
    /// The sizes of one pass, rising; empty if there are too many.
    sizes: Vec<u64>,
    rows_a_pass: u64,
    /// Rows of each size in a pass, which follow each other: one for each window.
    rows_a_size: u64,
    /// Passes over the sizes: launches × cycles × types × operators × roots. 0: until interrupted.
    passes: u64,
    /// Rows begun, and passes before this one.
    rows: u64,
    passes_done: u64,
    /// Seconds of the last row of each size.
    took: BTreeMap<u64, f64>,
    /// Seconds of all rows.
    all_took: f64,
    /// Rows begun of the current size in this pass.
    rows_of_size: u64,
    /// The size of the current row, and when it began.
    row: Option<(u64, f64)>,
    /// Whether `took` has what the current row will take, by the share of it that was measured last.
    row_is_known: bool,
    /// Of a matrix of pairs.
    pairs: Option<PairsPass>,
    /// All matrices of pairs.
    matrices: u64,
}

impl Remaining {
    pub(super) fn of(plan: &Plan) -> Remaining {
        let sizes = plan.size_count();
        let rows_a_size = plan.messaging.windows().count() as u64;
        Remaining {
            sizes: if sizes <= MAX_SIZES { plan.sizes().collect() } else { Vec::new() },
            rows_a_pass: sizes.saturating_mul(rows_a_size),
            rows_a_size,
            passes: (plan.sweeps().len() as u64)
                .saturating_mul(plan.cycles)
                .saturating_mul(u64::from(plan.sampling.launches)),
            matrices: plan.pairing.as_ref().map_or(0, |pairing| pairing.tests.len() as u64),
            ..Remaining::default()
        }
    }

    /// A row of `bytes` begins at `now`, in seconds since the run began.
    pub(super) fn row(&mut self, bytes: u64, now: f64) {
        // Counts are rounded down to whole elements a rank.
        let bytes = self.sizes.iter().copied().find(|size| *size >= bytes).unwrap_or(bytes);
        let mut same = false;
        if let Some((before, began)) = self.row {
            self.took.insert(before, now - began);
            self.all_took += now - began;
            same = bytes == before && self.rows_of_size < self.rows_a_size;
            self.passes_done += u64::from(bytes <= before && !same);
        }
        self.rows += 1;
        self.rows_of_size = if same { self.rows_of_size + 1 } else { 1 };
        (self.row, self.row_is_known) = (Some((bytes, now)), false);
    }

    /// This share of the current row's work is done at `now`.
    pub(super) fn within(&mut self, share: f64, now: f64) {
        if let Some((bytes, began)) = self.row.filter(|_| share > 0.0) {
            self.took.insert(bytes, (now - began) / share);
            self.row_is_known = true;
        }
    }

    /// The next pass over all pairs of a matrix, counted from 0, begins at `now`, after `done` of `all`.
    pub(super) fn pairs_pass(&mut self, matrix: u64, done: u64, all: u64, now: f64) {
        let first = self.pairs.filter(|_| done > 0).map_or(now, |pass| pass.first);
        self.pairs = Some(PairsPass { matrix, done, all, first, began: now });
    }

    /// The number of the current row, and of all rows; 0 if there is no end.
    pub(super) fn rows(&self) -> (u64, u64) {
        (self.rows, self.rows_a_pass.saturating_mul(self.passes))
    }

    /// Seconds of a row of `bytes`, by those of the measured sizes next to it.
    fn expected(&self, bytes: u64) -> f64 {
        if let Some(took) = self.took.get(&bytes) {
            return *took;
        }
        let below = self.took.range(..bytes).next_back();
        let above = self.took.range(bytes..).next();
        match (below, above) {
            (Some((b0, t0)), Some((b1, t1))) => {
                t0 + (t1 - t0) * (bytes - b0) as f64 / (b1 - b0) as f64
            }
            (None, Some((_, took))) => *took,
            (Some((_, took)), None) => self.extrapolated(bytes).max(*took),
            (None, None) => 0.0,
        }
    }

    /// A fixed part and one for each byte, as the largest measured sizes have them: least squares of relative errors.
    fn extrapolated(&self, bytes: u64) -> f64 {
        let (mut w, mut wx, mut wxx, mut wy, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (size, took) in self.took.iter().rev().take(FITTED_SIZES) {
            let (x, y) = (*size as f64, took.max(1e-6));
            let weight = 1.0 / (y * y);
            w += weight;
            wx += weight * x;
            wxx += weight * x * x;
            wy += weight * y;
            wxy += weight * x * y;
        }
        let spread = w * wxx - wx * wx;
        let slope = if spread > 0.0 { ((w * wxy - wx * wy) / spread).max(0.0) } else { 0.0 };
        let fixed = (wy - slope * wx) / w;
        // Nothing takes less than no time at 0 bytes.
        if fixed < 0.0 { wxy / wxx * bytes as f64 } else { fixed + slope * bytes as f64 }
    }
}

impl Estimate for Remaining {
    fn left(&self, now: f64) -> Option<Left> {
        if let Some(PairsPass { matrix, done, all, first, began }) = self.pairs {
            let each = (done > 0).then(|| (began - first) / done as f64)?;
            let seconds = (each * all.saturating_sub(done) as f64 - (now - began)).max(0.0);
            return Some(Left { seconds, at_least: matrix + 1 < self.matrices });
        }
        let (bytes, began) = self.row?;
        if self.passes == 0 || self.took.is_empty() {
            return None;
        }
        if self.sizes.is_empty() {
            let done = self.rows.saturating_sub(1);
            let left = self.rows_a_pass.saturating_mul(self.passes).saturating_sub(done);
            let seconds = self.all_took / done.max(1) as f64 * left as f64 - (now - began);
            return Some(Left { seconds: seconds.max(0.0), at_least: false });
        }
        let gone = now - began;
        let expected = self.expected(bytes);
        // A row that takes longer than expected makes those after it longer, too.
        let late = if self.row_is_known { 1.0 } else { (gone / expected).max(1.0) };
        let of_all = |from: u64| -> f64 {
            let sizes = self.sizes.iter().filter(|size| **size >= from);
            self.rows_a_size as f64 * sizes.map(|size| self.expected(*size)).sum::<f64>()
        };
        let windows = self.rows_a_size.saturating_sub(self.rows_of_size) as f64 * expected;
        let following = windows + of_all(bytes.saturating_add(1));
        let whole = match self.passes.saturating_sub(self.passes_done + 1) {
            0 => 0.0,
            passes => passes as f64 * of_all(0),
        };
        let known = self.took.last_key_value().map_or(0, |(size, _)| *size);
        let largest = self.sizes.last().copied().unwrap_or(0);
        Some(Left {
            seconds: (expected - gone).max(0.0) + late * (following + whole),
            at_least: largest / MAX_EXTRAPOLATION > known,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbw_core::plan::Step;

    fn plan(from: u64, to: u64) -> Plan {
        Plan { min_bytes: from, max_bytes: to, step: Step::Factor(2), ..Plan::example() }
    }

    /// 2 ms and 100 ns a KiB.
    fn seconds(bytes: u64) -> f64 {
        2e-3 + bytes as f64 * 1e-10
    }

    /// Walks a plan; the estimate over the truth at each third row and within it.
    fn walk(plan: &Plan, passes: usize) -> Vec<(f64, f64)> {
        let mut remaining = Remaining::of(plan);
        let rows: Vec<u64> = (0..passes).flat_map(|_| plan.sizes()).collect();
        let all: f64 = rows.iter().map(|bytes| seconds(*bytes)).sum();
        let (mut now, mut ratios) = (0.0, Vec::new());
        for bytes in rows {
            remaining.row(bytes, now);
            let half = now + seconds(bytes) / 2.0;
            for at in [now, half] {
                if let Some(left) = remaining.left(at).filter(|left| !left.at_least) {
                    ratios.push((at / all, left.seconds / (all - at)));
                }
            }
            now += seconds(bytes);
        }
        ratios
    }

    #[test]
    fn from_a_third_on_within_5_percent() {
        for (plan, passes) in [
            (plan(8, 1 << 30), 1),
            (plan(1 << 20, 1 << 20), 1),
            (Plan { cycles: 4, ..plan(8, 1 << 26) }, 4),
            (Plan { step: Step::Bytes(3 << 20), ..plan(1, 1 << 30) }, 1),
            // Too many sizes to add up: rows count alike.
            (Plan { step: Step::Bytes(1), cycles: 3, ..plan(1, 5000) }, 3),
        ] {
            let ratios = walk(&plan, passes);
            let late: Vec<_> = ratios.iter().filter(|(at, _)| *at > 0.33).collect();
            assert!(plan.size_count() == 1 || !late.is_empty(), "{plan:?}");
            let worst = late.iter().map(|(_, ratio)| (ratio - 1.0).abs()).fold(0.0, f64::max);
            assert!(worst < 0.05, "{worst} of {:?}", plan.step);
        }
    }

    #[test]
    fn sizes_far_beyond_the_measured_ones_make_a_lower_bound() {
        let mut remaining = Remaining::of(&plan(8, 1 << 30));
        assert_eq!(remaining.left(0.0), None);
        remaining.row(8, 0.0);
        assert_eq!(remaining.left(0.5), None);
        remaining.row(16, 1.0);
        assert!(remaining.left(1.0).expect("one row is known").at_least);
    }

    #[test]
    fn a_row_that_takes_longer_delays_those_after_it() {
        let mut remaining = Remaining::of(&plan(1 << 20, 1 << 23));
        remaining.row(1 << 20, 0.0);
        remaining.row(1 << 21, 1.0);
        let early = remaining.left(1.5).expect("a row is known").seconds;
        let late = remaining.left(5.0).expect("a row is known").seconds;
        assert!(late > early, "{early} {late}");
    }

    #[test]
    fn a_row_of_many_batches_tells_of_itself() {
        let mut one = Remaining::of(&plan(1 << 30, 1 << 30));
        one.row(1 << 30, 2.0);
        assert_eq!(one.left(5.0), None);
        one.within(0.25, 12.0);
        assert_eq!(one.left(22.0), Some(Left { seconds: 20.0, at_least: false }));
    }

    #[test]
    fn a_run_without_end_has_no_time_left_to_tell() {
        let mut remaining = Remaining::of(&Plan { cycles: 0, ..plan(8, 8) });
        remaining.row(8, 0.0);
        remaining.row(8, 1.0);
        assert_eq!(remaining.left(1.0), None);
    }

    #[test]
    fn passes_over_pairs_take_alike() {
        let mut remaining = Remaining::of(&Plan::example());
        remaining.matrices = 2;
        remaining.pairs_pass(0, 0, 7, 10.0);
        assert_eq!(remaining.left(11.0), None);
        remaining.pairs_pass(0, 1, 7, 12.0);
        remaining.pairs_pass(0, 2, 7, 14.0);
        assert_eq!(remaining.left(15.0), Some(Left { seconds: 9.0, at_least: true }));
        // A second look at the same matrix.
        remaining.pairs_pass(0, 0, 9, 24.0);
        assert_eq!(remaining.left(25.0), None);
        remaining.pairs_pass(0, 1, 9, 26.0);
        assert!(remaining.left(26.0).is_some_and(|left| left.at_least));
        remaining.pairs_pass(1, 0, 7, 40.0);
        remaining.pairs_pass(1, 1, 7, 41.0);
        assert_eq!(remaining.left(41.0), Some(Left { seconds: 6.0, at_least: false }));
    }

    #[test]
    fn every_window_of_a_size_is_a_row_of_it() {
        let mut remaining = Remaining { rows_a_size: 3, ..Remaining::of(&plan(1 << 20, 1 << 21)) };
        for (bytes, began) in [(1 << 20, 0.0), (1 << 20, 1.0), (1 << 20, 2.0), (1 << 21, 3.0)] {
            remaining.row(bytes, began);
        }
        remaining.row(1 << 21, 5.0);
        assert_eq!(remaining.left(6.0), Some(Left { seconds: 3.0, at_least: false }));
        assert_eq!(remaining.passes_done, 0);
    }
}
