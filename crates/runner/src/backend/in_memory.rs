//! A case whose data this process can read and write between operations: the part of `host`, `mpi` and `net` that
//! is the same.
//! Not where a rank's buffers are, nor how an operation runs (each backend's [`RankMemory`]), and not memory of GPUs
//! under NCCL.

use std::{ops::Range, time::Instant};

use busbw_core::{
    collective::Counts,
    layout::{Shape, Stretch},
    pattern::{self, Content, Mismatch, POISON, Pattern},
    plan::{Case, Placement, Plan},
};
use busbw_shm::{Buffer, Region};

use super::{BackendError, CaseFacts, Found, Operation, Prepared, Synchronized, laps};

/// Bytes of one of a rank's buffers.
pub(super) type Bytes = (Buffer, Range<usize>);

/// One rank's buffers for a case, and its operation.
pub(super) trait RankMemory {
    /// Runs the operation, which sends from and receives to these regions.
    ///
    /// # Errors
    /// A library call fails, or a wait for another rank does.
    fn run(
        &mut self,
        case: &Case,
        placement: Placement,
        send: Region,
        recv: Region,
    ) -> Result<(), BackendError>;

    /// Calls `fill` to write all of these bytes.
    ///
    /// # Errors
    /// They cannot be written, such as those on a GPU.
    fn write(&mut self, at: Bytes, fill: impl FnOnce(&mut [u8])) -> Result<(), BackendError>;

    /// Calls `look` with these bytes.
    ///
    /// # Errors
    /// They cannot be read, such as those on a GPU.
    fn look<T>(&mut self, at: Bytes, look: impl FnOnce(&[u8]) -> T) -> Result<T, BackendError>;

    /// As [`Prepared::facts`].
    fn facts(&self, _case: &Case) -> CaseFacts {
        CaseFacts::default()
    }

    /// As [`Prepared::quiesce`].
    fn quiesce(&mut self) -> Result<Synchronized, BackendError> {
        Ok(Synchronized::No)
    }

    /// Elements from one rank's part of a buffer to the next one's, in place: of what is sent, and of the result.
    fn in_place_strides(&self, case: &Case) -> (usize, usize) {
        (case.counts.send_in_place_stride, case.counts.recv_in_place_stride)
    }

    /// Whether this rank's result, out of place, is what it sent, and stays there.
    fn keeps_what_it_sent(&self, _case: &Case) -> bool {
        false
    }
}

/// A case on one rank's memory.
pub(super) struct InMemory<'a, M> {
    plan: &'a Plan,
    case: &'a Case,
    shape: Shape<'a>,
    /// This rank within its communicator, and among all.
    me: usize,
    world_rank: usize,
    /// Bytes from one rank's part of a buffer to the next one's, in place.
    strides: (usize, usize),
    memory: M,
    started: Instant,
    marks: Vec<f64>,
}

/// The shape of a case in a communicator of `ranks`.
pub(super) fn shape<'a>(plan: &'a Plan, case: &Case, ranks: usize) -> Shape<'a> {
    Shape {
        collective: case.collective,
        counts: case.counts,
        ranks,
        root: case.sweep.root,
        traffic: &plan.traffic,
        element_bytes: case.sweep.datatype.bytes(),
    }
}

impl<'a, M: RankMemory> InMemory<'a, M> {
    /// The case for rank `me` of a communicator of `ranks`, which is world rank `world_rank`.
    pub(super) fn new(
        plan: &'a Plan,
        case: &'a Case,
        (me, ranks): (usize, usize),
        world_rank: usize,
        memory: M,
    ) -> InMemory<'a, M> {
        let shape = shape(plan, case, ranks);
        let (sent, received) = memory.in_place_strides(case);
        let strides = (sent * shape.element_bytes, received * shape.element_bytes);
        // Time stamps are taken while the clock runs: the list must not grow then.
        let iterations = if plan.per_iteration { plan.iterations as usize } else { 0 };
        let marks = Vec::with_capacity(iterations + 1);
        let started = Instant::now();
        InMemory { plan, case, shape, me, world_rank, strides, memory, started, marks }
    }

    fn pattern(&self, seed: u64) -> Pattern {
        let sweep = self.case.sweep;
        Pattern { seed, datatype: sweep.datatype, op: sweep.op, ranks: self.shape.ranks }
    }

    /// The regions that an operation sends from and receives to.
    #[inline]
    fn regions(&self, operation: Operation) -> (Region, Region) {
        let unaligned = self.plan.unalign * self.shape.element_bytes;
        let shift = unaligned + self.plan.shift(self.case, operation.iteration);
        let (buffer, offset) =
            if operation.verified { (Buffer::Check, unaligned) } else { (Buffer::Recv, shift) };
        let whole = Region { buffer, offset, stride: 0 };
        match operation.placement {
            Placement::OutOfPlace => {
                (Region { buffer: Buffer::Send, offset: shift, stride: 0 }, whole)
            }
            Placement::InPlace => (
                Region { stride: self.strides.0, ..whole },
                Region { stride: self.strides.1, ..whole },
            ),
        }
    }

    /// The region of this rank's result.
    fn result(&self, operation: Operation) -> Region {
        let (send, recv) = self.regions(operation);
        if self.is_kept(operation) { send } else { recv }
    }

    fn is_kept(&self, operation: Operation) -> bool {
        operation.placement == Placement::OutOfPlace && self.memory.keeps_what_it_sent(self.case)
    }

    /// `elements` elements of this rank's part of a region, from the `first` on.
    fn part(&self, region: Region, first: usize, elements: usize) -> Bytes {
        let (element, offset) = (self.shape.element_bytes, offset(region, self.me));
        (region.buffer, offset + first * element..offset + (first + elements) * element)
    }
}

