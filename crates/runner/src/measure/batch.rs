//! One batch: a barrier, then iterations back to back, timed as a whole by every rank thread.
//! Not how many batches there are (`placement`).

use std::time::{Duration, Instant};

use busbw_core::{
    Collective,
    fault::Phase,
    plan::{Blocking, Case, Placement, Plan},
};

use super::{RunError, Session, Slowdown};
use crate::backend::{Found, Operation, Prepared, Synchronized, finish_all};

/// One rank thread's times of a batch, in seconds; all but `spent` are of one operation.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct BatchTimes {
    /// Until everything was complete.
    pub(super) total: f64,
    /// Until everything was enqueued.
    pub(super) enqueue: f64,
    /// Since sampling of this placement began; rank 0's value decides whether it goes on.
    pub(super) spent: f64,
    /// Every outer iteration (`-I`): the time of the whole iteration.
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

    /// The reverse of `to_bytes`; bytes of another length come from another version and give NaN.
    pub(super) fn from_bytes(bytes: &[u8]) -> BatchTimes {
        let mut values = bytes.as_chunks::<8>().0.iter().map(|raw| f64::from_le_bytes(*raw));
        let mut next = || values.next().unwrap_or(f64::NAN);
        let (total, enqueue, spent) = (next(), next(), next());
        BatchTimes { total, enqueue, spent, iterations: values.collect() }
    }
}

impl Session<'_> {
    /// The operation whose result is verified: the batch's last one.
    pub(super) fn last_operation(&self, placement: Placement) -> Operation {
        let operations = u64::from(self.iterations) * u64::from(self.plan.aggregated);
        Operation { placement, iteration: operations - 1, verified: self.plan.check > 0 }
    }

    /// Runs one batch. Returns this thread's times, and the wrong elements of its ranks if they
    /// were verified.
    pub(super) fn run_batch(
        &mut self,
        case: &Case,
        placement: Placement,
        fill: Option<u64>,
    ) -> Result<(BatchTimes, Option<Vec<Found>>), RunError> {
        let last = self.last_operation(placement);
        // The rank that reported a row arrives late. A rank that does not wait for it here would
        // wait in the operation below, and a GPU that has waited for milliseconds starts the next
        // operation slowly.
        self.world.barrier(self.deadline())?;
        if let Some(seed) = fill {
            self.backend.prepare(case).fill(last, seed)?;
        }
        if self.plan.latency {
            self.warm_alone(case, placement)?;
        } else {
            self.settle(case, placement)?;
        }
        self.world.barrier(self.deadline())?;
        self.enter(Phase::Timed);
        // Second barrier: ranks that slept in the first one wake up late. After a short second
        // barrier all start together.
        self.world.barrier(self.deadline())?;
        let times = match self.plan.graph {
            0 => self.time_iterations(case, placement)?,
            launches => self.time_graph(case, placement, launches)?,
        };
        let corrupt = self.corruption(Phase::Timed);
        let mut prepared = self.backend.prepare(case);
        if let Some((rank, element)) = corrupt {
            prepared.corrupt(last, rank, element)?;
        }
        let found = fill.map(|seed| prepared.verify(last, seed)).transpose()?;
        Ok((times, found))
    }

    /// One untimed operation, as before every timing in nccl-tests (src/common.cu:701).
    fn settle(&mut self, case: &Case, placement: Placement) -> Result<(), RunError> {
        let deadline = self.deadline();
        let mut prepared = self.backend.prepare(case);
        prepared.enqueue(Operation { placement, iteration: 0, verified: false })?;
        finish_all(prepared.as_mut(), deadline)?;
        Ok(())
    }

    /// Untimed operations, one at a time like the timed ones.
    fn warm_alone(&mut self, case: &Case, placement: Placement) -> Result<(), RunError> {
        for iteration in 0..u64::from(self.warmup) {
            let deadline = self.deadline();
            let mut prepared = self.backend.prepare(case);
            prepared.enqueue(Operation { placement, iteration, verified: false })?;
            finish_all(prepared.as_mut(), deadline)?;
            drop(prepared);
            self.world.barrier(deadline)?;
        }
        Ok(())
    }

    fn time_iterations(
        &mut self,
        case: &Case,
        placement: Placement,
    ) -> Result<BatchTimes, RunError> {
        let plan = self.plan;
        let outer = plan.blocking == Blocking::Outer;
        // If the backend's own call was a barrier, no other one is needed after it.
        let meets = case.collective != Collective::Barrier;
        let patience = plan.timeout_s.map(Duration::from_secs);
        let deadline = || patience.map(|patience| Instant::now() + patience);
        let (slowdown, last) = (self.slowdown(None, 1), self.last_operation(placement));
        let mut prepared = self.backend.prepare(case);
        let (mut unblocked, mut apart) = (0.0, Vec::new());
        prepared.start();
        for iteration in 0..u64::from(self.iterations) {
            // Reading the clock costs a noticeable part of the smallest operations: only runs that
            // need the time read it.
            let begun = if outer { prepared.elapsed() } else { 0.0 };
            if plan.per_iteration && !outer {
                prepared.mark()?;
            }
            match plan.blocking {
                Blocking::None | Blocking::Outer => {
                    start_iteration(prepared.as_mut(), plan, last, iteration, slowdown)?;
                }
                Blocking::Inner | Blocking::InnerBarrier => {
                    for operation in operations(plan, last, iteration) {
                        run_operation(prepared.as_mut(), operation, slowdown)?;
                        prepared.finish(deadline())?;
                        if plan.blocking == Blocking::InnerBarrier
                            && prepared.quiesce()? == Synchronized::No
                        {
                            self.world.barrier(deadline())?;
                        }
                    }
                }
            }
            if outer {
                let done = prepared.finish(deadline())?;
                unblocked += done - begun;
                apart.push(done - begun);
                // As in OSU's loops, by the library's own barrier where it has one. Our barrier
                // between hosts releases ranks one after the other, and the next iteration would
                // include that delay.
                if meets && prepared.quiesce()? == Synchronized::No {
                    self.world.barrier(deadline())?;
                }
            }
        }
        let enqueued = prepared.elapsed();
        if plan.per_iteration && !outer {
            prepared.mark()?;
        }
        let done = finish_all(prepared.as_mut(), deadline())?;
        if plan.latency {
            apart.iter().for_each(|seconds| self.apart.add((seconds * 1e9).round() as u64));
        }
        let operations = (u64::from(self.iterations) * u64::from(plan.aggregated)) as f64;
        let iterations = match (plan.per_iteration, outer) {
            (false, _) => Vec::new(),
            // The barrier lies between one iteration's end and the next one's beginning.
            (true, true) => apart,
            (true, false) => prepared.laps()?,
        };
        Ok(BatchTimes {
            total: if outer { unblocked } else { done } / operations,
            enqueue: if outer { unblocked } else { enqueued } / operations,
            spent: 0.0,
            iterations,
        })
    }

    /// Runs all iterations as one graph, launched `launches` times (`-G`). Building the graph is
    /// not timed (nccl-tests src/common.cu:752-766).
    fn time_graph(
        &mut self,
        case: &Case,
        placement: Placement,
        launches: u32,
    ) -> Result<BatchTimes, RunError> {
        let (plan, last) = (self.plan, self.last_operation(placement));
        let slowdown = self.slowdown(None, 1);
        let patience = plan.timeout_s.map(Duration::from_secs);
        let deadline = self.deadline();
        let mut prepared = self.backend.prepare(case);
        prepared.begin_capture()?;
        for iteration in 0..u64::from(self.iterations) {
            start_iteration(prepared.as_mut(), plan, last, iteration, None)?;
        }
        prepared.end_capture()?;
        self.world.barrier(deadline)?;
        prepared.start();
        for _ in 0..launches {
            let begun = prepared.elapsed();
            prepared.replay()?;
            if let Some(slowdown) = slowdown {
                prepared.delay(slowdown.after(prepared.elapsed() - begun));
            }
        }
        let enqueued = prepared.elapsed();
        let deadline = patience.map(|patience| Instant::now() + patience);
        let done = finish_all(prepared.as_mut(), deadline)?;
        let operations =
            (u64::from(self.iterations) * u64::from(plan.aggregated) * u64::from(launches)) as f64;
        let (total, enqueue) = (done / operations, enqueued / operations);
        Ok(BatchTimes { total, enqueue, spent: 0.0, iterations: Vec::new() })
    }
}

