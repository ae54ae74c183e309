//! Who moves the bytes. Each backend is a folder with the same files.
//! Not measurement: a backend runs what it is told and says how long it took.

mod channel;
/// A cost model; nothing moves.
pub mod fake;
/// Shared memory of this machine.
pub mod host;
mod in_memory;
/// The MPI of this machine.
pub mod mpi;
/// GPUs, by NCCL or RCCL.
pub mod nccl;
/// Any net plugin.
pub mod net;

pub use channel::{Channel, Part, Side, Window};

use std::time::Instant;

use busbw_core::{
    algorithm::Table,
    exit::Exit,
    pattern::Mismatch,
    plan::{Case, Place},
    record::{GpuMemory, Said},
};
use busbw_job::world::World;
use busbw_shm::Wait;
use thiserror::Error;

use crate::measure::MeasureError;

/// Why a case cannot run on a backend.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Reason(pub String);

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BackendError {
    /// Another rank did not come, or the run was stopped.
    #[error(transparent)]
    Wait(#[from] Wait),
    /// A library refused, or the machine lacks something; the whole story, and the exit code.
    #[error("{text}")]
    Refused {
        /// What was attempted, on what, why it failed, and what to do.
        text: String,
        /// How the run ends for it.
        exit: Exit,
    },
}

/// What is known of a case without timing it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CaseFacts {
    /// How its operations run, as the record names it.
    pub algorithm: Option<String>,
    /// The library's own prediction of one operation's time, microseconds.
    pub predicted_us: Option<f64>,
}

/// What a rank found wrong in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// World rank.
    pub rank: usize,
    /// What was wrong.
    pub mismatch: Mismatch,
}

/// One operation of a prepared case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Out of place or in place.
    pub place: Place,
    /// Which iteration: successive ones use successive parts of the buffers.
    pub iteration: u64,
    /// Whether the result goes to the proof buffer, which is verified afterwards.
    pub proof: bool,
}

/// A backend as one driver holds it, for all of its ranks.
pub trait Backend {
    /// Whether the case can run.
    ///
    /// # Errors
    /// The reason why not: it becomes a waived row.
    fn supported(&self, case: &Case) -> Result<(), Reason>;

    /// Whether a case's results can be told right from wrong: where not, its `#wrong` is N/A.
    fn is_provable(&self, _case: &Case) -> bool {
        true
    }

    /// Whether a case can be measured in place.
    ///
    /// # Errors
    /// The reason why not: it is said with the row.
    fn has_in_place(&self, _case: &Case) -> Result<(), Reason> {
        Ok(())
    }

    /// Called once, before anything is measured: does what costs time only at its first use. Returns
    /// what it measured of this machine, if that is worth keeping for later runs.
    ///
    /// # Errors
    /// [`MeasureError`]: the backend's own, or ranks that did not come.
    fn warm(&mut self, world: &mut dyn World) -> Result<Option<Table>, MeasureError>;

    /// Begins or ends finding out how cases will run, before anything is timed; whether there is
    /// something to find out. In between, every case runs once, and [`Backend::overhear`] follows.
    fn listen(&mut self, _on: bool) -> bool {
        false
    }

    /// Notes what a library said about the case that has just run on every rank.
    ///
    /// # Errors
    /// [`BackendError`].
    fn overhear(&mut self, _case: &Case) -> Result<(), BackendError> {
        Ok(())
    }

    /// What a library said of itself, where that is new: asked before the first row or after it, and at the end.
    fn library(&mut self) -> Option<Said> {
        None
    }

    /// Leaves the other ranks, when all of them have measured everything.
    ///
    /// # Errors
    /// [`BackendError`].
    fn leave(self: Box<Self>) -> Result<(), BackendError> {
        Ok(())
    }

    /// Ends what is under way after a failure that was told already: it may take for ever.
    fn give_up(&mut self) {}

    /// What became of GPUs' memory so far; the most of any GPU. Nothing where nobody asked (`-M`).
    fn gpu_memory(&self) -> Option<GpuMemory> {
        None
    }

    /// PCI address of the GPU that this driver's rank is on, if it is on one.
    fn gpu_address(&self) -> Option<String> {
        None
    }

    /// The way for messages to other ranks.
    ///
    /// # Errors
    /// The reason why there is none: it becomes a waived row.
    fn channel(&mut self) -> Result<&mut dyn Channel, Reason> {
        Err(Reason("this backend has no messages between pairs of ranks".to_owned()))
    }

    /// Makes a case ready.
    fn prepare<'a>(&'a mut self, case: &'a Case) -> Box<dyn Prepared + 'a>;
}

