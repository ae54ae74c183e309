//! The eleven collectives as NCCL calls: which function, with which parts of the buffers.
//! Not when they run, and not on how many ranks of this thread (`case`).

use busbw_core::{
    Collective, DataType, ReduceOp,
    layout::Shape,
    number::FloatFormat,
    plan::{Placement, Plan},
};
use busbw_ffi::{
    gpu::Span,
    nccl::{CallConfig, Communicator, NcclError, Operation as Call, Operator},
};

use crate::backend::Operation;
use crate::backend::nccl::gpu_rank::GpuRank;

/// A case's operator on one rank: a built-in one, or one created for its communicator.
#[derive(Debug)]
pub(super) enum RankOperator {
    Builtin(Operator),
    /// `mulsum`: nccl-tests makes and destroys one within every timed call (src/common.cu:592-617);
    /// here it is made once a case.
    Made(Operator),
}

impl RankOperator {
    /// The operator of `op` for a rank of `communicator`.
    pub(super) fn new(
        communicator: &Communicator,
        op: ReduceOp,
        datatype: DataType,
    ) -> Result<RankOperator, NcclError> {
        if let Some(operator) = Operator::builtin(op) {
            return Ok(RankOperator::Builtin(operator));
        }
        let scalar = ReduceOp::premul_scalar(communicator.rank());
        let bits = match FloatFormat::of(datatype) {
            Some(format) => format.encode_exact(i64::from(scalar), 0),
            None => u64::from(scalar),
        };
        communicator.premultiplied_sum(&mut bits.to_le_bytes(), datatype).map(RankOperator::Made)
    }

    pub(super) fn get(&self) -> Operator {
        match self {
            RankOperator::Builtin(operator) | RankOperator::Made(operator) => *operator,
        }
    }

    /// Destroys it, if it was created.
    pub(super) fn destroy(&self, communicator: &Communicator) {
        if let RankOperator::Made(operator) = self {
            communicator.destroy_operator(*operator);
        }
    }
}

/// The spans that one rank's operation sends from and receives to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Regions {
    pub(super) send: Span,
    pub(super) recv: Span,
    /// From the start of the receive buffer, wherever the rank's own part of it begins.
    pub(super) whole: Span,
}

/// The parts of a rank's buffers that an operation uses, up to the buffers' ends; an error where
/// they would lie outside.
pub(super) fn regions(
    plan: &Plan,
    shape: &Shape<'_>,
    gpu_rank: &GpuRank,
    shift: usize,
    operation: Operation,
) -> Option<Regions> {
    let unaligned = plan.unalign * shape.element_bytes;
    let check = gpu_rank.buffers.check.as_ref().filter(|_| operation.verified);
    // Successive iterations use successive parts; the check buffer is always used from its start.
    let (memory, base) = match check {
        Some(check) => (check, unaligned),
        None => (&gpu_rank.buffers.recv, unaligned + shift),
    };
    let from = |span: Span, offset: usize| span.part(offset, span.bytes().checked_sub(offset)?);
    let whole = from(memory.span(), base)?;
    let own =
        |stride: usize| from(whole, gpu_rank.communicator.rank() * stride * shape.element_bytes);
    let (send, recv) = match operation.placement {
        Placement::OutOfPlace => (from(gpu_rank.buffers.send.span(), unaligned + shift)?, whole),
        Placement::InPlace => {
            (own(shape.counts.send_in_place_stride)?, own(shape.counts.recv_in_place_stride)?)
        }
    };
    Some(Regions { send, recv, whole })
}

/// The collectives that this backend has; another one is waived.
pub(super) const COLLECTIVES: [Collective; 11] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::Broadcast,
    Collective::Reduce,
    Collective::AllToAll,
    Collective::AllToAllV,
    Collective::Gather,
    Collective::Scatter,
    Collective::SendRecv,
    Collective::HyperCube,
];

/// The groups of an operation, one after the other: each must be complete on every rank's stream
/// before the next begins.
pub(super) fn steps(collective: Collective, ranks: usize) -> u32 {
    match collective {
        // Our own chunk first, then a partner at each doubled distance.
        Collective::HyperCube => 1 + ranks.ilog2(),
        _ => 1,
    }
}

/// Whether NCCL's tuning model covers the collective. Do not ask for sends and receives, NCCL's own
/// alltoall included: on 2.28.3 ncclGroupSimulateEnd leaves them in the queue, and the next group
/// runs them with their old buffers.
pub(super) fn is_tuned(collective: Collective) -> bool {
    collective.spec().tuned_by_nccl
}

/// Whether a step is one call of the library for each rank.
pub(super) fn is_one_call(collective: Collective, communicator: &Communicator) -> bool {
    match collective {
        Collective::AllToAll | Collective::Gather | Collective::Scatter => {
            communicator.has_own_exchanges()
        }
        _ => collective.spec().tuned_by_nccl,
    }
}

