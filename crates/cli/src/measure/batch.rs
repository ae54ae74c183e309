//! One batch: a barrier, then iterations back to back, timed as a whole on every rank.
//! Not how many batches there are (`half`).

use std::time::{Duration, Instant};

use model::{
    fault::Phase,
    plan::{Blocking, Place},
};

use super::{MeasureError, Session};
use crate::backend::{Operation, Prepared};

/// One rank's times of a batch, seconds; all but `spent` of one operation.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct BatchTimes {
    /// Until everything was complete.
    pub(super) total: f64,
    /// Until everything was enqueued.
    pub(super) enqueue: f64,
    /// Since sampling of this placement began; rank 0's decides whether it goes on.
    pub(super) spent: f64,
    /// Every outer iteration (`-I`), of the whole iteration.
    pub(super) iterations: Vec<f64>,
}

impl BatchTimes {
    /// As bytes for an exchange.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        [self.total, self.enqueue, self.spent]
            .iter()
            .chain(&self.iterations)
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    /// The reverse; bytes of another length come from another version and give NaN.
    pub(super) fn from_bytes(bytes: &[u8]) -> BatchTimes {
        let mut values = bytes.as_chunks::<8>().0.iter().map(|raw| f64::from_le_bytes(*raw));
        let mut next = || values.next().unwrap_or(f64::NAN);
        let (total, enqueue, spent) = (next(), next(), next());
        BatchTimes { total, enqueue, spent, iterations: values.collect() }
    }
}

impl Session<'_> {
    /// The operation whose result proves the batch: its last one.
    pub(super) fn last_operation(&self, place: Place) -> Operation {
        let operations = u64::from(self.plan.iterations) * u64::from(self.plan.aggregated);
        Operation { place, iteration: operations - 1, proof: self.plan.check > 0 }
    }

    /// Runs one batch and returns this rank's times.
    pub(super) fn run_batch(
        &mut self,
        case: &model::plan::Case,
        place: Place,
        fill: Option<u64>,
    ) -> Result<(BatchTimes, Option<model::pattern::Mismatch>), MeasureError> {
        let last = self.last_operation(place);
        if let Some(seed) = fill {
            self.backend.prepare(case).fill(last, seed);
        }
        self.world.barrier(self.deadline())?;
        self.enter(Phase::Timed);
        // Whoever waited long above was resting and comes out late; out of this one all come together.
        self.world.barrier(self.deadline())?;
        let times = self.time_iterations(case, place)?;
        let corrupt = self.corruption(Phase::Timed);
        let mut prepared = self.backend.prepare(case);
        if let Some(element) = corrupt {
            prepared.corrupt(last, element);
        }
        Ok((times, fill.map(|seed| prepared.verify(last, seed))))
    }

    fn time_iterations(
        &mut self,
        case: &model::plan::Case,
        place: Place,
    ) -> Result<BatchTimes, MeasureError> {
        let plan = self.plan;
        let outer = plan.blocking == Blocking::Outer;
        let patience = plan.timeout_s.map(Duration::from_secs);
        let deadline = || patience.map(|patience| Instant::now() + patience);
        let (slowness, last) = (self.slowness(), self.last_operation(place));
        let launches = u64::from(plan.graph.max(1));
        let mut prepared = self.backend.prepare(case);
        let (mut unblocked, mut apart) = (0.0, Vec::new());
        prepared.start();
        for iteration in 0..u64::from(plan.iterations) * launches {
            // A reading of the clock costs as much as a part of the smallest operations: only who
            // needs one pays for it.
            let begun = if outer { prepared.elapsed() } else { 0.0 };
            if plan.per_iteration && !outer {
                prepared.mark();
            }
            for inner in 0..u64::from(plan.aggregated) {
                let number =
                    iteration % u64::from(plan.iterations) * u64::from(plan.aggregated) + inner;
                // Only the very last operation writes the proof.
                let is_last = number == last.iteration
                    && iteration + 1 == u64::from(plan.iterations) * launches;
                let operation =
                    Operation { place, iteration: number, proof: is_last && last.proof };
                run_operation(prepared.as_mut(), operation, slowness)?;
                match plan.blocking {
                    Blocking::InnerBarrier => {
                        prepared.finish(deadline())?;
                        self.world.barrier(deadline())?;
                    }
                    Blocking::Inner => {
                        prepared.finish(deadline())?;
                    }
                    Blocking::None | Blocking::Outer => {}
                }
            }
            if outer {
                let done = prepared.finish(deadline())?;
                unblocked += done - begun;
                apart.push(done - begun);
                self.world.barrier(deadline())?;
            }
        }
        let enqueued = prepared.elapsed();
        prepared.mark();
        let done = prepared.finish(deadline())?;
        let operations =
            (u64::from(plan.iterations) * u64::from(plan.aggregated) * launches) as f64;
        let iterations = match (plan.per_iteration, outer) {
            (false, _) => Vec::new(),
            // The barrier lies between one iteration's end and the next one's beginning.
            (true, true) => apart,
            (true, false) => differences(prepared.marks()),
        };
        Ok(BatchTimes {
            total: if outer { unblocked } else { done } / operations,
            enqueue: if outer { unblocked } else { enqueued } / operations,
            spent: 0.0,
            iterations,
        })
    }
}

/// Runs one operation, and as much longer as the fault says.
fn run_operation(
    prepared: &mut dyn Prepared,
    operation: Operation,
    slowness: Option<f64>,
) -> Result<(), MeasureError> {
    let Some(factor) = slowness else { return Ok(prepared.enqueue(operation)?) };
    let begun = prepared.elapsed();
    prepared.enqueue(operation)?;
    prepared.delay((prepared.elapsed() - begun) * (factor - 1.0));
    Ok(())
}

fn differences(marks: &[f64]) -> Vec<f64> {
    marks.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_exchange() {
        let times =
            BatchTimes { total: 1.5, enqueue: 0.25, spent: 3.0, iterations: vec![1.0, 2.0] };
        assert_eq!(BatchTimes::from_bytes(&times.to_bytes()), times);
        assert!(BatchTimes::from_bytes(&[]).total.is_nan());
    }
}
