//! The checked operations of one placement of a row, and the wrong elements that all ranks found.
//! Not the comparison with the exact result, which is the backend's.

use busbw_core::{
    fault::Phase,
    pattern::derive_seed,
    plan::{Case, Placement},
    record::WrongPlace,
};

use super::{RunError, Session};
use crate::backend::{Found, Operation, finish_all};

/// The most wrong elements that a half lists in full.
const MAX_WRONG_LISTED: usize = 8;

/// The wrong elements that checks have found so far in our communicator.
#[derive(Debug, Default)]
pub(super) struct WrongElements {
    /// The wrong elements of all communicators: sampling ends everywhere at the first one.
    pub(super) wrong_anywhere: u64,
    pub(super) wrong: u64,
    pub(super) failed_checks: u64,
    pub(super) places: Vec<WrongPlace>,
}

impl Session<'_> {
    /// Runs `-c` operations with fresh data each and verifies every element; ends at the first
    /// wrong one.
    pub(super) fn check(
        &mut self,
        case: &Case,
        placement: Placement,
        seed: u64,
        wrong_elements: &mut WrongElements,
    ) -> Result<(), RunError> {
        let operation = Operation { placement, iteration: 0, verified: false };
        for number in 1..=u64::from(self.plan.checks(self.iterations)) {
            let seed = derive_seed(seed, u64::MAX - number);
            self.backend.prepare(case).fill(operation, seed)?;
            self.enter(Phase::Verify);
            let corrupt = self.corruption(Phase::Verify);
            let deadline = self.deadline();
            let mut prepared = self.backend.prepare(case);
            prepared.enqueue(operation)?;
            finish_all(prepared.as_mut(), deadline)?;
            if let Some((rank, element)) = corrupt {
                prepared.corrupt(operation, rank, element)?;
            }
            let found = prepared.verify(operation, seed)?;
            drop(prepared);
            self.collect(&found, &format!("check {number}"), wrong_elements)?;
            if wrong_elements.wrong_anywhere > 0 {
                break;
            }
        }
        Ok(())
    }

    /// Exchanges the wrong elements that every rank found.
    pub(super) fn collect(
        &mut self,
        found: &[Found],
        check: &str,
        wrong_elements: &mut WrongElements,
    ) -> Result<(), RunError> {
        let words = |found: &Found| {
            let first = found.mismatch.first.unwrap_or_default();
            [found.rank as u64, found.mismatch.wrong, first.index, first.got, first.want]
        };
        let mine: Vec<u8> = found.iter().flat_map(words).flat_map(u64::to_le_bytes).collect();
        let all = self.world.allgather(&mine, self.deadline())?;
        let words: Vec<u64> =
            all.iter().flat_map(|b| b.as_chunks().0).map(|raw| u64::from_le_bytes(*raw)).collect();
        for [rank, wrong, element, got, want] in words.as_chunks().0 {
            wrong_elements.wrong_anywhere += wrong;
            let rank = *rank as usize;
            if *wrong == 0 || !self.group().ranks.contains(&rank) {
                continue;
            }
            wrong_elements.wrong += wrong;
            wrong_elements.failed_checks += 1;
            if wrong_elements.places.len() < MAX_WRONG_LISTED {
                wrong_elements.places.push(WrongPlace {
                    rank,
                    element: *element,
                    got: format!("{got:#x}"),
                    want: format!("{want:#x}"),
                    check: check.to_owned(),
                });
            }
        }
        Ok(())
    }
}
