//! The `fake` backend: a cost model instead of a machine, so that every command can be tested with
//! any number of ranks and exact times.
//! Not a measurement: no bytes move, and nothing is verified.

mod factory;
mod landscape;

use std::time::Instant;

use busbw_core::{
    algorithm::Table,
    cost::CostModel,
    pattern::{Mismatch, Wrong},
    plan::{Case, Plan},
};

pub(super) use self::factory::FakeFactory;
use super::{
    Backend, BackendError, CaseFacts, Found, Operation, Prepared, Reason, RunError, defined, laps,
};
use busbw_job::world::World;
use landscape::{Fails, Setting};

/// Share of an operation's time that enqueueing it takes.
const ENQUEUE_SHARE: f64 = 0.25;

/// The backend: all ranks at once.
#[derive(Debug)]
pub struct Fake {
    model: CostModel,
    ranks: usize,
    setting: Setting,
}

impl Fake {
    /// For all ranks of `plan`.
    pub fn new(plan: &Plan, model: CostModel) -> Fake {
        Fake { model, ranks: plan.ranks(), setting: Setting::default() }
    }
}

impl Backend for Fake {
    fn supported(&self, case: &Case) -> Result<(), Reason> {
        defined(case.collective, self.ranks)
    }

    fn init(&mut self, _: &mut dyn World) -> Result<Vec<Table>, RunError> {
        self.setting = Setting::of_process()?;
        match self.setting.fails {
            Some(Fails::Crash) => std::process::abort(),
            Some(Fails::Hang) => loop {
                std::thread::park();
            },
            Some(Fails::Wrong) | None => Ok(Vec::new()),
        }
    }

    fn prepare<'a>(&'a mut self, case: &'a Case) -> Box<dyn Prepared + 'a> {
        let element = case.sweep.datatype.bytes();
        let seconds = self.model.seconds(case.collective, &case.counts, element, self.ranks);
        let corrupted = (self.setting.fails == Some(Fails::Wrong)).then_some((0, 0));
        let setting = self.setting.clone();
        Box::new(FakeCase { seconds, setting, factor: 1.0, corrupted, ..FakeCase::default() })
    }
}

/// A case on a virtual clock.
#[derive(Debug, Default)]
struct FakeCase {
    seconds: f64,
    /// Seconds of the thread that enqueues.
    queued: f64,
    /// Seconds until everything enqueued is done.
    done: f64,
    marks: Vec<f64>,
    /// Seconds of the captured operations; `capturing` while they are captured.
    captured: f64,
    capturing: bool,
    corrupted: Option<(usize, u64)>,
    setting: Setting,
    /// That of the batch.
    factor: f64,
}

impl Prepared for FakeCase {
    fn facts(&self) -> CaseFacts {
        CaseFacts::default()
    }

    fn fill(&mut self, _: Operation, _: u64) -> Result<(), BackendError> {
        self.corrupted = None;
        Ok(())
    }

    fn begin_capture(&mut self) -> Result<(), BackendError> {
        (self.captured, self.capturing) = (0.0, true);
        Ok(())
    }

    fn end_capture(&mut self) -> Result<(), BackendError> {
        self.capturing = false;
        Ok(())
    }

    fn replay(&mut self) -> Result<(), BackendError> {
        self.queued += self.captured * ENQUEUE_SHARE;
        self.done += self.captured;
        Ok(())
    }

    fn start(&mut self) {
        (self.queued, self.done) = (0.0, 0.0);
        self.marks.clear();
        let noise = self.setting.batch_noise * self.setting.random.normal();
        self.factor = self.setting.factor * noise.exp();
    }

    fn elapsed(&self) -> f64 {
        self.queued
    }

    fn enqueue(&mut self, _: Operation) -> Result<(), BackendError> {
        if self.capturing {
            self.captured += self.seconds * self.factor;
            return Ok(());
        }
        self.queued += self.seconds * self.factor * ENQUEUE_SHARE;
        self.done += self.seconds * self.factor;
        Ok(())
    }

    fn delay(&mut self, seconds: f64) {
        self.done += seconds;
    }

    fn finish(&mut self, _: Option<Instant>) -> Result<f64, BackendError> {
        self.queued = self.done;
        Ok(self.done)
    }

    fn mark(&mut self) -> Result<(), BackendError> {
        self.marks.push(self.done);
        Ok(())
    }

    fn laps(&self) -> Result<Vec<f64>, BackendError> {
        Ok(laps(&self.marks))
    }

    fn verify(&mut self, _: Operation, _: u64) -> Result<Vec<Found>, BackendError> {
        let found = |(rank, index)| Found {
            rank,
            mismatch: Mismatch { wrong: 1, first: Some(Wrong { index, got: 1, want: 0 }) },
        };
        Ok(self.corrupted.map(found).into_iter().collect())
    }

    fn corrupt(&mut self, _: Operation, rank: usize, element: u64) -> Result<(), BackendError> {
        self.corrupted = Some((rank, element));
        Ok(())
    }
}
