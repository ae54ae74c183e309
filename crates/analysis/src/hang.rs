//! Why a job hangs: one verdict from all evidence, with the rank, the host and the call.
//! Not how evidence is read (`busbw_logs::hang`), and not why a rank does what it does: a stack of it tells that.
//!
//! Each communicator is assessed for itself: who waits in which call, and who has not come. A rank that has not come to one
//! communicator because it waits in another one is not to blame: the chain of waits is followed to its end (docs/hang.md).
//! A communicator that several sources tell of is one case (`merged`). NCCL compares no arguments: ranks that call something else may go on with
//! wrong data, and hang later or not at all (`mismatch`).

mod assess;
mod case;
mod chain;
mod differs;
mod merged;
mod mismatch;
mod print;
mod report;
mod words;

use busbw_logs::hang::Evidence;

pub use print::{print, print_markdown};
pub use report::{Blamed, CallSaid, HangReport, StuckGroup, Verdict};

/// The version of the JSON of a [`HangReport`].
pub const SCHEMA: u32 = 1;

/// Where all calls have stood for less there is no hang yet, milliseconds: collectives of the largest sizes take as long.
const MIN_STANDING_MS: u64 = 2000;

/// The verdict on a job.
pub fn judge(evidence: &Evidence) -> HangReport {
    let states: Vec<assess::State> =
        evidence.groups.iter().enumerate().map(|(at, group)| assess::assess(at, group)).collect();
    let (mut stuck, mismatches) = merged::merged(evidence, &states);
    let stands = |one: &&assess::Stuck| one.call.waited_ms.is_none_or(|ms| ms >= MIN_STANDING_MS);
    let is_short = !stuck.is_empty() && !stuck.iter().any(stands);
    if is_short {
        stuck.clear();
    }
    stuck.extend(mismatches);
    let ends = chain::ends(evidence, &stuck);
    report::report(evidence, is_short || states.iter().any(|one| one.moving), &stuck, &ends)
}

#[cfg(test)]
mod job_of_1024;
#[cfg(test)]
mod jobs_of_nccl;
#[cfg(test)]
mod tests;
