//! Which variants of a case the library honours: each is tried once before it is measured.
//! Not what is tried, which the plan has, and not their figures (`row`).

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use busbw_core::{
    exit::Exit,
    plan::{Case, Placement, Sweep},
};

use busbw_job::world::WorldError;

use super::{RunError, Session};
use crate::backend::{BackendError, Operation, Reason, finish_all};

/// How long a rank whose call was declined waits for the others' answers. Where NCCL declines, it does so before it connects
/// to anybody: in microseconds.
const DECLINED_WAIT: Duration = Duration::from_secs(15);

/// The reason for each variant that was declined, or nothing for one that was honoured; by sweep, count and variant.
pub(super) type Tried = HashMap<(Sweep, usize, usize), Option<String>>;

/// A case in its variants, by their places in the plan.
pub(super) struct Honoured {
    /// Those that can be measured.
    pub(super) cases: Vec<(usize, Case)>,
    /// The reasons of those that the library declined.
    pub(super) declined: BTreeMap<usize, String>,
}

impl Session<'_> {
    /// The variants of a case that the library honours, and the others. Without variants it is the case, and nothing is
    /// tried.
    ///
    /// # Errors
    /// A call fails, or the ranks of a communicator get different answers.
    pub(super) fn honoured(&mut self, case: &Case) -> Result<Honoured, RunError> {
        let (mut cases, mut declined) = (Vec::new(), BTreeMap::new());
        for (place, case) in self.plan.in_variants(*case).enumerate() {
            match self.why_declined(&case)? {
                Some(reason) => drop(declined.insert(place, reason)),
                None => cases.push((place, case)),
            }
        }
        Ok(Honoured { cases, declined })
    }

    /// Why the library declines a variant of a case, by one operation. All ranks learn it.
    ///
    /// # Errors
    /// A call fails, or the ranks of a communicator get different answers.
    fn why_declined(&mut self, case: &Case) -> Result<Option<String>, RunError> {
        if self.plan.variant_of(case).is_none() {
            return Ok(None);
        }
        let key = (case.sweep, case.counts.param, case.variant);
        if let Some(known) = self.tried.get(&key) {
            return Ok(known.clone());
        }
        // All begin together, so that an answer which is late stands for a call that waits.
        self.world.barrier(self.deadline())?;
        let deadline = self.deadline();
        let mut prepared = self.backend.prepare(case);
        let operation =
            Operation { placement: Placement::OutOfPlace, iteration: 0, verified: false };
        let mine = match prepared.enqueue(operation) {
            Ok(()) => String::new(),
            Err(BackendError::Declined(Reason(reason))) => reason,
            Err(error) => return Err(error.into()),
        };
        // A rank whose call was accepted waits for the others in `finish`, and in a first call already in `enqueue`.
        let until = match mine.is_empty() {
            true => deadline,
            false => {
                let soon = Instant::now() + DECLINED_WAIT;
                Some(deadline.map_or(soon, |deadline| deadline.min(soon)))
            }
        };
        let rank = |thread: &usize| self.plan.ranks_of(*thread).next().unwrap_or_default();
        let all = match self.world.allgather(mine.as_bytes(), until) {
            Err(WorldError::TimedOut { missing, .. }) if !mine.is_empty() => {
                let other = match missing.first() {
                    Some(thread) => format!("rank {}", rank(thread)),
                    None => "another rank".to_owned(),
                };
                let wait = DECLINED_WAIT.as_secs();
                let other = format!(
                    "{other} gives no answer within {wait} s: its call may have been accepted, and wait"
                );
                return Err(differently(rank(&self.world.rank()), &mine, &other));
            }
            answers => answers?,
        };
        for group in &self.groups {
            let answers =
                || group.threads.iter().filter_map(|thread| Some((thread, all.get(*thread)?)));
            let refuses = answers().find(|(_, reason)| !reason.is_empty());
            let accepts = answers().find(|(_, reason)| reason.is_empty());
            if let (Some((refuses, reason)), Some((accepts, _))) = (refuses, accepts) {
                let other = format!("rank {} does", rank(accepts));
                return Err(differently(rank(refuses), &String::from_utf8_lossy(reason), &other));
            }
        }
        if mine.is_empty() {
            finish_all(prepared.as_mut(), deadline)?;
        }
        drop(prepared);
        let reason = all.into_iter().find(|reason| !reason.is_empty());
        let reason = reason.map(|reason| String::from_utf8_lossy(&reason).into_owned());
        self.tried.insert(key, reason.clone());
        Ok(reason)
    }
}

/// The error of ranks that do not agree: those that accept a call wait for the others for ever.
fn differently(refuses: usize, reason: &str, other: &str) -> RunError {
    let text = format!(
        "ranks of one communicator answer differently: rank {refuses} does not accept the call ({reason}), and {other}; give all of them the same NCCL and the same variables"
    );
    BackendError::Refused { text, exit: Exit::Library }.into()
}
