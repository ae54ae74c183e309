//! The `net` backend: any net plugin of NCCL's kind, between memory of hosts; no GPU and no NCCL.
//! Not the plugin (`busbw_ffi::net` calls it), and not who starts the ranks.

mod channel;
/// busbw's own plugin as a file.
pub mod embedded;
mod factory;
mod join;
mod libraries;
mod link;
mod operations;
mod stats;
mod wait;

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use busbw_core::{
    Collective,
    algorithm::Table,
    exit::Exit,
    layout::Shape,
    pattern::{self, POISON, Pattern},
    plan::{Case, Placement, Plan},
    record::{LibraryFacts, NetFacts},
};
use busbw_ffi::net::{Memory, NetError};
use busbw_job::world::World;

use self::{link::Links, wait::Patience};
use super::{
    Backend, BackendError, CaseFacts, Channel, Found, Operation, Prepared, Reason, in_memory, laps,
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
    /// World rank `world.rank()`, connected with all its peers over the plugin `wanted`.
    ///
    /// # Errors
    /// The plugin cannot be used, or a peer does not connect in time.
    pub fn new(
        plan: &'p Plan,
        wanted: &Wanted,
        world: &mut dyn World,
        stopped: Box<dyn Fn() -> bool + 'p>,
    ) -> Result<Net<'p>, RunError> {
        join::join(plan, wanted, world, stopped)
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

    fn init(&mut self, _: &mut dyn World) -> Result<Option<Table>, RunError> {
        Ok(None)
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
        let shape = Shape {
            collective: case.collective,
            counts: case.counts,
            ranks: self.members.len(),
            root: case.sweep.root,
            traffic: &self.plan.traffic,
            element_bytes: case.sweep.datatype.bytes(),
        };
        // Time stamps are taken while the clock runs: the list must not grow then.
        let iterations = if self.plan.per_iteration { self.plan.iterations as usize } else { 0 };
        let marks = Vec::with_capacity(iterations + 1);
        Box::new(NetCase {
            plan: self.plan,
            case,
            shape,
            net: self,
            started: Instant::now(),
            marks,
        })
    }
}

/// A case on this rank's own buffers.
struct NetCase<'a, 'p> {
    plan: &'a Plan,
    case: &'a Case,
    shape: Shape<'a>,
    net: &'a mut Net<'p>,
    started: Instant,
    marks: Vec<f64>,
}

/// An offset in one of the buffers.
#[derive(Clone)]
struct At {
    memory: Rc<Memory>,
    offset: usize,
}

impl NetCase<'_, '_> {
    fn pattern(&self, seed: u64) -> Pattern {
        let sweep = self.case.sweep;
        Pattern { seed, datatype: sweep.datatype, op: sweep.op, ranks: self.shape.ranks }
    }

    /// Where an operation's result begins, or in place the whole buffer.
    fn whole(&self, operation: Operation) -> At {
        let element = self.shape.element_bytes;
        let unaligned = self.plan.unalign * element;
        match operation.verified {
            true => At { memory: Rc::clone(&self.net.buffers.check), offset: unaligned },
            false => {
                let offset = unaligned + self.plan.shift(self.case, operation.iteration);
                At { memory: Rc::clone(&self.net.buffers.recv), offset }
            }
        }
    }

    /// The offsets that an operation sends from and receives to.
    fn offsets(&self, operation: Operation) -> (At, At) {
        let (element, me) = (self.shape.element_bytes, self.net.me);
        let whole = self.whole(operation);
        let counts = &self.case.counts;
        let strided =
            |stride: usize| At { offset: whole.offset + stride * me * element, ..whole.clone() };
        match operation.placement {
            Placement::OutOfPlace => {
                let shift =
                    self.plan.unalign * element + self.plan.shift(self.case, operation.iteration);
                (At { memory: Rc::clone(&self.net.buffers.send), offset: shift }, whole)
            }
            Placement::InPlace => {
                (strided(counts.send_in_place_stride), strided(counts.recv_in_place_stride))
            }
        }
    }

    /// Calls `look` with `elements` elements.
    fn with<T>(
        &self,
        at: &At,
        elements: usize,
        look: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, BackendError> {
        let bytes = at.offset..at.offset + elements * self.shape.element_bytes;
        let part = at.memory.part(bytes);
        let mut part = part.map_err(|busy| failed(self.net.world_rank, busy.into()))?;
        Ok(look(&mut part))
    }
}

impl Prepared for NetCase<'_, '_> {
    fn facts(&self) -> CaseFacts {
        let algorithm = (self.case.collective == Collective::AllReduce).then(|| "ring".to_owned());
        CaseFacts { algorithm, predicted_us: None }
    }

    fn fill(&mut self, operation: Operation, seed: u64) -> Result<(), BackendError> {
        let (send, _) = self.offsets(operation);
        let whole = self.whole(operation);
        let elements = self.case.counts.send.max(self.case.counts.recv);
        self.with(&whole, elements, |bytes| bytes.fill(POISON))?;
        let (pattern, input) = (self.pattern(seed), self.shape.input(self.net.me));
        let elements = self.shape.send_elements(self.net.me);
        self.with(&send, elements, |bytes| pattern::fill(bytes, &pattern, input))
    }

    fn start(&mut self) {
        self.marks.clear();
        self.started = Instant::now();
    }

    fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn enqueue(&mut self, operation: Operation) -> Result<(), BackendError> {
        let (send, recv) = self.offsets(operation);
        operations::run(self.net, self.case, &send, &recv)
    }

    fn delay(&mut self, seconds: f64) {
        let until = self.elapsed() + seconds;
        while self.elapsed() < until {
            std::hint::spin_loop();
        }
    }

    /// Operations are complete when they return.
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

    fn verify(&mut self, operation: Operation, seed: u64) -> Result<Vec<Found>, BackendError> {
        let (_, recv) = self.offsets(operation);
        let pattern = self.pattern(seed);
        let (shape, me) = (self.shape, self.net.me);
        let elements = in_memory::filled(&self.case.counts, operation.placement);
        let mismatch = self.with(&recv, elements, |memory| {
            in_memory::verify(memory, &shape, &pattern, me, operation.placement)
        })?;
        Ok(vec![Found { rank: self.net.world_rank, mismatch }])
    }

    fn corrupt(
        &mut self,
        operation: Operation,
        _: usize,
        element: u64,
    ) -> Result<(), BackendError> {
        let (_, recv) = self.offsets(operation);
        let (elements, size) = (self.case.counts.recv, self.shape.element_bytes);
        if elements > 0 {
            let at = (element as usize % elements) * size;
            self.with(&recv, elements, |bytes| bytes[at] ^= 1)?;
        }
        Ok(())
    }
}
