//! The `host` backend: this machine's memory, by busbw's own collectives. Always available.
//! Not the collectives themselves: those are in `busbw-shm`.

mod channel;
mod factory;

use std::time::{Duration, Instant};

use busbw_core::{
    Collective,
    algorithm::{Choice, Table},
    layout::Shape,
    pattern::{self, POISON, Pattern},
    plan::{Case, Placement, Plan, Sweep},
};
use busbw_job::world::World;
use busbw_shm::{Buffer, Call, Communicator, Exchange, Messages, Region};

use self::channel::HostChannel;
pub(super) use self::factory::HostFactory;
use super::{
    Backend, BackendError, CaseFacts, Channel, Found, Operation, Prepared, Reason, defined,
    in_memory, laps,
};
use crate::backend::RunError;

/// The backend as one rank holds it.
#[derive(Debug)]
pub struct Host<'p> {
    plan: &'p Plan,
    world_rank: usize,
    communicator: Communicator,
    channel: Option<HostChannel>,
    /// The collective, if its algorithm table for this machine is missing or incomplete.
    untuned: Option<Collective>,
}

impl<'p> Host<'p> {
    /// World rank `world_rank`, over its communicator, with the algorithm tables that earlier runs
    /// measured on this host; `messages` where messages are measured.
    pub fn new(
        plan: &'p Plan,
        world_rank: usize,
        mut communicator: Communicator,
        messages: Option<Messages>,
        tables: &[Table],
    ) -> Host<'p> {
        communicator.set_timeout(plan.timeout_s.map(Duration::from_secs));
        let ranks = communicator.size();
        let mut untuned = None;
        if let Some(collective) = plan.benchmark.collective() {
            let needed = Communicator::tunes_to(collective, ranks, plan.buffer_bytes());
            let fitting = |t: &&Table| {
                (t.collective, t.ranks) == (collective, ranks) && t.measured_to >= needed
            };
            match tables.iter().find(fitting) {
                Some(table) => communicator.set_table(table.clone()),
                None => untuned = Some(collective).filter(|c| tunable(*c, ranks)),
            }
        }
        let channel = messages.map(|mut messages| {
            messages.set_timeout(plan.timeout_s.map(Duration::from_secs));
            HostChannel(messages)
        });
        Host { plan, world_rank, communicator, channel, untuned }
    }
}

/// Whether a collective has several algorithms for this number of ranks.
fn tunable(collective: Collective, ranks: usize) -> bool {
    collective.moves_data() && collective.allows(ranks)
}

impl Backend for Host<'_> {
    fn supported(&self, case: &Case) -> Result<(), Reason> {
        defined(case.collective, self.communicator.size())
    }

    fn init(&mut self, _: &mut dyn World) -> Result<Option<Table>, RunError> {
        self.communicator.touch().map_err(BackendError::from)?;
        let Some(collective) = self.untuned else { return Ok(None) };
        let table = self
            .communicator
            .tune(collective, self.plan.buffer_bytes())
            .map_err(BackendError::from)?;
        self.communicator.set_table(table.clone());
        // The smallest buffers hold none of these sizes.
        Ok((table.measured_to > 0).then_some(table))
    }

    fn channel(&mut self) -> Result<&mut dyn Channel, Reason> {
        match &mut self.channel {
            Some(channel) => Ok(channel),
            None => Err(Reason("no memory for messages was created".to_owned())),
        }
    }

    fn prepare<'a>(&'a mut self, case: &'a Case) -> Box<dyn Prepared + 'a> {
        let element = case.sweep.datatype.bytes();
        let shape = Shape {
            collective: case.collective,
            counts: case.counts,
            ranks: self.communicator.size(),
            root: case.sweep.root,
            traffic: &self.plan.traffic,
            element_bytes: element,
        };
        let communicator = &mut self.communicator;
        let (rank, ranks) = (communicator.rank(), communicator.size());
        let (count, datatype) = (case.counts.param, case.sweep.datatype);
        let (collective, traffic) = (case.collective, &self.plan.traffic);
        let exchange = Exchange::of(collective, traffic, count, datatype, rank, ranks);
        // Time stamps are taken while the clock runs: the list must not grow then.
        let iterations = if self.plan.per_iteration { self.plan.iterations as usize } else { 0 };
        let marks = Vec::with_capacity(iterations + 1);
        let choice = communicator.choice(&call(case, (NOWHERE, NOWHERE), &exchange));
        Box::new(HostCase {
            plan: self.plan,
            case,
            shape,
            world_rank: self.world_rank,
            communicator,
            choice,
            started: Instant::now(),
            marks,
            exchange,
        })
    }
}

