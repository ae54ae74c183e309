//! How many parts of a fabric may fail before a collective misses a target: at the worst places, at the best, and at random.
//! Not what one failure costs (`answer`), and not how soon a network recovers (`recovery`).
//!
//! Exact where the busiest link alone decides the time (`Loads::level`) and switches spread packets over what is left: a trunk
//! bears so many losses, and the groups of alike parts share no trunk. Then more failures never help, the worst place is one
//! group, and the chance at random is a count of ways. Elsewhere (ECMP; alltoall of unevenly placed ranks) every number of
//! failures is simulated, since after another failure hashes fall otherwise, and may fall better.

mod chance;
mod drawn;
mod exact;
mod parts;

use busbw_core::Collective;
use serde::Serialize;

use super::question::{Question, Unanswerable};
use crate::fabric::Failure;
use parts::Affected;

pub use chance::Chance;

/// What is to be kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// busbw in GB/s, of every dimension of the job.
    Busbw(f64),
    /// Share of the busbw of the whole fabric, of every dimension.
    Share(f64),
}

/// How many parts may fail.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tolerance {
    /// What fails, as failures are written.
    pub kind: String,
    /// The size column, bytes.
    pub bytes: u64,
    /// Such parts in the fabric.
    pub parts: usize,
    /// Those among them that carry bytes of the collective.
    pub used: usize,
    /// The whole fabric, by dimension.
    pub whole: Vec<Whole>,
    /// Of which dimension the rows are: the one that is nearest to its target.
    pub of: usize,
    /// How it was had.
    pub method: Method,
    /// The most that may fail wherever they are; none where the whole fabric misses the target.
    pub worst: Option<Most>,
    /// The most that may fail where they cost the least.
    pub best: Option<Most>,
    /// By number of failed parts.
    pub rows: Vec<Row>,
    /// The most that may fail at random with a chance of at least so much to meet the target; exact ones only.
    pub likely: Vec<Likely>,
}

/// A dimension without failures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Whole {
    /// Its name, `all` for one group.
    pub name: String,
    /// GB/s as nccl-tests' busbw column.
    pub busbw: f64,
    /// GB/s that it is to have.
    pub target: f64,
}

/// How it was had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Method {
    /// Counted.
    Exact,
    /// Simulated, number by number.
    Simulated {
        /// Hashes of which the median counts, for the worst and the best places.
        hashes: usize,
        /// Draws of places, each with a hash of its own, for random ones.
        draws: usize,
    },
}

/// The most parts that may fail, and what happens when one more does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Most {
    /// How many.
    pub failed: usize,
    /// Whether it is all that was tried, and perhaps more may.
    pub at_least: bool,
    /// With one more; none where there are no more.
    pub then: Option<Beyond>,
}

/// What is left when one part too many has failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beyond {
    /// GB/s of the dimension that the rows are of; 0 where a host is cut off.
    pub busbw: f64,
    /// The dimension that misses its target.
    pub dimension: String,
    /// The links that hold back.
    pub limited_by: String,
    /// Whose they are, such as `leaf 3`; the worst and the best places only where it is counted.
    pub at: Option<String>,
    /// Whether a host is cut off.
    pub cut_off: bool,
}

/// Some parts have failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// How many.
    pub failed: usize,
    /// busbw of the dimension that the rows are of, GB/s, with failures at the worst places: all in one group; 0 where a host is
    /// cut off.
    pub worst: f64,
    /// The same at the best places.
    pub best: f64,
    /// The chance to meet the target where the places are random.
    pub chance: Chance,
}

/// How many may fail at random.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Likely {
    /// Chance to meet the target.
    pub chance: f64,
    /// With so many failed parts at most.
    pub failed: usize,
}

impl Question {
    /// How many parts of the failure's kind may fail, one after the other, before the target is missed at the first of the
    /// question's sizes. The failure's number and seed are not read.
    ///
    /// # Errors
    /// What does not fit, see `Unanswerable`.
    pub fn tolerance(&self, failure: &Failure, target: Target) -> Result<Tolerance, Unanswerable> {
        if let Some(uniform) = self.uniform() {
            return uniform.tolerance(failure, target);
        }
        if self.collective == Collective::HyperCube {
            return Err(Unanswerable::Steps(self.collective.name()));
        }
        let (shape, job, inside) = self.checked()?;
        let affected = Affected::of(self, &shape, &job, inside, failure, target)?;
        let kind = Failure { count: 1, seed: None, ..failure.clone() }.to_string();
        let mut answer = Tolerance {
            kind,
            bytes: affected.bytes,
            parts: affected.groups.iter().map(|group| group.parts.len()).sum(),
            used: affected.used(),
            whole: affected.dimensions.iter().map(|one| one.whole.clone()).collect(),
            of: affected.tightest(),
            method: Method::Exact,
            worst: None,
            best: None,
            rows: Vec::new(),
            likely: Vec::new(),
        };
        match affected.dimensions.iter().all(|one| one.counted) {
            true => exact::answer(&affected, &mut answer),
            false => drawn::answer(&affected, &mut answer)?,
        }
        Ok(answer)
    }
}

/// Rows beside those at which the target is met for the last time.
const MAX_STEPS: u32 = 11;

/// The numbers of failed parts that rows are of: doubling ones, or larger steps where there would be too many, and those at which
/// the target is met for the last time.
fn steps(most: usize, parts: usize, marked: &[usize]) -> Vec<usize> {
    let last = most.min(parts);
    let doublings = last.max(2).ilog2().div_ceil(MAX_STEPS);
    let growing = std::iter::successors(Some(1usize), |at| at.checked_mul(1 << doublings));
    let mut steps: Vec<usize> = growing.take_while(|at| *at < last).collect();
    steps.extend(marked.iter().copied().filter(|at| *at <= parts));
    steps.extend([0, last]);
    steps.sort_unstable();
    steps.dedup();
    steps
}

#[cfg(test)]
mod properties;