/// A case that is ready to run.
pub trait Prepared {
    /// What goes into the record about the case, whatever its times are.
    fn facts(&self) -> CaseFacts;

    /// Writes the inputs of an operation, and poison where its result goes.
    ///
    /// # Errors
    /// [`BackendError`].
    fn fill(&mut self, operation: Operation, seed: u64) -> Result<(), BackendError>;

    /// From here on, operations are noted for [`Prepared::replay`] instead of run.
    ///
    /// # Errors
    /// [`BackendError`].
    fn begin_capture(&mut self) -> Result<(), BackendError> {
        Err(no_graphs())
    }

    /// Ends the noting.
    ///
    /// # Errors
    /// [`BackendError`].
    fn end_capture(&mut self) -> Result<(), BackendError> {
        Err(no_graphs())
    }

    /// Starts everything that was noted, as one.
    ///
    /// # Errors
    /// [`BackendError`].
    fn replay(&mut self) -> Result<(), BackendError> {
        Err(no_graphs())
    }

    /// Zeroes the clock.
    fn start(&mut self);

    /// Seconds since [`Prepared::start`].
    fn elapsed(&self) -> f64;

    /// Starts an operation; a blocking backend finishes it, too.
    ///
    /// # Errors
    /// [`BackendError`].
    fn enqueue(&mut self, operation: Operation) -> Result<(), BackendError>;

    /// The operations enqueued until [`Prepared::end_fused`] may start as one (`-m`). A backend that
    /// has no such thing runs them one by one.
    ///
    /// # Errors
    /// [`BackendError`].
    fn begin_fused(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Ends what [`Prepared::begin_fused`] began.
    ///
    /// # Errors
    /// [`BackendError`].
    fn end_fused(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Lets time pass after the operation just enqueued, as if it had taken longer, on purpose.
    fn delay(&mut self, seconds: f64);

    /// Waits for everything that was enqueued and returns this driver's seconds since
    /// [`Prepared::start`].
    ///
    /// # Errors
    /// [`BackendError`].
    fn finish(&mut self, deadline: Option<Instant>) -> Result<f64, BackendError>;

    /// Stays in the library until the other ranks have ended what was begun, too: called by all after
    /// [`Prepared::finish`], before they meet outside of it. A library that works only while it is called
    /// leaves another rank waiting for ever otherwise. Whether they have met by that.
    ///
    /// # Errors
    /// [`BackendError`].
    fn serve_others(&mut self) -> Result<Met, BackendError> {
        Ok(Met::No)
    }

    /// Notes a boundary between what was enqueued before and what comes after.
    ///
    /// # Errors
    /// [`BackendError`].
    fn mark(&mut self) -> Result<(), BackendError>;

    /// Seconds from each boundary to the next, of the slowest rank; known once everything is finished,
    /// since an asynchronous backend passes them long after they were enqueued.
    ///
    /// # Errors
    /// [`BackendError`].
    fn laps(&self) -> Result<Vec<f64>, BackendError>;

    /// Compares the result of an operation, filled with `seed`, with the exact one, on every rank.
    ///
    /// # Errors
    /// [`BackendError`].
    fn verify(&mut self, operation: Operation, seed: u64) -> Result<Vec<Found>, BackendError>;

    /// Flips one bit of element `element` of world rank `rank`'s result, on purpose.
    ///
    /// # Errors
    /// [`BackendError`].
    fn corrupt(
        &mut self,
        operation: Operation,
        rank: usize,
        element: u64,
    ) -> Result<(), BackendError>;
}

/// Whether all ranks have met, so that they need not outside of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// None leaves before all have come.
    Yes,
    /// They have not.
    No,
}

/// Ends what was enqueued on every rank; this driver's seconds since [`Prepared::start`].
///
/// # Errors
/// [`BackendError`].
pub(crate) fn finish_all(
    prepared: &mut dyn Prepared,
    deadline: Option<Instant>,
) -> Result<f64, BackendError> {
    let seconds = prepared.finish(deadline)?;
    prepared.serve_others()?;
    Ok(seconds)
}

/// `-G` is waived on backends without graphs before a plan gets here.
fn no_graphs() -> BackendError {
    let text = "this backend has no graphs".to_owned();
    BackendError::Refused { text, exit: Exit::Internal }
}

/// Differences of successive times.
pub(crate) fn laps(marks: &[f64]) -> Vec<f64> {
    marks.windows(2).map(|pair| pair[1] - pair[0]).collect()
}
