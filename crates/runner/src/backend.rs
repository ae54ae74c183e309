//! The backends: the code that moves the bytes. Each is a folder with a `factory`, and one line in `factory()` below.
//! Not measurement: a backend runs the operations it is given and returns how long they took.

mod buffer_gpus;
mod channel;
mod device;
mod factory;
/// A cost model; no bytes move.
pub mod fake;
/// Shared memory of this machine.
pub mod host;
mod in_memory;
/// The MPI of this machine.
pub mod mpi;
/// GPUs, by NCCL or RCCL.
pub mod nccl;
/// Any NCCL net plugin.
pub mod net;
mod patience;
mod resources;
/// RDMA devices, by libibverbs.
pub mod verbs;

pub use channel::{Batch, Channel, Part, Side, Window};
pub(crate) use device::{NO_ADDRESS, RankDevice};
pub(crate) use factory::{
    Bound, Capacity, Cores, Factory, Joined, Open, RankProcess, SharedMemory,
};
pub use resources::Resources;

use std::time::Instant;

use busbw_core::{
    Collective,
    algorithm::Table,
    exit::Exit,
    pattern::Mismatch,
    plan::{BackendChoice, Case, Placement},
    record::{GpuMemory, LibraryFacts},
};
use busbw_job::world::{World, WorldError};
use busbw_shm::Wait;
use thiserror::Error;

/// What prepares the runs of a backend.
pub(crate) fn factory(backend: &BackendChoice) -> &'static dyn Factory {
    match backend {
        BackendChoice::Host => &host::HostFactory,
        BackendChoice::Nccl(_) => &nccl::NcclFactory,
        BackendChoice::Mpi => &mpi::MpiFactory,
        BackendChoice::Net => &net::NetFactory,
        BackendChoice::Verbs(_) => &verbs::VerbsFactory,
        BackendChoice::Fake(_) => &fake::FakeFactory,
    }
}

/// The collectives of a backend, where it refuses all others before any rank starts.
pub fn collectives(backend: &BackendChoice) -> Option<&'static [Collective]> {
    factory(backend).collectives()
}

/// Whether a collective is defined for this number of ranks.
///
/// # Errors
/// hypercube needs a power of two; the text is nccl-tests' (src/hypercube.cu:107).
fn defined(collective: Collective, ranks: usize) -> Result<(), Reason> {
    if !collective.allows(ranks) {
        return Err(Reason(format!("nRanks {ranks} is not a power of 2, skipping")));
    }
    Ok(())
}

/// Why a case cannot run on a backend: the text of a waived row.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Reason(pub String);

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BackendError {
    /// A wait for another rank timed out, or the run was stopped.
    #[error(transparent)]
    Wait(#[from] Wait),
    /// A library call failed, or the machine lacks something: the complete message and the exit code.
    #[error("{text}")]
    Refused {
        /// What was attempted, on what, why it failed, and what to do.
        text: String,
        /// The exit code of the run.
        exit: Exit,
    },
    /// The library cannot do what a variant of calls asks for: an expected outcome, which becomes a waived row.
    #[error("{0}")]
    Declined(Reason),
}

/// Why a rank could not continue to measure.
#[derive(Debug, Error)]
pub enum RunError {
    /// The other ranks, or the connection to them.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The backend.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// Facts about a case that need no timing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CaseFacts {
    /// The algorithm and protocol of its operations, as the record names them.
    pub algorithm: Option<String>,
    /// The library's own prediction of one operation's time, in microseconds.
    pub predicted_us: Option<f64>,
}

/// The wrong elements that one rank found in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// World rank.
    pub rank: usize,
    /// Number of wrong elements, and the first of them.
    pub mismatch: Mismatch,
}

/// One operation of a prepared case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Out of place or in place.
    pub placement: Placement,
    /// Iteration number: successive iterations use successive parts of the buffers.
    pub iteration: u64,
    /// Whether the result goes to the check buffer, which is verified afterwards.
    pub verified: bool,
}