/// Enqueues one rank's part of a step.
pub(super) fn enqueue(
    shape: &Shape<'_>,
    datatype: DataType,
    config: Option<&CallConfig>,
    operator: Operator,
    gpu_rank: &GpuRank,
    Regions { send, recv, .. }: Regions,
    step: u32,
) -> Result<(), NcclError> {
    let (communicator, root) = (&gpu_rank.communicator, shape.root);
    let call = Call { datatype, count: shape.counts.param, stream: &gpu_rank.stream, config };
    let exchange = Exchange { shape, call, communicator, send, recv };
    match shape.collective {
        Collective::AllReduce => communicator.all_reduce(send, recv, operator, call),
        Collective::Reduce => communicator.reduce(send, recv, operator, root, call),
        Collective::ReduceScatter => communicator.reduce_scatter(send, recv, operator, call),
        Collective::Broadcast => communicator.broadcast(send, recv, root, call),
        Collective::AllGather => communicator.all_gather(send, recv, call),
        // nccl-tests makes no call for zero bytes (src/gather.cu:62, src/scatter.cu:58).
        Collective::Gather | Collective::Scatter if call.count == 0 => Ok(()),
        Collective::AllToAll if communicator.has_own_exchanges() => {
            communicator.all_to_all(send, recv, call)
        }
        Collective::Gather if communicator.has_own_exchanges() => {
            communicator.gather(send, recv, root, call)
        }
        Collective::Scatter if communicator.has_own_exchanges() => {
            communicator.scatter(send, recv, root, call)
        }
        Collective::AllToAll => exchange.all_to_all(),
        Collective::Gather => exchange.gather(),
        Collective::Scatter => exchange.scatter(),
        Collective::SendRecv => exchange.ring(),
        Collective::AllToAllV => exchange.uneven(),
        Collective::HyperCube => exchange.hypercube(step),
        // `supported` waives these.
        _ => Ok(()),
    }
}

/// A collective made of sends and receives, within a group.
struct Exchange<'a> {
    shape: &'a Shape<'a>,
    call: Call<'a>,
    communicator: &'a Communicator,
    send: Span,
    recv: Span,
}

impl Exchange<'_> {
    fn all_to_all(&self) -> Result<(), NcclError> {
        let chunk = self.call.count;
        (0..self.shape.ranks).try_for_each(|peer| {
            self.send(self.send, peer * chunk, chunk, peer)?;
            self.recv(peer * chunk, chunk, peer)
        })
    }

    fn gather(&self) -> Result<(), NcclError> {
        let chunk = self.call.count;
        self.send(self.send, 0, chunk, self.shape.root)?;
        (0..self.peers_of_root()).try_for_each(|peer| self.recv(peer * chunk, chunk, peer))
    }

    fn scatter(&self) -> Result<(), NcclError> {
        let chunk = self.call.count;
        (0..self.peers_of_root())
            .try_for_each(|peer| self.send(self.send, peer * chunk, chunk, peer))?;
        self.recv(0, chunk, self.shape.root)
    }

    /// The ranks that the root exchanges data with; none on other ranks.
    fn peers_of_root(&self) -> usize {
        if self.communicator.rank() == self.shape.root { self.shape.ranks } else { 0 }
    }

    fn ring(&self) -> Result<(), NcclError> {
        let (rank, ranks) = (self.communicator.rank(), self.shape.ranks);
        self.send(self.send, 0, self.call.count, (rank + 1) % ranks)?;
        self.recv(0, self.call.count, (rank + ranks - 1) % ranks)
    }

    /// Every pair has its own size, packed without gaps in the order of the peers.
    fn uneven(&self) -> Result<(), NcclError> {
        let rank = self.communicator.rank();
        let (mut sent, mut received) = (0, 0);
        for peer in 0..self.shape.ranks {
            let (out, back) = (self.shape.pair(rank, peer), self.shape.pair(peer, rank));
            if out > 0 {
                self.send(self.send, sent, out, peer)?;
            }
            if back > 0 {
                self.recv(received, back, peer)?;
            }
            (sent, received) = (sent + out, received + back);
        }
        Ok(())
    }

    /// all_gather by exchanges with partners at doubling distance (nccl-tests
    /// src/hypercube.cu:55-76). Out of place, a rank first copies its own chunk.
    fn hypercube(&self, step: u32) -> Result<(), NcclError> {
        let (rank, chunk) = (self.communicator.rank(), self.call.count);
        let Some(exchange) = step.checked_sub(1) else {
            let own = self.part(self.recv, rank * chunk, chunk)?;
            if own.address() == self.send.address() {
                return Ok(());
            }
            self.send(self.send, 0, chunk, rank)?;
            return self.recv(rank * chunk, chunk, rank);
        };
        let distance = 1 << exchange;
        let partner = rank ^ distance;
        let start = |rank: usize| (rank & !(distance - 1)) * chunk;
        self.send(self.recv, start(rank), distance * chunk, partner)?;
        self.recv(start(partner), distance * chunk, partner)
    }

    fn send(&self, from: Span, at: usize, count: usize, to: usize) -> Result<(), NcclError> {
        let part = self.part(from, at, count)?;
        self.communicator.send(part, to, Call { count, ..self.call })
    }

    fn recv(&self, at: usize, count: usize, from: usize) -> Result<(), NcclError> {
        let to = self.part(self.recv, at, count)?;
        self.communicator.recv(to, from, Call { count, ..self.call })
    }

    /// `count` elements of a span from element `at` on.
    fn part(&self, span: Span, at: usize, count: usize) -> Result<Span, NcclError> {
        let element = self.shape.element_bytes;
        span.part(at * element, count * element)
            .ok_or_else(|| NcclError::does_not_fit("a part of an exchange", count * element, span))
    }
}