/// The operations of one iteration. Only the last operation of a batch, `last`, writes to the check
/// buffer.
fn operations(plan: &Plan, last: Operation, iteration: u64) -> impl Iterator<Item = Operation> {
    let fused = u64::from(plan.aggregated);
    (0..fused).map(move |inner| {
        let number = iteration * fused + inner;
        Operation { iteration: number, verified: last.verified && number == last.iteration, ..last }
    })
}

/// Starts one iteration's operations without waiting; in one group, where there are several.
fn start_iteration(
    prepared: &mut dyn Prepared,
    plan: &Plan,
    last: Operation,
    iteration: u64,
    slowdown: Option<Slowdown>,
) -> Result<(), RunError> {
    let fused = plan.aggregated > 1;
    if fused {
        prepared.begin_fused()?;
    }
    for operation in operations(plan, last, iteration) {
        run_operation(prepared, operation, slowdown)?;
    }
    if fused {
        prepared.end_fused()?;
    }
    Ok(())
}

/// Runs one operation, and delays for as long as the fault says.
pub(super) fn run_operation(
    prepared: &mut dyn Prepared,
    operation: Operation,
    slowdown: Option<Slowdown>,
) -> Result<(), RunError> {
    let Some(slowdown) = slowdown else { return Ok(prepared.enqueue(operation)?) };
    let begun = prepared.elapsed();
    prepared.enqueue(operation)?;
    prepared.delay(slowdown.after(prepared.elapsed() - begun));
    Ok(())
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
