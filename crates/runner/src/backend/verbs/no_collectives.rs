//! What a backend without collectives prepares: nothing that could run.
//! Not a waiver: planning refuses collectives, and `supported` does, before this is asked for.

use std::time::Instant;

use busbw_core::exit::Exit;

use crate::backend::{BackendError, CaseFacts, Found, Operation, Prepared};

pub(super) struct NoCollectives;

fn none<T>() -> Result<T, BackendError> {
    let text = "a bug of busbw: RDMA has no collectives".to_owned();
    Err(BackendError::Refused { text, exit: Exit::Internal })
}

impl Prepared for NoCollectives {
    fn facts(&self) -> CaseFacts {
        CaseFacts::default()
    }

    fn fill(&mut self, _: Operation, _: u64) -> Result<(), BackendError> {
        none()
    }

    fn start(&mut self) {}

    fn elapsed(&self) -> f64 {
        f64::NAN
    }

    fn enqueue(&mut self, _: Operation) -> Result<(), BackendError> {
        none()
    }

    fn delay(&mut self, _: f64) {}

    fn finish(&mut self, _: Option<Instant>) -> Result<f64, BackendError> {
        none()
    }

    fn mark(&mut self) -> Result<(), BackendError> {
        none()
    }

    fn laps(&self) -> Result<Vec<f64>, BackendError> {
        none()
    }

    fn verify(&mut self, _: Operation, _: u64) -> Result<Vec<Found>, BackendError> {
        none()
    }

    fn corrupt(&mut self, _: Operation, _: usize, _: u64) -> Result<(), BackendError> {
        none()
    }
}