/// The offset of rank `me`'s part of a region.
#[inline]
pub(super) fn offset(region: Region, me: usize) -> usize {
    region.offset + region.stride * me
}

impl<M: RankMemory> Prepared for InMemory<'_, M> {
    fn facts(&self) -> CaseFacts {
        self.memory.facts(self.case)
    }

    fn fill(&mut self, operation: Operation, seed: u64) -> Result<(), BackendError> {
        let (send, recv) = self.regions(operation);
        let elements = self.case.counts.send.max(self.case.counts.recv);
        let whole = self.part(Region { stride: 0, ..recv }, 0, elements);
        self.memory.write(whole, |bytes| bytes.fill(POISON))?;
        let (pattern, input) = (self.pattern(seed), self.shape.input(self.me));
        let sent = self.part(send, 0, self.shape.send_elements(self.me));
        self.memory.write(sent, |bytes| pattern::fill(bytes, &pattern, input))
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
        self.memory.run(self.case, operation.placement, send, recv)
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
        self.memory.quiesce()
    }

    fn mark(&mut self) -> Result<(), BackendError> {
        self.marks.push(self.elapsed());
        Ok(())
    }

    fn laps(&self) -> Result<Vec<f64>, BackendError> {
        Ok(laps(&self.marks))
    }

    fn verify(&mut self, operation: Operation, seed: u64) -> Result<Vec<Found>, BackendError> {
        let (pattern, shape, me) = (self.pattern(seed), self.shape, self.me);
        let (region, counts) = (self.result(operation), &self.case.counts);
        let mismatch = if self.is_kept(operation) {
            let (sent, input) = (self.part(region, 0, counts.send), shape.input(me));
            self.memory.look(sent, |bytes| pattern::verify(bytes, &pattern, input))
        } else {
            let result = self.part(region, 0, filled(counts, operation.placement));
            self.memory
                .look(result, |bytes| verify(bytes, &shape, &pattern, me, operation.placement))
        };
        Ok(vec![Found { rank: self.world_rank, mismatch: mismatch? }])
    }

    fn corrupt(
        &mut self,
        operation: Operation,
        _: usize,
        element: u64,
    ) -> Result<(), BackendError> {
        let elements = self.case.counts.recv;
        if elements == 0 {
            return Ok(());
        }
        let (buffer, bytes) = self.part(self.result(operation), element as usize % elements, 1);
        let first = (buffer, bytes.start..bytes.start + 1);
        let byte = self.memory.look(first.clone(), |bytes| bytes[0])?;
        self.memory.write(first, |bytes| bytes[0] = byte ^ 1)
    }
}

/// Number of elements from the beginning of a result that `fill` wrote before: the result itself
/// and, out of place, what lies behind it.
fn filled(counts: &Counts, placement: Placement) -> usize {
    match placement {
        Placement::InPlace => counts.recv,
        Placement::OutOfPlace => counts.recv.max(counts.send),
    }
}

/// Compares rank `rank`'s result, [`filled`] elements long, with the exact one. Poison behind it
/// must still be poison; in place that part was the input.
fn verify(
    memory: &[u8],
    shape: &Shape<'_>,
    pattern: &Pattern,
    rank: usize,
    placement: Placement,
) -> Mismatch {
    let (element, counts) = (shape.element_bytes, &shape.counts);
    let mut stretches = shape.output(rank, placement == Placement::InPlace);
    let behind = filled(counts, placement) - counts.recv;
    stretches.push(Stretch { at: counts.recv, len: behind, content: Content::Poison });
    let mut found = Mismatch::default();
    for stretch in stretches.iter().filter(|stretch| stretch.len > 0) {
        let bytes = &memory[stretch.at * element..(stretch.at + stretch.len) * element];
        found.add(pattern::verify(bytes, pattern, stretch.content), stretch.at as u64);
    }
    found
}
