//! The collectives for large messages: data moves once, from its source buffer to its destination
//! buffer, and any rank may move it. Two barriers enclose the operation: no rank touches a peer's
//! buffers before the peer has entered the operation, nor after it has left.
//! Not small messages, for which barriers would take too long.

use std::ops::Range;

use busbw_core::{
    Collective, DataType, ReduceOp,
    algorithm::{Algorithm, Choice},
};

use super::{Call, Communicator};
use crate::{
    kernel::{self, Source, Store},
    shm::Wait,
};

/// Elements of a cache line of the smallest type: shares start there, so that no two ranks write to
/// one line.
const CACHE_LINE_BYTES: usize = 64;

/// The ranks whose buffers take part in shared work.
#[derive(Clone, Copy)]
enum Whose {
    All,
    Root,
    Mine,
}

impl Communicator {
    /// Runs one operation on the ranks' buffers.
    pub(super) fn on_buffers(&mut self, choice: Choice, call: &Call) -> Result<(), Wait> {
        use Collective as C;
        let store = if choice.streamed { Store::Streamed } else { Store::Cached };
        let (me, root, len) = (self.me, call.root, call.bytes());
        let pushes = choice.algorithm == Algorithm::Push;
        let shares = choice.algorithm == Algorithm::Share;
        self.barrier()?;
        match call.collective {
            // The exchange of the first step was all.
            C::Barrier => return Ok(()),
            C::AllReduce if shares => self.reduce_share(call, Whose::All, store),
            C::Reduce if shares => self.reduce_share(call, Whose::Root, store),
            C::AllReduce => {
                self.reduce_share(call, Whose::Mine, store);
                self.barrier()?;
                self.fetch_shares(call, store);
            }
            C::Reduce if me == root => {
                let to = [self.receives(call, me, 0, len)];
                self.reduce_elements(call, 0..call.count, &to, store);
            }
            C::Reduce => {}
            C::ReduceScatter => self.reduce_chunk(call, store),
            C::AllGather if pushes => {
                self.others_first_next().for_each(|peer| self.push(call, peer, store));
            }
            C::Gather if pushes => self.push(call, root, store),
            C::AllGather => self.fetch_all(call, 0, store),
            C::Gather if me == root => self.fetch_all(call, 0, store),
            C::Gather => {}
            C::Broadcast if shares => self.copy_share(call, store),
            C::Broadcast => self.fetch(call, root, 0, 0, len, store),
            C::Scatter => self.fetch(call, root, me * len, 0, len, store),
            C::AllToAll => self.fetch_all(call, me * len, store),
            C::AllToAllV => {
                for part in &call.exchange.received {
                    self.fetch(call, part.peer, part.at, part.to, part.len, store);
                }
            }
            C::SendRecv => {
                let before = (me + self.size() - 1) % self.size();
                self.fetch(call, before, 0, 0, len, store);
            }
            C::HyperCube => self.hypercube(call, store)?,
        }
        self.barrier()
    }

    /// Peers in an order of our own, so that not all ranks read from rank 0 first.
    pub(super) fn others_first_next(&self) -> impl Iterator<Item = usize> + use<> {
        let (me, size) = (self.me, self.size());
        (0..size).map(move |step| (me + step) % size)
    }

    /// Copies `len` bytes from `at` of `peer`'s send buffer to `to` of our receive buffer.
    pub(super) fn fetch(
        &self,
        call: &Call,
        peer: usize,
        at: usize,
        to: usize,
        len: usize,
        store: Store,
    ) {
        let from = self.sends(call, peer, at, len);
        let to = self.receives(call, self.me, to, len);
        copy(from, to, len, store);
    }

    /// Copies the count argument's bytes from `at` of every rank's send buffer, in rank order.
    fn fetch_all(&self, call: &Call, at: usize, store: Store) {
        let len = call.bytes();
        for peer in self.others_first_next() {
            self.fetch(call, peer, at, peer * len, len, store);
        }
    }

    /// Copies our send buffer to our part of `peer`'s receive buffer.
    fn push(&self, call: &Call, peer: usize, store: Store) {
        let len = call.bytes();
        let to = self.receives(call, peer, self.me * len, len);
        copy(self.sends(call, self.me, 0, len), to, len, store);
    }

    /// Copies our own chunk first, then makes log2(ranks) exchanges, each twice as large as the
    /// last, as nccl-tests does (src/hypercube.cu:56-70). `supported` limits it to powers of two.
    fn hypercube(&mut self, call: &Call, store: Store) -> Result<(), Wait> {
        let len = call.bytes();
        self.fetch(call, self.me, 0, self.me * len, len, store);
        let mut mask = 1;
        while mask < self.size() {
            self.barrier()?;
            let peer = self.me ^ mask;
            let (first, bytes) = ((peer & !(mask - 1)) * len, mask * len);
            let from = self.receives(call, peer, first, bytes);
            let to = self.receives(call, self.me, first, bytes);
            // The peer has these chunks since the barrier and writes only other chunks in this
            // step.
            copy(from, to, bytes, store);
            mask <<= 1;
        }
        Ok(())
    }

