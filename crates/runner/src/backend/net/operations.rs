//! The collectives of the `net` backend: a ring all_reduce, and sendrecv.
//! Not where buffers are (`net`), and not requests (`link`).

use std::{ops::Range, rc::Rc};

use busbw_core::{Collective, DataType, ReduceOp, plan::Case};
use busbw_ffi::net::Memory;
use busbw_shm::kernel::combine_slices;

use super::{At, Net, broken, failed};
use crate::backend::{BackendError, Reason};

/// The collectives that this backend has.
pub(super) const COLLECTIVES: [Collective; 2] = [Collective::AllReduce, Collective::SendRecv];

/// Bytes of one message of the ring, as in NCCL's ring with its default buffers: 4 MiB in 8 steps,
/// two of which all_reduce sends as one message (ALLREDUCE_SLICESTEPS of its
/// src/include/collectives.h).
const SLICE_BYTES: usize = 1 << 20;
/// Messages that may be on their way to a rank at once.
const SLICES_IN_FLIGHT: usize = 4;

/// Bytes of scratch memory for received slices that are still to be reduced.
pub(super) const SCRATCH_BYTES: usize = SLICE_BYTES * SLICES_IN_FLIGHT;

/// Whether this backend can run a case.
///
/// # Errors
/// The reason why it cannot.
pub(super) fn supported(case: &Case) -> Result<(), Reason> {
    let collective = case.collective;
    if !COLLECTIVES.contains(&collective) {
        return Err(Reason(format!("the net backend has no {}", collective.name())));
    }
    if collective.reduces() && case.sweep.op == ReduceOp::Avg {
        return Err(Reason("the net backend's ring has no averages".to_owned()));
    }
    Ok(())
}

/// Runs an operation and waits for its end.
pub(super) fn run(
    net: &mut Net<'_>,
    case: &Case,
    send: &At,
    recv: &At,
) -> Result<(), BackendError> {
    let element = case.sweep.datatype.bytes();
    let bytes = |at: &At, elements: usize| at.offset..at.offset + elements * element;
    let (from, to) = (bytes(send, case.counts.send), bytes(recv, case.counts.recv));
    if net.members.len() == 1 {
        return copy(net, send, from, recv, to);
    }
    match case.collective {
        Collective::SendRecv => {
            let (next, last) = neighbours(net);
            let Net { links, stopped, plan, world_rank, .. } = net;
            let stopped = stopped.as_ref();
            let wrong = |error| broken(stopped, *world_rank, error);
            links.recv(last, &recv.memory, to).map_err(wrong)?;
            links.send(next, &send.memory, from).map_err(wrong)?;
            let mut patience = super::patience(plan, stopped);
            while !links.are_idle(next, last) {
                match links.advance(next, last).map_err(wrong)? {
                    true => patience.renew(),
                    false => patience.rest(|| vec![last, next])?,
                }
            }
            Ok(())
        }
        _ => Ring::new(net, case, send, recv).run(net),
    }
}

/// The ranks that we send to, and receive from.
fn neighbours(net: &Net<'_>) -> (usize, usize) {
    let ranks = net.members.len();
    (net.member(net.me + 1), net.member(net.me + ranks - 1))
}

/// A single rank has no peer.
fn copy(
    net: &Net<'_>,
    send: &At,
    from: Range<usize>,
    recv: &At,
    to: Range<usize>,
) -> Result<(), BackendError> {
    if Rc::ptr_eq(&send.memory, &recv.memory) {
        return Ok(());
    }
    let busy = |busy: busbw_ffi::net::Busy| failed(net.world_rank, busy.into());
    let (from, mut to) =
        (send.memory.part(from).map_err(busy)?, recv.memory.part(to).map_err(busy)?);
    to.copy_from_slice(&from);
    Ok(())
}

/// One all_reduce. In each of `ranks - 1` steps a chunk arrives, is reduced with ours and is sent
/// on; then the finished chunks go round. Chunks are cut into slices, so that one can be sent on
/// while the next arrives.
struct Ring {
    ranks: usize,
    me: usize,
    next: usize,
    last: usize,
    datatype: DataType,
    op: ReduceOp,
    elements: usize,
    /// Elements of a slice.
    slice: usize,
    /// Slices of a step: as many as the largest chunk has.
    slices: usize,
    send: At,
    recv: At,
    /// The scalars of this rank, and of the rank before it.
    scalars: (u8, u8),
}

/// Slices, counted from the first step on.
#[derive(Default)]
struct Counters {
    recv_posted: usize,
    recv_done: usize,
    send_posted: usize,
    send_done: usize,
}

impl Ring {
    fn new(net: &Net<'_>, case: &Case, send: &At, recv: &At) -> Ring {
        let ranks = net.members.len();
        let elements = case.counts.recv;
        let slice = (SLICE_BYTES.min(net.most) / case.sweep.datatype.bytes()).max(1);
        let (next, last) = neighbours(net);
        let scalar = ReduceOp::premul_scalar;
        Ring {
            ranks,
            me: net.me,
            next,
            last,
            datatype: case.sweep.datatype,
            op: case.sweep.op,
            elements,
            slice,
            slices: elements.div_ceil(ranks).div_ceil(slice),
            send: send.clone(),
            recv: recv.clone(),
            scalars: (scalar(net.me), scalar((net.me + ranks - 1) % ranks)),
        }
    }

