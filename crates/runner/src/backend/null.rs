//! The `null` backend: ranks that move nothing, for the cost of everything else.
//! Not a measurement of memory or of a network.

mod factory;

use std::time::Instant;

use busbw_core::{Collective, algorithm::Table, plan::Case};
use busbw_job::world::World;

pub(super) use self::factory::NullFactory;
use super::{Backend, BackendError, CaseFacts, Found, Operation, Prepared, Reason, RunError, laps};

/// The backend as one rank holds it.
struct Null;

impl Backend for Null {
    fn supported(&self, case: &Case) -> Result<(), Reason> {
        match case.collective {
            Collective::AllReduce => Ok(()),
            other => Err(Reason(format!("the null backend has no {}", other.name()))),
        }
    }

    fn init(&mut self, _: &mut dyn World) -> Result<Option<Table>, RunError> {
        Ok(None)
    }

    fn prepare<'a>(&'a mut self, _: &'a Case) -> Box<dyn Prepared + 'a> {
        Box::new(NullCase { started: Instant::now(), marks: Vec::new() })
    }
}

/// A case that moves nothing.
struct NullCase {
    started: Instant,
    marks: Vec<f64>,
}

impl Prepared for NullCase {
    fn facts(&self) -> CaseFacts {
        CaseFacts::default()
    }

    fn fill(&mut self, _: Operation, _: u64) -> Result<(), BackendError> {
        Ok(())
    }

    fn start(&mut self) {
        self.marks.clear();
        self.started = Instant::now();
    }

    fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn enqueue(&mut self, _: Operation) -> Result<(), BackendError> {
        Ok(())
    }

    fn delay(&mut self, _: f64) {}

    fn finish(&mut self, _: Option<Instant>) -> Result<f64, BackendError> {
        Ok(self.elapsed())
    }

    fn mark(&mut self) -> Result<(), BackendError> {
        self.marks.push(self.elapsed());
        Ok(())
    }

    fn laps(&self) -> Result<Vec<f64>, BackendError> {
        Ok(laps(&self.marks))
    }

    fn verify(&mut self, _: Operation, _: u64) -> Result<Vec<Found>, BackendError> {
        Ok(Vec::new())
    }

    fn corrupt(&mut self, _: Operation, _: usize, _: u64) -> Result<(), BackendError> {
        Ok(())
    }
}
