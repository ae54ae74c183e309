//! The collectives for small messages: every sender posts its message, every receiver takes what it
//! needs. No barrier: a message arrives with the counter that announces it, and slots are reused
//! only when all have left the operation. Not messages that do not fit into a slot.

use model::Collective;

use super::{Call, Communicator};
use crate::{
    kernel::{self, Store},
    shm::Wait,
};

impl Communicator {
    /// Runs one operation through slots.
    pub(super) fn through_slots(&mut self, call: &Call) -> Result<(), Wait> {
        self.slots.enter(self.timeout)?;
        let (me, ranks, len) = (self.me, self.size(), call.bytes());
        let at_root = me == call.root;
        match call.collective {
            Collective::AllReduce => {
                self.post(call, len)?;
                self.reduce_messages(call, 0)?;
            }
            Collective::Reduce if at_root => self.reduce_messages(call, 0)?,
            Collective::Reduce => self.post(call, len)?,
            Collective::ReduceScatter => {
                self.post(call, ranks * len)?;
                self.reduce_messages(call, me * len)?;
            }
            Collective::AllGather | Collective::HyperCube => {
                self.post(call, len)?;
                self.take_all(call, 0)?;
            }
            Collective::Gather if at_root => self.take_all(call, 0)?,
            Collective::Gather => self.post(call, len)?,
            Collective::AllToAll => {
                self.post(call, ranks * len)?;
                self.take_all(call, me * len)?;
            }
            Collective::AllToAllV => {
                self.post(call, call.exchange.sent)?;
                for part in &call.exchange.received {
                    self.take(call, part.peer, part.at, part.to, part.len, |_| true)?;
                }
            }
            Collective::Broadcast | Collective::Scatter => {
                let scattered = call.collective == Collective::Scatter;
                let (sent, at) = if scattered { (ranks * len, me * len) } else { (len, 0) };
                if at_root {
                    self.post(call, sent)?;
                }
                self.take(call, call.root, at, 0, len, |peer| peer == call.root)?;
            }
            Collective::SendRecv => {
                self.post(call, len)?;
                let before = (me + ranks - 1) % ranks;
                self.take(call, before, 0, 0, len, |peer| peer == before)?;
            }
        }
        self.slots.leave();
        Ok(())
    }

    /// Shows `mine` to all ranks, and `look` the same number of bytes of every other rank.
    pub(super) fn exchange(
        &mut self,
        mine: &[u8],
        mut look: impl FnMut(&[u8]),
    ) -> Result<(), Wait> {
        self.slots.enter(self.timeout)?;
        self.slots.post(mine.len(), self.timeout, |slot| {
            // SAFETY: the slot is valid for as many bytes (checked by `post`), and nobody reads it
            // until it is announced.
            unsafe { std::ptr::copy_nonoverlapping(mine.as_ptr(), slot, mine.len()) };
        })?;
        for peer in self.others_first_next().skip(1) {
            let message = self.slots.message(peer, |_| true, self.timeout)?;
            // SAFETY: the peer posted as many bytes, and writes there again only when we have left.
            look(unsafe { std::slice::from_raw_parts(message, mine.len()) });
        }
        self.slots.leave();
        Ok(())
    }

    /// Posts the first `len` bytes of what we send.
    fn post(&mut self, call: &Call, len: usize) -> Result<(), Wait> {
        let from = self.sends(call, self.me, 0, len);
        self.slots.post(len, self.timeout, |slot| {
            // SAFETY: `from` is valid for `len` bytes (checked where it was made), the slot for as
            // many (checked by `post`), and nobody reads it until it is announced.
            unsafe { std::ptr::copy_nonoverlapping(from, slot, len) };
        })
    }

    /// Copies `len` bytes from `at` of what `peer` sends to `to` of our receive buffer; our own from
    /// where it lies.
    fn take(
        &self,
        call: &Call,
        peer: usize,
        at: usize,
        to: usize,
        len: usize,
        expected: impl Fn(usize) -> bool,
    ) -> Result<(), Wait> {
        if peer == self.me {
            self.fetch(call, peer, at, to, len, Store::Cached);
            return Ok(());
        }
        let message = self.slots.message(peer, expected, self.timeout)?;
        let to = self.receives(call, self.me, to, len);
        // SAFETY: the peer posted at least `at + len` bytes, as all ranks run the same call, and
        // writes to that slot again only when we have left; `to` is ours and no slot.
        unsafe { std::ptr::copy_nonoverlapping(message.add(at), to, len) };
        Ok(())
    }

    /// Takes the count argument's bytes from `at` of what every rank sends, in rank order.
    fn take_all(&self, call: &Call, at: usize) -> Result<(), Wait> {
        let len = call.bytes();
        for peer in self.others_first_next() {
            self.take(call, peer, at, peer * len, len, |_| true)?;
        }
        Ok(())
    }

    /// Reduces the count argument's elements from byte `at` of what every rank sends. Everyone does it
    /// in the order of ranks, so that all get the same bits also where rounding depends on it.
    fn reduce_messages(&mut self, call: &Call, at: usize) -> Result<(), Wait> {
        let len = call.bytes();
        let mut sources = std::mem::take(&mut self.sources);
        sources.clear();
        for peer in 0..self.size() {
            let from = if peer == self.me {
                self.sends(call, peer, at, len)
            } else {
                // SAFETY: the peer posted at least `at + len` bytes, as all ranks run the same call.
                unsafe { self.slots.message(peer, |_| true, self.timeout)?.add(at) }
            };
            sources.push(kernel::Source::of_rank(from, peer));
        }
        let to = [self.receives(call, self.me, 0, len)];
        // SAFETY: our own buffers are valid for `len` bytes, messages hold as many, and all are
        // aligned: buffers start on pages, messages on 8 bytes, and offsets are whole elements. Only
        // our own contribution can be the destination. Peers write to their slots again only when
        // we have left.
        unsafe {
            kernel::reduce(call.datatype, call.op, &to, &sources, call.count, Store::Cached);
        }
        self.sources = sources;
        Ok(())
    }
}