    /// Elements of slice `index` of those that rank `rank` sends, with chunks counted from its own;
    /// 0 where its chunk is shorter than others.
    fn slice_of(&self, rank: usize, index: usize) -> Range<usize> {
        let (step, slice) = (index / self.slices, index % self.slices);
        let chunk = (rank + 2 * self.ranks - step % self.ranks) % self.ranks;
        let edge = |chunk: usize| self.elements * chunk / self.ranks;
        let (begin, end) = (edge(chunk), edge(chunk + 1));
        let from = end.min(begin + slice * self.slice);
        from..end.min(from + self.slice)
    }

    fn bytes(&self, at: &At, elements: &Range<usize>) -> Range<usize> {
        let element = self.datatype.bytes();
        at.offset + elements.start * element..at.offset + elements.end * element
    }

    /// The scratch memory for received slice `index`.
    fn slot(&self, index: usize, elements: usize) -> Range<usize> {
        let element = self.datatype.bytes();
        let from = index % SLICES_IN_FLIGHT * self.slice * element;
        from..from + elements * element
    }

    fn run(&self, net: &mut Net<'_>) -> Result<(), BackendError> {
        let rank = net.world_rank;
        let last_rank = (self.me + self.ranks - 1) % self.ranks;
        let total = 2 * (self.ranks - 1) * self.slices;
        // Steps before this one reduce.
        let combined = (self.ranks - 1) * self.slices;
        let (sent, received) = (net.links.sent(self.next), net.links.received(self.last));
        // Slices without elements are not sent: the links count fewer.
        let (mut skipped_out, mut skipped_back) = (0, 0);
        let mut n = Counters::default();
        let scratch = Rc::clone(&net.buffers.scratch);
        let mut patience = super::patience(net.plan, net.stopped.as_ref());
        let stopped = net.stopped.as_ref();
        let wrong = |error| broken(stopped, rank, error);
        while n.recv_done < total || n.send_done < total {
            let mut moved = false;
            while n.recv_posted < total.min(n.recv_done + SLICES_IN_FLIGHT) {
                let index = n.recv_posted;
                let elements = self.slice_of(last_rank, index);
                if elements.is_empty() {
                    if n.recv_done != index {
                        break;
                    }
                    skipped_back += 1;
                    n.recv_done += 1;
                } else if index < combined {
                    let slot = self.slot(index, elements.len());
                    net.links.recv(self.last, &scratch, slot).map_err(wrong)?;
                } else {
                    // Earlier sends from there must be complete.
                    if n.send_done <= index - combined {
                        break;
                    }
                    let place = self.bytes(&self.recv, &elements);
                    net.links.recv(self.last, &self.recv.memory, place).map_err(wrong)?;
                }
                n.recv_posted += 1;
                moved = true;
            }
            while n.send_posted < total
                && (n.send_posted < self.slices || n.send_posted - self.slices < n.recv_done)
            {
                let index = n.send_posted;
                let elements = self.slice_of(self.me, index);
                if elements.is_empty() {
                    if n.send_done != index {
                        break;
                    }
                    skipped_out += 1;
                    n.send_done += 1;
                } else {
                    let from = if index < self.slices { &self.send } else { &self.recv };
                    let place = self.bytes(from, &elements);
                    net.links.send(self.next, &from.memory, place).map_err(wrong)?;
                }
                n.send_posted += 1;
                moved = true;
            }
            moved |= net.links.advance(self.next, self.last).map_err(wrong)?;
            n.send_done = (net.links.sent(self.next) - sent) as usize + skipped_out;
            let came = (net.links.received(self.last) - received) as usize + skipped_back;
            while n.recv_done < came {
                if n.recv_done < combined {
                    self.combine(n.recv_done, last_rank, &scratch)
                        .map_err(|busy| failed(rank, busy.into()))?;
                }
                n.recv_done += 1;
            }
            match moved {
                true => patience.renew(),
                false => patience.rest(|| vec![self.last, self.next])?,
            }
        }
        Ok(())
    }

    /// Reduces received data with ours, into the result buffer.
    fn combine(
        &self,
        index: usize,
        from: usize,
        scratch: &Rc<Memory>,
    ) -> Result<(), busbw_ffi::net::Busy> {
        let elements = self.slice_of(from, index);
        let came = scratch.part(self.slot(index, elements.len()))?;
        let mut to = self.recv.memory.part(self.bytes(&self.recv, &elements))?;
        // In the first step another rank's input arrives; later steps bring scaled sums.
        let (ours, theirs) = self.scalars;
        let theirs = if index < self.slices { theirs } else { 1 };
        let in_place = Rc::ptr_eq(&self.send.memory, &self.recv.memory);
        if in_place {
            combine_slices(self.datatype, self.op, (None, ours), (&came, theirs), &mut to);
        } else {
            let own = self.send.memory.part(self.bytes(&self.send, &elements))?;
            combine_slices(self.datatype, self.op, (Some(&own), ours), (&came, theirs), &mut to);
        }
        Ok(())
    }
}