/// A backend as one rank thread holds it, for all of its ranks.
pub trait Backend {
    /// Whether the case can run.
    ///
    /// # Errors
    /// The reason why it cannot: it becomes a waived row.
    fn supported(&self, case: &Case) -> Result<(), Reason>;

    /// Whether a case's results can be verified: where they cannot, `#wrong` is N/A.
    fn is_verifiable(&self, _case: &Case) -> bool {
        true
    }

    /// Whether a case can be measured in place.
    ///
    /// # Errors
    /// The reason why it cannot: the row states it.
    fn has_in_place(&self, _case: &Case) -> Result<(), Reason> {
        Ok(())
    }

    /// Initialises the backend once, before anything is measured: creates communicators and pays other
    /// first-use costs. Returns the algorithm tables that it measured on this machine, if later runs can
    /// use them.
    ///
    /// # Errors
    /// A library call fails, or another rank does not arrive in time.
    fn init(&mut self, world: &mut dyn World) -> Result<Vec<Table>, RunError>;

    /// Begins the tuning pass, which runs every case once before anything is timed and calls
    /// [`Backend::record_tuning_choice`] after each. Returns false where the backend has no log to
    /// capture: there is no tuning pass then.
    fn begin_log_capture(&mut self) -> bool {
        false
    }

    /// Ends the tuning pass.
    fn end_log_capture(&mut self) {}

    /// Records what the library logged about the case that has just run on every rank.
    ///
    /// # Errors
    /// The library cannot predict the case's time.
    fn record_tuning_choice(&mut self, _case: &Case) -> Result<(), BackendError> {
        Ok(())
    }

    /// Whether [`Backend::library`] knows everything before the first row, which may need it: names of ports.
    fn is_known_at_once(&self) -> bool {
        false
    }

    /// What a library reports about itself, if that is new since the last call. Called before or after
    /// the first row, and at the end.
    fn library(&mut self) -> Option<LibraryFacts> {
        None
    }

    /// Disconnects from the other ranks after all of them have measured everything (`MPI_Finalize`).
    ///
    /// # Errors
    /// The library's own call fails.
    fn finalize(self: Box<Self>) -> Result<(), BackendError> {
        Ok(())
    }

    /// Aborts what is under way, after a failure that was reported already: waiting for it could take
    /// for ever.
    fn abort(&mut self) {}

    /// GPU memory used so far, of the GPU that uses most. `None` without `-M`.
    fn gpu_memory(&self) -> Option<GpuMemory> {
        None
    }

    /// PCI address of the GPU of this thread's rank, if it has one.
    fn gpu_address(&self) -> Option<String> {
        None
    }

    /// The channel for point-to-point messages to other ranks.
    ///
    /// # Errors
    /// The reason why there is none: it becomes a waived row.
    fn channel(&mut self) -> Result<&mut dyn Channel, Reason> {
        Err(Reason("this backend has no messages between pairs of ranks".to_owned()))
    }

    /// Prepares a case: its arguments and its parts of the buffers.
    fn prepare<'a>(&'a mut self, case: &'a Case) -> Box<dyn Prepared + 'a>;
}

/// A case that is ready to run.
pub trait Prepared {
    /// The facts about the case that go into the record, whatever its times are.
    fn facts(&self) -> CaseFacts;

    /// Writes the input of an operation, and poison to where its result goes.
    ///
    /// # Errors
    /// A copy to the GPU fails, or the run was stopped.
    fn fill(&mut self, operation: Operation, seed: u64) -> Result<(), BackendError>;

    /// Begins a graph capture: operations are recorded for [`Prepared::replay`] and do not run.
    ///
    /// # Errors
    /// The backend has no graphs, or the GPU's driver refuses the capture.
    fn begin_capture(&mut self) -> Result<(), BackendError> {
        Err(no_graphs())
    }

    /// Ends the graph capture.
    ///
    /// # Errors
    /// The backend has no graphs, or the GPU's driver refuses to build the graph.
    fn end_capture(&mut self) -> Result<(), BackendError> {
        Err(no_graphs())
    }

