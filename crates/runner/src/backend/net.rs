//! The `net` backend: any net plugin of NCCL's kind, between memory of hosts; no GPU and no NCCL.
//! Not the plugin (`busbw_ffi::net` calls it), and not who starts the ranks.

mod channel;
mod factory;
mod join;
mod libraries;
mod link;
mod operations;
mod stats;

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use busbw_core::{
    Collective,
    algorithm::Table,
    exit::Exit,
    plan::{Case, Placement, Plan},
    record::{LibraryFacts, NetFacts},
};
use busbw_ffi::net::{Guard, Memory, NetError, Plugin};
use busbw_job::world::World;
use busbw_shm::{Buffer, Region};

use self::link::Links;
use super::{
    Backend, BackendError, CaseFacts, Channel, Prepared, Reason,
    in_memory::{self, Bytes, InMemory, RankMemory},
    patience::{Patience, abort_of_lost_rank},
};
use crate::backend::RunError;

pub(super) use factory::NetFactory;
pub use libraries::{OWN_PLUGIN, Wanted};
pub use stats::Stats;

/// The backend as one rank holds it.
pub struct Net<'p> {
    plan: &'p Plan,
    world_rank: usize,
    /// World ranks of our communicator, and our index among them.
    members: Vec<usize>,
    me: usize,
    links: Links,
    buffers: Buffers,
    /// The largest message of the plugin, in bytes.
    most: usize,
    facts: Option<NetFacts>,
    /// Whether the supervisor has aborted the run.
    stopped: Box<dyn Fn() -> bool + 'p>,
}

/// A rank's memory.
struct Buffers {
    send: Rc<Memory>,
    recv: Rc<Memory>,
    check: Rc<Memory>,
    /// Received data that is still to be reduced.
    scratch: Rc<Memory>,
}

impl<'p> Net<'p> {
    /// World rank `world.rank()`, connected with all its peers over the plugin `wanted`, which is started unless it was.
    ///
    /// # Errors
    /// The plugin cannot be used, or a peer does not connect in time.
    pub fn new(
        plan: &'p Plan,
        wanted: &Wanted,
        started: &mut Option<&'static Plugin>,
        world: &mut dyn World,
        stopped: Box<dyn Fn() -> bool + 'p>,
    ) -> Result<Net<'p>, RunError> {
        join::join(plan, wanted, started, world, stopped)
    }

    /// World rank of the member with index `place`, which wraps around.
    fn member(&self, place: usize) -> usize {
        self.members[place % self.members.len()]
    }
}

/// A wait that starts now.
fn patience<'s>(plan: &Plan, stopped: &'s dyn Fn() -> bool) -> Patience<'s> {
    let until = plan.timeout_s.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    Patience::new(stopped, until)
}

/// A failure of the plugin as an error of the run.
fn failed(rank: usize, error: NetError) -> BackendError {
    let exit = match error {
        NetError::Busy(_) | NetError::Misuse(_) => Exit::Internal,
        _ => Exit::Library,
    };
    BackendError::Refused { text: format!("rank {rank}: {error}"), exit }
}

/// A failure of a connection as an error of the run.
fn broken(stopped: &dyn Fn() -> bool, rank: usize, error: NetError) -> BackendError {
    if matches!(error, NetError::Refused { .. })
        && let Err(aborted) = abort_of_lost_rank(stopped)
    {
        return aborted.into();
    }
    failed(rank, error)
}

impl Backend for Net<'_> {
    fn supported(&self, case: &Case) -> Result<(), Reason> {
        operations::supported(case)
    }

    fn has_in_place(&self, case: &Case) -> Result<(), Reason> {
        match case.collective {
            Collective::SendRecv => {
                Err(Reason("the memory is being sent, so nothing can be received there".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn init(&mut self, _: &mut dyn World) -> Result<Vec<Table>, RunError> {
        Ok(Vec::new())
    }

    fn library(&mut self) -> Option<LibraryFacts> {
        self.facts.take().map(|facts| LibraryFacts::Net(facts.into()))
    }

    fn finalize(self: Box<Self>) -> Result<(), BackendError> {
        let rank = self.world_rank;
        self.links.close().map_err(|error| failed(rank, error))
    }

    fn channel(&mut self) -> Result<&mut dyn Channel, Reason> {
        Ok(self)
    }

    fn prepare<'a>(&'a mut self, case: &'a Case) -> Box<dyn Prepared + 'a> {
        let (plan, place) = (self.plan, (self.me, self.members.len()));
        let world_rank = self.world_rank;
        Box::new(InMemory::new(plan, case, place, world_rank, self))
    }
}

/// An offset in one of the buffers.
#[derive(Clone)]
struct At {
    memory: Rc<Memory>,
    offset: usize,
}

impl Buffers {
    fn of(&self, buffer: Buffer) -> &Rc<Memory> {
        match buffer {
            Buffer::Send => &self.send,
            Buffer::Recv => &self.recv,
            Buffer::Check => &self.check,
        }
    }
}

impl Net<'_> {
    /// The beginning of our part of a region.
    fn at(&self, region: Region) -> At {
        let memory = Rc::clone(self.buffers.of(region.buffer));
        At { memory, offset: in_memory::offset(region, self.me) }
    }

    /// A part of a buffer, to read and to change.
    fn part(&self, (buffer, bytes): Bytes) -> Result<Guard<'_>, BackendError> {
        self.buffers.of(buffer).part(bytes).map_err(|busy| failed(self.world_rank, busy.into()))
    }
}

impl RankMemory for &mut Net<'_> {
    #[inline]
    fn run(
        &mut self,
        case: &Case,
        _: Placement,
        send: Region,
        recv: Region,
    ) -> Result<(), BackendError> {
        let (send, recv) = (self.at(send), self.at(recv));
        operations::run(self, case, &send, &recv)
    }

    fn write(&mut self, at: Bytes, fill: impl FnOnce(&mut [u8])) -> Result<(), BackendError> {
        fill(&mut self.part(at)?);
        Ok(())
    }

    fn look<T>(&mut self, at: Bytes, look: impl FnOnce(&[u8]) -> T) -> Result<T, BackendError> {
        Ok(look(&self.part(at)?))
    }

    fn facts(&self, case: &Case) -> CaseFacts {
        let algorithm = (case.collective == Collective::AllReduce).then(|| "ring".to_owned());
        CaseFacts { algorithm, predicted_us: None }
    }
}
