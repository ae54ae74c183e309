//! The collectives as MPI calls, with everything that can be prepared before the timed calls.
//! Not where buffers are (`mpi`).

use busbw_core::{
    Collective,
    layout::Shape,
    plan::{Case, Placement},
};
use busbw_ffi::mpi::{Blocks, Elements, NotPossible, Operator, Part, Rank, RankError};

use crate::backend::Reason;

/// The collectives that this backend has; another one is waived.
const COLLECTIVES: [Collective; 12] = [
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
    Collective::Barrier,
];

/// Whether a case can run in place.
///
/// # Errors
/// MPI has no in-place form of the call, or this library's form of it fails.
pub(super) fn has_in_place(case: &Case, rank: &Rank) -> Result<(), Reason> {
    match case.collective {
        Collective::SendRecv => Err(Reason("MPI_Sendrecv has no in-place form".to_owned())),
        Collective::Reduce => {
            let may = rank.may_reduce_in_place(case.sweep.root);
            may.map_err(|why| Reason(why.to_string()))
        }
        Collective::ReduceScatter => {
            let may = rank.may_reduce_scatter_in_place();
            may.map_err(|why| Reason(why.to_string()))
        }
        _ => Ok(()),
    }
}

/// A prepared case.
pub(super) struct Prepared {
    collective: Collective,
    root: usize,
    me: usize,
    ranks: usize,
    /// Bytes of the call's count.
    chunk: usize,
    /// Bytes that this rank sends and receives.
    sent: usize,
    received: usize,
    elements: Elements,
    operator: Option<Operator>,
    /// Blocks of alltoallv, sent and received.
    blocks: Option<(Blocks, Blocks)>,
}

impl Prepared {
    /// Prepares a case.
    ///
    /// # Errors
    /// This backend lacks the collective, or MPI the type, the operator or the count that it needs.
    pub(super) fn new(case: &Case, shape: &Shape, rank: &Rank) -> Result<Prepared, RankError> {
        if !COLLECTIVES.contains(&case.collective) {
            let name = case.collective.name();
            return Err(NotPossible(format!("the mpi backend has no {name}")).into());
        }
        let (datatype, op) = (case.sweep.datatype, case.sweep.op);
        let (counts, element) = (case.counts, shape.element_bytes);
        let (elements, operator) = if case.collective.reduces() {
            let (elements, operator) = rank.reduced(datatype, op, counts.param)?;
            (elements, Some(operator))
        } else {
            (rank.moved(datatype, counts.param)?, None)
        };
        if case.collective == Collective::ReduceScatter {
            rank.may_reduce_scatter(elements)?;
        }
        let (me, ranks) = (rank.rank(), rank.ranks());
        let blocks = if case.collective == Collective::AllToAllV {
            let sent: Vec<usize> = (0..ranks).map(|to| shape.pair(me, to)).collect();
            let received: Vec<usize> = (0..ranks).map(|from| shape.pair(from, me)).collect();
            let blocks = |counts: &[usize]| rank.blocks(datatype, counts, &displacements(counts));
            Some((blocks(&sent)?, blocks(&received)?))
        } else {
            None
        };
        Ok(Prepared {
            collective: case.collective,
            root: case.sweep.root,
            me,
            ranks,
            chunk: counts.param * element,
            sent: counts.send * element,
            received: counts.recv * element,
            elements,
            operator,
            blocks,
        })
    }

    /// Runs the operation, from and to the beginnings of these parts.
    ///
    /// # Errors
    /// The MPI call fails.
    #[inline]
    pub(super) fn run(
        &self,
        rank: &mut Rank,
        send: Part,
        recv: Part,
        placement: Placement,
    ) -> Result<(), RankError> {
        let (from, to) = (Part { bytes: self.sent, ..send }, Part { bytes: self.received, ..recv });
        let (elements, root) = (self.elements, self.root);
        let in_place = placement == Placement::InPlace;
        let is_root = self.me == root;
        // In place, MPI has no send side, or no receive side.
        let unless = |condition: bool, part: Part| (!condition).then_some(part);
        match (self.collective, self.operator, &self.blocks) {
            (Collective::AllReduce, Some(operator), _) => {
                rank.all_reduce(unless(in_place, from), to, (elements, operator))
            }
            (Collective::Reduce, Some(operator), _) => {
                rank.reduce(unless(in_place && is_root, from), to, (elements, operator), root)
            }
            (Collective::ReduceScatter, Some(operator), _) => {
                let to = if in_place { Part { bytes: self.sent, ..recv } } else { to };
                rank.reduce_scatter(unless(in_place, from), to, (elements, operator))
            }
            (Collective::AllGather, ..) => rank.all_gather(unless(in_place, from), to, elements),
            (Collective::AllToAll, ..) => rank.all_to_all(unless(in_place, from), to, elements),
            (Collective::AllToAllV, _, Some((sent, received))) => {
                rank.all_to_all_v((from, sent), (to, received))
            }
            (Collective::Broadcast, ..) => {
                let part = if is_root && !in_place { from } else { to };
                rank.broadcast(part, root, elements)
            }
            (Collective::Gather, ..) => {
                rank.gather(unless(in_place && is_root, from), to, root, elements)
            }
            (Collective::Scatter, ..) => {
                rank.scatter(from, unless(in_place && is_root, to), root, elements)
            }
            (Collective::SendRecv, ..) => {
                let next = (self.me + 1) % self.ranks;
                let last = (self.me + self.ranks - 1) % self.ranks;
                rank.exchange((from, next), (to, last), elements)
            }
            (Collective::HyperCube, ..) => self.hypercube(rank, from, to, in_place),
            (Collective::Barrier, ..) => rank.barrier(),
            // `new` prepares an operator for all collectives that reduce, blocks for alltoallv, and nothing
            // that has no arm here.
            _ => Err(RankError::NotPossible(NotPossible(format!(
                "{} was not prepared: a bug of busbw",
                self.collective.name()
            )))),
        }
    }

    /// As nccl-tests: in each step twice as many chunks are exchanged with a peer twice as far
    /// (src/hypercube.cu:56-70).
    fn hypercube(
        &self,
        rank: &mut Rank,
        from: Part,
        to: Part,
        in_place: bool,
    ) -> Result<(), RankError> {
        let chunk = |first: usize, chunks: usize| Part {
            offset: to.offset + first * self.chunk,
            bytes: chunks * self.chunk,
            ..to
        };
        if !in_place {
            rank.copy(from, chunk(self.me, 1))?;
        }
        let mut mask = 1;
        while mask < self.ranks {
            let peer = self.me ^ mask;
            let first = |rank: usize| rank & !(mask - 1);
            let (ours, theirs) = (chunk(first(self.me), mask), chunk(first(peer), mask));
            rank.exchange_bytes((ours, peer), (theirs, peer))?;
            mask <<= 1;
        }
        Ok(())
    }
}

/// Blocks lie one behind the other.
fn displacements(counts: &[usize]) -> Vec<usize> {
    let ends = counts.iter().scan(0, |end, count| {
        *end += count;
        Some(*end - count)
    });
    ends.collect()
}