    /// Launches the captured graph.
    ///
    /// # Errors
    /// The backend has no graphs, or the GPU's driver refuses the launch.
    fn replay(&mut self) -> Result<(), BackendError> {
        Err(no_graphs())
    }

    /// Starts the clock at zero.
    fn start(&mut self);

    /// Seconds since [`Prepared::start`].
    fn elapsed(&self) -> f64;

    /// Starts an operation; a blocking backend also completes it.
    ///
    /// # Errors
    /// The library refuses the call, or a wait for another rank fails.
    fn enqueue(&mut self, operation: Operation) -> Result<(), BackendError>;

    /// Begins a group: the operations enqueued until [`Prepared::end_fused`] may start as one (`-m`). A
    /// backend without groups runs them one by one.
    ///
    /// # Errors
    /// The library refuses the call.
    fn begin_fused(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Ends the group that [`Prepared::begin_fused`] began.
    ///
    /// # Errors
    /// The library refuses an operation of the group.
    fn end_fused(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Delays by `seconds` after the operation just enqueued: an injected fault.
    fn delay(&mut self, seconds: f64);

    /// Waits for everything that was enqueued and returns this thread's seconds since
    /// [`Prepared::start`].
    ///
    /// # Errors
    /// The deadline passes, the library reports an error, or the run was stopped.
    fn finish(&mut self, deadline: Option<Instant>) -> Result<f64, BackendError>;

    /// Stays in the library until the other ranks have completed their operations, too. All ranks call it
    /// after [`Prepared::finish`] and before a barrier outside of the library: a library that makes
    /// progress only while it is called would otherwise leave another rank waiting for ever. Returns
    /// whether this call was a barrier by itself.
    ///
    /// # Errors
    /// The library's own call fails.
    fn quiesce(&mut self) -> Result<Synchronized, BackendError> {
        Ok(Synchronized::No)
    }

    /// Records a time stamp between what was enqueued before and what comes after.
    ///
    /// # Errors
    /// The GPU's driver refuses an event.
    fn mark(&mut self) -> Result<(), BackendError>;

    /// Seconds from each time stamp to the next, of the slowest rank. Call it after [`Prepared::finish`]:
    /// an asynchronous backend passes the stamps long after they were enqueued.
    ///
    /// # Errors
    /// The GPU's driver cannot read an event.
    fn laps(&self) -> Result<Vec<f64>, BackendError>;

    /// Compares the result of an operation on inputs made from `seed` with the exact result, on every
    /// rank of this thread.
    ///
    /// # Errors
    /// A copy from the GPU fails, or the run was stopped.
    fn verify(&mut self, operation: Operation, seed: u64) -> Result<Vec<Found>, BackendError>;

    /// Flips one bit of element `element` of world rank `rank`'s result: an injected fault.
    ///
    /// # Errors
    /// A copy to or from the GPU fails.
    fn corrupt(
        &mut self,
        operation: Operation,
        rank: usize,
        element: u64,
    ) -> Result<(), BackendError>;
}

/// Whether a backend's call was a barrier, so that none is needed outside of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synchronized {
    /// No rank returned before all ranks had called.
    Yes,
    /// The ranks are not synchronised.
    No,
}

/// Completes what was enqueued on every rank and returns this thread's seconds since
/// [`Prepared::start`].
///
/// # Errors
/// As [`Prepared::finish`] and [`Prepared::quiesce`].
pub(crate) fn finish_all(
    prepared: &mut dyn Prepared,
    deadline: Option<Instant>,
) -> Result<f64, BackendError> {
    let seconds = prepared.finish(deadline)?;
    prepared.quiesce()?;
    Ok(seconds)
}

/// The error of a backend without graphs. The plan waives `-G` there, so that no user sees it.
fn no_graphs() -> BackendError {
    let text = "this backend has no graphs".to_owned();
    BackendError::Refused { text, exit: Exit::Internal }
}

/// The differences between successive time stamps, in seconds.
pub(crate) fn laps(marks: &[f64]) -> Vec<f64> {
    marks.windows(2).map(|pair| pair[1] - pair[0]).collect()
}
