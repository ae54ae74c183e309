//! The collectives that only move data: each rank fetches what it is to receive from its owner.
//! Not reductions. docs/algorithms.md counts the steps and bytes.

use super::{Call, Communicator};
use crate::shm::Wait;

impl Communicator {
    /// Copies `len` bytes from `at` of what `peer` sends to `to` of our receive buffer.
    fn fetch(&self, call: &Call, peer: usize, at: usize, to: usize, len: usize) {
        let from = self.sends(call, peer, at, len);
        let to = self.receives(call, self.me, to, len);
        if std::ptr::eq(from, to) {
            // In place it is there already, and peers may be reading it.
            return;
        }
        // SAFETY: both are valid for `len` bytes (checked where they were made); `copy` allows them
        // to overlap, as in place they may. In place alltoall, alltoallv and sendrecv race with
        // their peers by definition: bytes of unknown origin, in memory that is always ours.
        unsafe { std::ptr::copy(from, to, len) };
    }

    /// Peers in an order of our own, so that not everyone reads from rank 0 first.
    fn others_first_next(&self) -> impl Iterator<Item = usize> + use<> {
        let (me, size) = (self.me, self.size());
        (0..size).map(move |step| (me + step) % size)
    }

    pub(super) fn all_gather(&mut self, call: &Call) {
        let len = call.bytes();
        for peer in self.others_first_next() {
            self.fetch(call, peer, 0, peer * len, len);
        }
    }

    pub(super) fn gather(&mut self, call: &Call) {
        if self.me == call.root {
            self.all_gather(call);
        }
    }

    pub(super) fn broadcast(&mut self, call: &Call) {
        self.fetch(call, call.root, 0, 0, call.bytes());
    }

    pub(super) fn scatter(&mut self, call: &Call) {
        let len = call.bytes();
        self.fetch(call, call.root, self.me * len, 0, len);
    }

    pub(super) fn all_to_all(&mut self, call: &Call) {
        let len = call.bytes();
        for peer in self.others_first_next() {
            self.fetch(call, peer, self.me * len, peer * len, len);
        }
    }

    pub(super) fn all_to_all_v(&mut self, call: &Call) {
        for segment in call.segments {
            self.fetch(call, segment.peer, segment.at, segment.to, segment.len);
        }
    }

    pub(super) fn send_recv(&mut self, call: &Call) {
        let before = (self.me + self.size() - 1) % self.size();
        self.fetch(call, before, 0, 0, call.bytes());
    }

    /// Our own chunk first, then log2(ranks) exchanges of twice as much each, as nccl-tests does it
    /// (src/hypercube.cu:56-70). `supported` keeps it to powers of two.
    pub(super) fn hypercube(&mut self, call: &Call) -> Result<(), Wait> {
        let len = call.bytes();
        self.fetch(call, self.me, 0, self.me * len, len);
        let mut mask = 1;
        while mask < self.size() {
            self.barrier()?;
            let peer = self.me ^ mask;
            let (first, bytes) = ((peer & !(mask - 1)) * len, mask * len);
            let from = self.receives(call, peer, first, bytes);
            let to = self.receives(call, self.me, first, bytes);
            // SAFETY: both are valid for `bytes` bytes and belong to different ranks; the peer has
            // these chunks since the barrier and writes only others in this step.
            unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
            mask <<= 1;
        }
        Ok(())
    }
}
