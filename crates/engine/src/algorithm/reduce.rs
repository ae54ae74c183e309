//! all_reduce, reduce_scatter, reduce: every rank reduces a share of the elements straight from its
//! peers' buffers. docs/algorithms.md counts the steps and bytes.

use std::ops::Range;

use model::ReduceOp;

use super::{Call, Communicator};
use crate::{
    kernel::{self, Source, Store},
    shm::Wait,
};

/// Elements of a cache line of the smallest type: shares start there, so that no two ranks write to
/// one line.
const LINE: usize = 64;

impl Communicator {
    /// Reduces our share of the elements into our own buffer, then copies the other shares from
    /// those who reduced them. In place is safe: a rank writes only to its share of its own buffer
    /// while peers read only theirs.
    pub(super) fn all_reduce(&mut self, call: &Call) -> Result<(), Wait> {
        let element = call.datatype.bytes();
        self.reduce_share(call, self.share(call.count, self.me), self.me);
        self.barrier()?;
        for step in 1..self.size() {
            let peer = (self.me + step) % self.size();
            let share = self.share(call.count, peer);
            let (at, len) = (share.start * element, share.len() * element);
            let from = self.receives(call, peer, at, len);
            let to = self.receives(call, self.me, at, len);
            // SAFETY: both are valid for `len` bytes; they belong to different ranks; the peer
            // finished its share before the barrier and nobody writes to it before the last one.
            unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
        }
        Ok(())
    }

    /// Reduces our chunk. In place our chunk of our buffer is what only we read.
    pub(super) fn reduce_scatter(&mut self, call: &Call) {
        let first = self.me * call.count;
        self.reduce_elements(call, first..first + call.count, self.me, 0);
    }

    /// Every rank reduces a share into the root's buffer. In place the root's share of its own
    /// contribution is read only by the rank that overwrites it.
    pub(super) fn reduce(&mut self, call: &Call) {
        self.reduce_share(call, self.share(call.count, self.me), call.root);
    }

    /// Elements that rank `rank` reduces, of `count`.
    fn share(&self, count: usize, rank: usize) -> Range<usize> {
        let each = count.div_ceil(self.size()).next_multiple_of(LINE);
        (rank * each).min(count)..((rank + 1) * each).min(count)
    }

    /// Reduces `share` into the same place of rank `owner`'s receive buffer.
    fn reduce_share(&self, call: &Call, share: Range<usize>, owner: usize) {
        let start = share.start;
        self.reduce_elements(call, share, owner, start);
    }

    /// Reduces elements `from` of all send buffers into element `to` of `owner`'s receive buffer.
    fn reduce_elements(&self, call: &Call, from: Range<usize>, owner: usize, to: usize) {
        let element = call.datatype.bytes();
        let (at, len) = (from.start * element, from.len() * element);
        // The owner's own contribution comes first: in place it lies where the result goes.
        let sources: Vec<Source> = (0..self.size())
            .map(|step| (owner + step) % self.size())
            .map(|peer| Source {
                at: self.sends(call, peer, at, len),
                scalar: ReduceOp::premul_scalar(peer),
            })
            .collect();
        let to = self.receives(call, owner, to * element, len);
        // SAFETY: every address is valid for `len` bytes (checked where it was made) and aligned:
        // buffers start on pages and offsets are whole elements. Only the owner's own contribution
        // can be the destination itself, and it is the first source. Peers only read what we read,
        // and nobody else writes to our share, until the barrier that follows.
        unsafe {
            kernel::reduce(call.datatype, call.op, &[to], &sources, from.len(), Store::Cached)
        };
    }
}
