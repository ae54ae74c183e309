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
    layout::Shape,
    pattern::{self, POISON, Pattern},
    plan::{Case, Placement, Plan},
    record::LibraryFacts,
};
use busbw_ffi::mpi::{Part, Rank, RankError, Which};
use busbw_job::world::World;
use busbw_library_logs::mpi::MpiFacts;

use self::operations::Prepared as Call;
use super::{
    Backend, BackendError, CaseFacts, Channel, Found, Operation, Prepared, Reason, Synchronized,
    defined, in_memory, laps,
};
use crate::backend::RunError;

pub(super) use factory::MpiFactory;
pub use libraries::{Gpu, Gpus, Libraries};
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

    fn shape(&self, case: &Case) -> Shape<'p> {
        Shape {
            collective: case.collective,
            counts: case.counts,
            ranks: self.rank.ranks(),
            root: case.sweep.root,
            traffic: &self.plan.traffic,
            element_bytes: case.sweep.datatype.bytes(),
        }
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
        let worked_out = Call::new(case, &self.shape(case), &self.rank);
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

    fn init(&mut self, _: &mut dyn World) -> Result<Option<Table>, RunError> {
        self.rank.barrier().map_err(failed)?;
        Ok(None)
    }

    fn channel(&mut self) -> Result<&mut dyn Channel, Reason> {
        Ok(self)
    }

    fn prepare<'a>(&'a mut self, case: &'a Case) -> Box<dyn Prepared + 'a> {
        let shape = self.shape(case);
        let iterations = if self.plan.per_iteration { self.plan.iterations as usize } else { 0 };
        let call = Call::new(case, &shape, &self.rank);
        let marks = Vec::with_capacity(iterations + 1);
        let (plan, rank) = (self.plan, &mut self.rank);
        Box::new(MpiCase { plan, case, shape, rank, call, started: Instant::now(), marks })
    }
}

/// A case on this rank's own buffers.
struct MpiCase<'a> {
    plan: &'a Plan,
    case: &'a Case,
    shape: Shape<'a>,
    rank: &'a mut Rank,
    call: Result<Call, RankError>,
    started: Instant,
    marks: Vec<f64>,
}

impl MpiCase<'_> {
    fn pattern(&self, seed: u64) -> Pattern {
        let sweep = self.case.sweep;
        Pattern { seed, datatype: sweep.datatype, op: sweep.op, ranks: self.shape.ranks }
    }

    /// The parts that an operation sends from and receives to: the first byte of each.
    fn regions(&self, operation: Operation) -> (Part, Part) {
        let element = self.shape.element_bytes;
        let unaligned = self.plan.unalign * element;
        let shift = unaligned + self.plan.shift(self.case, operation.iteration);
        let (which, base) =
            if operation.verified { (Which::Check, unaligned) } else { (Which::Recv, shift) };
        let counts = &self.case.counts;
        let me = self.rank.rank();
        let result = |stride: usize| Part { which, offset: base + stride * me * element, bytes: 0 };
        match operation.placement {
            Placement::OutOfPlace => {
                (Part { which: Which::Send, offset: shift, bytes: 0 }, result(0))
            }
            // MPI_Reduce_scatter_block leaves a share at the beginning, in place.
            Placement::InPlace if self.case.collective == Collective::ReduceScatter => {
                (result(0), result(0))
            }
            Placement::InPlace => {
                (result(counts.send_in_place_stride), result(counts.recv_in_place_stride))
            }
        }
    }

    /// `elements` elements from the beginning of `region`.
    fn part(&self, region: Part, elements: usize) -> Part {
        Part { bytes: elements * self.shape.element_bytes, ..region }
    }

    /// Whether MPI leaves this rank's result in the send buffer: MPI_Bcast has one buffer only.
    fn keeps_its_own(&self, operation: Operation) -> bool {
        self.case.collective == Collective::Broadcast
            && operation.placement == Placement::OutOfPlace
            && self.rank.rank() == self.case.sweep.root
    }
}

impl Prepared for MpiCase<'_> {
    fn facts(&self) -> CaseFacts {
        CaseFacts::default()
    }

    fn fill(&mut self, operation: Operation, seed: u64) -> Result<(), BackendError> {
        let me = self.rank.rank();
        let (send, recv) = self.regions(operation);
        let elements = self.case.counts.send.max(self.case.counts.recv);
        let whole = match operation.placement {
            Placement::OutOfPlace => recv,
            Placement::InPlace => {
                let first = Operation { placement: Placement::OutOfPlace, ..operation };
                self.regions(first).1
            }
        };
        let whole = self.part(whole, elements);
        self.rank.write(whole, |bytes| bytes.fill(POISON)).map_err(failed)?;
        let (pattern, input) = (self.pattern(seed), self.shape.input(me));
        let sent = self.part(send, self.shape.send_elements(me));
        self.rank.write(sent, |bytes| pattern::fill(bytes, &pattern, input)).map_err(failed)
    }

    fn start(&mut self) {
        self.marks.clear();
        self.started = Instant::now();
    }

    fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn enqueue(&mut self, operation: Operation) -> Result<(), BackendError> {
        let (send, recv) = self.regions(operation);
        let call = match &self.call {
            Ok(call) => call,
            Err(why) => {
                let text = format!("{}: {why}", self.case.collective.name());
                return Err(BackendError::Refused { text, exit: Exit::Library });
            }
        };
        call.run(self.rank, send, recv, operation.placement).map_err(failed)
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

    fn quiesce(&mut self) -> Result<Synchronized, BackendError> {
        self.rank.barrier().map_err(failed)?;
        Ok(Synchronized::Yes)
    }

    fn mark(&mut self) -> Result<(), BackendError> {
        self.marks.push(self.elapsed());
        Ok(())
    }

    fn laps(&self) -> Result<Vec<f64>, BackendError> {
        Ok(laps(&self.marks))
    }

    fn verify(&mut self, operation: Operation, seed: u64) -> Result<Vec<Found>, BackendError> {
        let me = self.rank.rank();
        let (send, recv) = self.regions(operation);
        let pattern = self.pattern(seed);
        let counts = self.case.counts;
        if self.keeps_its_own(operation) {
            let input = self.shape.input(me);
            let sent = self.part(send, counts.send);
            let mismatch = pattern::verify(self.rank.look(sent).map_err(failed)?, &pattern, input);
            return Ok(vec![Found { rank: me, mismatch }]);
        }
        let elements = in_memory::filled(&counts, operation.placement);
        let shape = self.shape;
        let result = self.part(recv, elements);
        let memory = self.rank.look(result).map_err(failed)?;
        let found = in_memory::verify(memory, &shape, &pattern, me, operation.placement);
        Ok(vec![Found { rank: me, mismatch: found }])
    }

    fn corrupt(
        &mut self,
        operation: Operation,
        _: usize,
        element: u64,
    ) -> Result<(), BackendError> {
        let (send, recv) = self.regions(operation);
        let region = if self.keeps_its_own(operation) { send } else { recv };
        let (elements, size) = (self.case.counts.recv, self.shape.element_bytes);
        if elements > 0 {
            let offset = region.offset + (element as usize % elements) * size;
            self.rank.flip(Part { offset, bytes: 1, ..region }).map_err(failed)?;
        }
        Ok(())
    }
}

/// The deadline of a wait that starts now.
fn deadline(plan: &Plan) -> Option<Instant> {
    plan.timeout_s.map(|seconds| Instant::now() + Duration::from_secs(seconds))
}
