//! The statistics of measured times: summaries, intervals, drift, comparisons and when to stop.
//! Not a measuring loop: nothing here reads a clock, prints, or keeps state between calls.
//!
//! Three kinds of number are kept apart, because they answer different questions:
//!
//! * an *iteration* is one call of a collective; `iterations` describes a list of them the
//!   way nccl-tests does, so that the two programs can be read side by side;
//! * a *batch* is a run of iterations timed together; `summary`, `interval`, `outliers()`,
//!   `drift()` and `stopping` work on the batch times of one launch;
//! * a *launch* is one start of the program; `compare()` takes one figure from each launch,
//!   because batches of one launch share its placement and are not independent of each other.
//!
//! Samples are passed in the order in which they were measured, never sorted: `drift()` and
//! `compare()` read that order.
//!
//! Every function is total. A slice that is empty, or holds a NaN or an infinity, gives `None`
//! (or the "no verdict" value of its type): a bad sample is never dropped in silence, because a
//! figure from the samples that are left would look like a figure from all of them.
#![forbid(unsafe_code)]

pub mod affine;
pub mod autocorrelation;
mod binomial;
pub mod compare;
pub mod drift;
pub mod interval;
pub mod iterations;
pub mod mann_whitney;
pub mod outliers;
pub mod quantile;
pub mod random;
pub mod stopping;
pub mod summary;

#[cfg(test)]
mod noise;

pub use binomial::binomial_tail;
pub use compare::{Comparison, Reason, Rule, Verdict, compare, compare_by_history};
pub use drift::{Drift, drift};
pub use interval::{Interval, median_interval};
pub use iterations::{IterationStats, iteration_stats};
pub use outliers::{Outliers, outliers};
pub use quantile::{mad, median, quantile};
pub use random::Random;
pub use stopping::{Decision, Stop, StoppingRule};
pub use summary::{Summary, summarise};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_sample_is_never_dropped_in_silence() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let samples = [1.0, 2.0, 3.0, bad, 5.0, 6.0, 7.0, 8.0];
            assert_eq!(median(&samples), None);
            assert_eq!(median_interval(&samples), None);
            assert_eq!(iteration_stats(&samples), None);
            assert_eq!(outliers(&samples), None);
            assert_eq!(drift(&samples), None);
            assert_eq!(summarise(&samples), None);
            let verdict = compare(&samples, &samples, &Rule::default()).verdict;
            assert_eq!(verdict, Verdict::Inconclusive(Reason::UnusableTimes));
        }
    }
}