    /// Rank `rank`'s share of `count` elements.
    fn share(&self, count: usize, rank: usize) -> Range<usize> {
        let each = count.div_ceil(self.size()).next_multiple_of(CACHE_LINE_BYTES);
        (rank * each).min(count)..((rank + 1) * each).min(count)
    }

    /// Copies the shares that the other ranks have reduced.
    fn fetch_shares(&self, call: &Call, store: Store) {
        let element = call.datatype.bytes();
        for peer in self.others_first_next().skip(1) {
            let share = self.share(call.count, peer);
            let (at, len) = (share.start * element, share.len() * element);
            let from = self.receives(call, peer, at, len);
            // The peer finished its share before the barrier, and no rank writes there again.
            copy(from, self.receives(call, self.me, at, len), len, store);
        }
    }

    /// Reduces our share of the elements from all ranks into the same share of some or all. In
    /// place is safe: no other rank reads or writes our share of any buffer.
    fn reduce_share(&mut self, call: &Call, into: Whose, store: Store) {
        let share = self.share(call.count, self.me);
        let element = call.datatype.bytes();
        let (at, len) = (share.start * element, share.len() * element);
        let mut destinations = std::mem::take(&mut self.destinations);
        destinations.clear();
        match into {
            Whose::All => destinations
                .extend(self.others_first_next().map(|peer| self.receives(call, peer, at, len))),
            Whose::Root => destinations.push(self.receives(call, call.root, at, len)),
            Whose::Mine => destinations.push(self.receives(call, self.me, at, len)),
        }
        self.reduce_elements(call, share, &destinations, store);
        self.destinations = destinations;
    }

    /// Reduces our chunk. In place only we read our chunk of our buffer.
    fn reduce_chunk(&mut self, call: &Call, store: Store) {
        let first = self.me * call.count;
        let to = [self.receives(call, self.me, 0, call.bytes())];
        self.reduce_elements(call, first..first + call.count, &to, store);
    }

    /// Reduces elements `from` of all send buffers, in the order of ranks, into `destinations`.
    fn reduce_elements(
        &mut self,
        call: &Call,
        from: Range<usize>,
        destinations: &[*mut u8],
        store: Store,
    ) {
        let element = call.datatype.bytes();
        let (at, len) = (from.start * element, from.len() * element);
        let mut sources = std::mem::take(&mut self.sources);
        sources.clear();
        sources.extend(
            (0..self.size()).map(|peer| Source::of_rank(self.sends(call, peer, at, len), peer)),
        );
        // SAFETY: every address is valid for `len` bytes (checked where it was made) and aligned:
        // buffers start on pages and offsets are whole elements. A destination is either no source
        // or, in place, the contribution of its own rank. Peers only read what we read, and no
        // other rank writes to our destinations until the barrier that follows.
        unsafe {
            kernel::reduce(call.datatype, call.op, destinations, &sources, from.len(), store);
        }
        self.sources = sources;
    }

    /// Copies our share of the root's data to every rank: the root's buffer is read once, and all
    /// cores work, also those of ranks that receive nothing.
    fn copy_share(&mut self, call: &Call, store: Store) {
        let share = self.share(call.bytes(), self.me);
        let (at, len) = (share.start, share.len());
        let from = self.sends(call, call.root, at, len);
        let mut destinations = std::mem::take(&mut self.destinations);
        destinations.clear();
        let to = self.others_first_next().map(|peer| self.receives(call, peer, at, len));
        // In place the root has it already.
        destinations.extend(to.filter(|to| !std::ptr::eq(*to, from)));
        let source = [Source::of_rank(from, call.root)];
        if !destinations.is_empty() {
            // SAFETY: every address is valid for `len` bytes, of which each is an element; no
            // destination is the source. No other rank writes to this share until the barrier.
            unsafe {
                let (bytes, copied) = (DataType::Uint8, ReduceOp::Sum);
                kernel::reduce(bytes, copied, &destinations, &source, len, store);
            }
        }
        self.destinations = destinations;
    }
}

/// Copies `len` bytes between two addresses that are valid for as many.
fn copy(from: *const u8, to: *mut u8, len: usize, store: Store) {
    if std::ptr::eq(from, to) {
        // In place it is there already, and peers may be reading it.
        return;
    }
    // In place alltoall, alltoallv and sendrecv race with their peers by definition: bytes of unknown
    // origin, in memory that is always ours.
    if from.addr().abs_diff(to.addr()) < len {
        // SAFETY: both are valid for `len` bytes (checked where they were made); this copy allows
        // them to overlap, as a rank's own part of an alltoallv in place may.
        unsafe { std::ptr::copy(from, to, len) };
    } else {
        // SAFETY: both are valid for `len` bytes and do not overlap, see above.
        unsafe { kernel::copy(from, to, len, store) };
    }
}
