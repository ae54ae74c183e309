//! The `mpi` backend: the MPI library of this machine, with each rank's buffers in its own memory
//! or, where the library accepts it, in a GPU's.
//! Not how the ranks are started: a launcher does that, and MPI must see the same ranks.

mod channel;
mod factory;
mod join;
mod libraries;
mod log;
mod operations;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use busbw_core::{
    Collective,
    algorithm::Table,
    exit::Exit,
    plan::{Case, Placement, Plan},
    record::LibraryFacts,
};
use busbw_ffi::mpi::{Part, Rank, RankError, Which};
use busbw_job::world::World;
use busbw_library_logs::mpi::MpiFacts;
use busbw_shm::{Buffer, Region};

use self::operations::Prepared as Call;
use super::{
    Backend, BackendError, Channel, Prepared, Reason, Synchronized, defined,
    in_memory::{self, Bytes, InMemory, RankMemory, shape},
};
use crate::backend::RunError;

pub use super::buffer_gpus::{Gpu, Gpus};
pub(super) use factory::MpiFactory;
pub use libraries::Libraries;
pub use log::{Log, log_filter};

/// The backend as one rank holds it.
pub struct Mpi<'p> {
    plan: &'p Plan,
    rank: Rank,
    /// PCI address of the GPU that holds our buffers, if one does.
    gpu: Option<String>,
    log: Arc<Log>,
    /// Whether no other rank is on this host.
    alone: bool,
    /// The facts that were reported last.
    reported: Option<MpiFacts>,
    /// Whether the supervisor has aborted the run.
    stopped: Box<dyn Fn() -> bool + 'p>,
}

impl<'p> Mpi<'p> {
    /// World rank `world.rank()`, joined with all others, with its buffers on `gpu` if there is
    /// one. The library, which must not be loaded before, writes into `log`.
    ///
    /// # Errors
    /// MPI sees other ranks than the launcher started, or it takes no buffers on GPUs.
    pub fn new(
        plan: &'p Plan,
        libraries: &Libraries,
        gpu: Option<Gpu>,
        log: Arc<Log>,
        world: &mut dyn World,
        stopped: Box<dyn Fn() -> bool + 'p>,
    ) -> Result<Mpi<'p>, RunError> {
        let rank = join::join(plan, libraries, gpu.as_ref(), world)?;
        let gpu = gpu.map(|gpu| gpu.facts.address);
        let host = world.host().as_bytes().to_vec();
        let here = world.allgather(&host, None)?.iter().filter(|other| **other == host).count();
        Ok(Mpi { plan, rank, gpu, log, alone: here == 1, reported: None, stopped })
    }
}

/// A failure of MPI as an error of the run.
fn failed(error: RankError) -> BackendError {
    BackendError::Refused { text: error.to_string(), exit: Exit::Library }
}

impl Backend for Mpi<'_> {
    fn gpu_address(&self) -> Option<String> {
        self.gpu.clone()
    }

    fn supported(&self, case: &Case) -> Result<(), Reason> {
        defined(case.collective, self.rank.ranks())?;
        let shape = shape(self.plan, case, self.rank.ranks());
        let worked_out = Call::new(case, &shape, &self.rank);
        worked_out.map(drop).map_err(|why| Reason(why.to_string()))
    }

    fn has_in_place(&self, case: &Case) -> Result<(), Reason> {
        operations::has_in_place(case, &self.rank)
    }

    fn library(&mut self) -> Option<LibraryFacts> {
        let facts = self.log.facts(self.rank.rank(), self.rank.mpi().version_text(), self.alone);
        let is_new = self.reported.as_ref() != Some(&facts);
        self.reported = Some(facts.clone());
        is_new.then(|| LibraryFacts::Mpi(facts.into()))
    }

    fn finalize(self: Box<Self>) -> Result<(), BackendError> {
        self.rank.finalize().map_err(|error| failed(error.into()))
    }

    fn init(&mut self, _: &mut dyn World) -> Result<Vec<Table>, RunError> {
        self.rank.barrier().map_err(failed)?;
        Ok(Vec::new())
    }

    fn channel(&mut self) -> Result<&mut dyn Channel, Reason> {
        Ok(self)
    }

    fn prepare<'a>(&'a mut self, case: &'a Case) -> Box<dyn Prepared + 'a> {
        let rank = &mut self.rank;
        let (me, ranks) = (rank.rank(), rank.ranks());
        let call = Call::new(case, &shape(self.plan, case, ranks), rank);
        Box::new(InMemory::new(self.plan, case, (me, ranks), me, OwnBuffers { rank, call }))
    }
}

/// This rank's own buffers, and the operation of a case.
struct OwnBuffers<'a> {
    rank: &'a mut Rank,
    call: Result<Call, RankError>,
}

/// A part of a buffer as MPI's calls take it.
#[inline]
fn part((buffer, bytes): Bytes) -> Part {
    let which = match buffer {
        Buffer::Send => Which::Send,
        Buffer::Recv => Which::Recv,
        Buffer::Check => Which::Check,
    };
    Part { which, offset: bytes.start, bytes: bytes.len() }
}

impl OwnBuffers<'_> {
    /// The first byte of our part of a region.
    #[inline]
    fn first(&self, region: Region) -> Part {
        let offset = in_memory::offset(region, self.rank.rank());
        part((region.buffer, offset..offset))
    }
}

impl RankMemory for OwnBuffers<'_> {
    #[inline]
    fn run(
        &mut self,
        case: &Case,
        placement: Placement,
        send: Region,
        recv: Region,
    ) -> Result<(), BackendError> {
        let (send, recv) = (self.first(send), self.first(recv));
        let call = match &self.call {
            Ok(call) => call,
            Err(why) => {
                let text = format!("{}: {why}", case.collective.name());
                return Err(BackendError::Refused { text, exit: Exit::Library });
            }
        };
        call.run(self.rank, send, recv, placement).map_err(failed)
    }

    fn write(&mut self, at: Bytes, fill: impl FnOnce(&mut [u8])) -> Result<(), BackendError> {
        self.rank.write(part(at), fill).map_err(failed)
    }

    fn look<T>(&mut self, at: Bytes, look: impl FnOnce(&[u8]) -> T) -> Result<T, BackendError> {
        self.rank.look(part(at)).map(look).map_err(failed)
    }

    fn quiesce(&mut self) -> Result<Synchronized, BackendError> {
        self.rank.barrier().map_err(failed)?;
        Ok(Synchronized::Yes)
    }

    /// MPI_Reduce_scatter_block leaves a share at the beginning.
    fn in_place_strides(&self, case: &Case) -> (usize, usize) {
        match case.collective {
            Collective::ReduceScatter => (0, 0),
            _ => (case.counts.send_in_place_stride, case.counts.recv_in_place_stride),
        }
    }

    /// MPI_Bcast has one buffer only: the root's.
    fn keeps_what_it_sent(&self, case: &Case) -> bool {
        case.collective == Collective::Broadcast && self.rank.rank() == case.sweep.root
    }
}

/// The deadline of a wait that starts now.
fn deadline(plan: &Plan) -> Option<Instant> {
    plan.timeout_s.map(|seconds| Instant::now() + Duration::from_secs(seconds))
}
