//! The `fake` backend: a cost model instead of a machine, so that every command can be tested with
//! any number of ranks and exact times. Nothing moves and nothing is proven by it.

use std::time::Instant;

use model::{
    Collective,
    algorithm::Table,
    cost::CostModel,
    pattern::{Mismatch, Wrong},
    plan::{Case, Plan},
};

use super::{Backend, BackendError, Operation, Prepared, Reason};

/// Part of an operation's time that enqueueing it takes.
const ENQUEUE_SHARE: f64 = 0.25;

/// The backend: all ranks at once.
#[derive(Debug)]
pub struct Fake {
    collective: Collective,
    model: CostModel,
    ranks: usize,
}

impl Fake {
    /// For all ranks of `plan`.
    pub fn new(plan: &Plan, model: CostModel) -> Fake {
        Fake { collective: plan.collective, model, ranks: plan.ranks() }
    }
}

impl Backend for Fake {
    fn supported(&self, _: &Case) -> Result<(), Reason> {
        super::host::supported(self.collective, self.ranks)
    }

    fn warm(&mut self) -> Result<Option<Table>, BackendError> {
        Ok(None)
    }

    fn prepare<'a>(&'a mut self, case: &'a Case) -> Box<dyn Prepared + 'a> {
        let element = case.sweep.datatype.bytes();
        let seconds = self.model.seconds(self.collective, &case.counts, element, self.ranks);
        Box::new(FakeCase { seconds, queued: 0.0, done: 0.0, marks: Vec::new(), corrupted: None })
    }
}

/// A case on a virtual clock.
#[derive(Debug)]
struct FakeCase {
    seconds: f64,
    /// Seconds of the enqueueing processor.
    queued: f64,
    /// Seconds until everything enqueued is done.
    done: f64,
    marks: Vec<f64>,
    corrupted: Option<u64>,
}

impl Prepared for FakeCase {
    fn algorithm(&self) -> Option<String> {
        None
    }

    fn fill(&mut self, _: Operation, _: u64) {
        self.corrupted = None;
    }

    fn start(&mut self) {
        (self.queued, self.done) = (0.0, 0.0);
        self.marks.clear();
    }

    fn elapsed(&self) -> f64 {
        self.queued
    }

    fn enqueue(&mut self, _: Operation) -> Result<(), BackendError> {
        self.queued += self.seconds * ENQUEUE_SHARE;
        self.done += self.seconds;
        Ok(())
    }

    fn delay(&mut self, seconds: f64) {
        self.done += seconds;
    }

    fn finish(&mut self, _: Option<Instant>) -> Result<f64, BackendError> {
        self.queued = self.done;
        Ok(self.done)
    }

    fn mark(&mut self) {
        self.marks.push(self.done);
    }

    fn marks(&self) -> &[f64] {
        &self.marks
    }

    fn verify(&mut self, _: Operation, _: u64) -> Mismatch {
        let first = self.corrupted.map(|index| Wrong { index, got: 1, want: 0 });
        Mismatch { wrong: u64::from(first.is_some()), first }
    }

    fn corrupt(&mut self, _: Operation, element: u64) {
        self.corrupted = Some(element);
    }
}
