//! How right an extrapolation was: what was expected beside what was measured.
//! Not a comparison of two runs (`comparison`).

use busbw_logs::measurement::Measurement;
use serde::{Deserialize, Serialize};

use super::{Expected, Extrapolation, NotEnough, Wanted, cases};

/// What was expected of a size, and what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// What was expected.
    #[serde(flatten)]
    pub expected: Expected,
    /// What was measured, the median of launches, microseconds.
    pub was_us: f64,
    /// What was measured less what was expected, percent of what was expected.
    pub difference: f64,
    /// Whether it is in the range.
    pub inside: bool,
}

/// An extrapolation beside the runs that it was of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What was expected.
    pub expected: Extrapolation,
    /// Sizes that were measured, too.
    pub sizes: Vec<Held>,
    /// Sizes inside of their range.
    pub inside: usize,
    /// Launches that were measured, the most of a size.
    pub launches: usize,
}

/// Holds an extrapolation against runs on as many hosts and ranks as it is of. None where no run is.
///
/// # Errors
/// The runs have no times.
pub fn hold(expected: &Extrapolation, runs: &[Measurement]) -> Result<Option<Outcome>, NotEnough> {
    // Those that do not say their hosts had as many ranks on each.
    let wanted = Wanted { per_host: expected.to.per_host(), ..Wanted::default() };
    let all = cases(runs, wanted)?;
    let Some(times) = all.get(&expected.case).and_then(|scales| scales.get(&expected.to)) else {
        return Ok(None);
    };
    let held = |row: &Expected| {
        let was_us = busbw_stats::median(times.get(&row.bytes)?)?;
        let range = row.time_us;
        Some(Held {
            expected: *row,
            was_us,
            difference: (was_us / range.middle - 1.0) * 100.0,
            inside: range.holds(was_us),
        })
    };
    let sizes: Vec<Held> = expected.rows.iter().filter_map(held).collect();
    Ok(Some(Outcome {
        expected: expected.clone(),
        inside: sizes.iter().filter(|one| one.inside).count(),
        sizes,
        launches: times.values().map(Vec::len).max().unwrap_or(0),
    }))
}