/// A case on shared buffers.
struct HostCase<'a> {
    plan: &'a Plan,
    case: &'a Case,
    shape: Shape<'a>,
    world_rank: usize,
    communicator: &'a mut Communicator,
    /// The algorithm of its operations: the same for all, since they are equally large.
    choice: Choice,
    started: Instant,
    marks: Vec<f64>,
    exchange: Exchange,
}

impl HostCase<'_> {
    fn pattern(&self, seed: u64) -> Pattern {
        let sweep = self.case.sweep;
        Pattern { seed, datatype: sweep.datatype, op: sweep.op, ranks: self.shape.ranks }
    }

    /// The regions that an operation sends from and receives to.
    fn regions(&self, operation: Operation) -> (Region, Region) {
        let element = self.shape.element_bytes;
        let unaligned = self.plan.unalign * element;
        let shift = unaligned + self.plan.shift(self.case, operation.iteration);
        let (buffer, base) =
            if operation.verified { (Buffer::Check, unaligned) } else { (Buffer::Recv, shift) };
        let whole = Region { buffer, offset: base, stride: 0 };
        let counts = &self.case.counts;
        match operation.placement {
            Placement::OutOfPlace => {
                (Region { buffer: Buffer::Send, offset: shift, stride: 0 }, whole)
            }
            Placement::InPlace => (
                Region { stride: counts.send_in_place_stride * element, ..whole },
                Region { stride: counts.recv_in_place_stride * element, ..whole },
            ),
        }
    }

    /// `elements` elements of one of our own regions.
    fn own(&mut self, region: Region, elements: usize) -> &mut [u8] {
        let offset = region.offset + region.stride * self.communicator.rank();
        self.communicator.own(region.buffer, offset, elements * self.shape.element_bytes)
    }
}

/// The start of the send buffer, for a call that ignores the region.
const NOWHERE: Region = Region { buffer: Buffer::Send, offset: 0, stride: 0 };

/// The `Call` of an operation that sends from and receives to `regions`.
fn call<'a>(case: &Case, (send, recv): (Region, Region), exchange: &'a Exchange) -> Call<'a> {
    let Sweep { datatype, op, root } = case.sweep;
    let (collective, count) = (case.collective, case.counts.param);
    Call { collective, datatype, op, root, count, send, recv, exchange }
}

impl Prepared for HostCase<'_> {
    fn facts(&self) -> CaseFacts {
        let moves = self.case.collective.moves_data();
        CaseFacts { algorithm: moves.then(|| self.choice.to_string()), predicted_us: None }
    }

    fn fill(&mut self, operation: Operation, seed: u64) -> Result<(), BackendError> {
        let rank = self.communicator.rank();
        let (send, recv) = self.regions(operation);
        let whole = Region { stride: 0, ..recv };
        let elements = self.case.counts.send.max(self.case.counts.recv);
        self.own(whole, elements).fill(POISON);
        let (pattern, input) = (self.pattern(seed), self.shape.input(rank));
        let elements = self.shape.send_elements(rank);
        pattern::fill(self.own(send, elements), &pattern, input);
        Ok(())
    }

    fn start(&mut self) {
        self.marks.clear();
        self.started = Instant::now();
    }

    fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn enqueue(&mut self, operation: Operation) -> Result<(), BackendError> {
        let call = call(self.case, self.regions(operation), &self.exchange);
        self.communicator.run_by(self.choice, &call)?;
        Ok(())
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
        let rank = self.communicator.rank();
        let (_, recv) = self.regions(operation);
        let pattern = self.pattern(seed);
        let elements = in_memory::filled(&self.case.counts, operation.placement);
        let shape = self.shape;
        let memory = self.own(recv, elements);
        let found = in_memory::verify(memory, &shape, &pattern, rank, operation.placement);
        Ok(vec![Found { rank: self.world_rank, mismatch: found }])
    }

    fn corrupt(
        &mut self,
        operation: Operation,
        _: usize,
        element: u64,
    ) -> Result<(), BackendError> {
        let (_, recv) = self.regions(operation);
        let (recv_elements, size) = (self.case.counts.recv, self.shape.element_bytes);
        if recv_elements > 0 {
            let at = (element as usize % recv_elements) * size;
            self.own(recv, recv_elements)[at] ^= 1;
        }
        Ok(())
    }
}
