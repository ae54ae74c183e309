//! The collectives for small messages: every sender posts its message, every receiver reads the
//! parts that it needs. There is no barrier: a message arrives with the counter that announces it,
//! and slots are reused only when all ranks have left the operation.
//! Not messages that do not fit into a slot.

use busbw_core::Collective;

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
                self.post_chunks(call)?;
                self.reduce_messages(call, me * len)?;
            }
            Collective::AllGather | Collective::HyperCube => {
                self.post(call, len)?;
                self.take_all(call)?;
            }
            Collective::Gather if at_root => self.take_all(call)?,
            Collective::Gather => self.post(call, len)?,
            Collective::AllToAll => {
                self.post_chunks(call)?;
                for peer in self.others_first_next() {
                    self.take_chunk(call, peer, peer * len, |_| true)?;
                }
            }
            Collective::AllToAllV => {
                self.post(call, call.exchange.sent)?;
                for part in &call.exchange.received {
                    self.take(call, part.peer, part.at, part.to, part.len, |_| true)?;
                }
            }
            Collective::Broadcast => {
                if at_root {
                    self.post(call, len)?;
                }
                self.take(call, call.root, 0, 0, len, |peer| peer == call.root)?;
            }
            Collective::Scatter => {
                if at_root {
                    self.post_chunks(call)?;
                }
                self.take_chunk(call, call.root, 0, |peer| peer == call.root)?;
            }
            Collective::SendRecv => {
                self.post(call, len)?;
                let before = (me + ranks - 1) % ranks;
                self.take(call, before, 0, 0, len, |peer| peer == before)?;
            }
            // The specs of others name no slots.
            _ => {}
        }
        self.slots.leave();
        Ok(())
    }

    /// Posts `mine` to all ranks, and calls `look` with the same number of bytes of every other
    /// rank.
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

    /// Posts the first `len` bytes of our send buffer.
    fn post(&mut self, call: &Call, len: usize) -> Result<(), Wait> {
        let from = self.sends(call, self.me, 0, len);
        self.slots.post(len, self.timeout, |slot| {
            // SAFETY: `from` is valid for `len` bytes (checked where it was made), the slot for as
            // many (checked by `post`), and nobody reads it until it is announced.
            unsafe { std::ptr::copy_nonoverlapping(from, slot, len) };
        })
    }

    /// Posts one chunk for every other rank, that of the next rank first: with two ranks it
    /// directly follows the counter, wherever it is in the send buffer.
    fn post_chunks(&mut self, call: &Call) -> Result<(), Wait> {
        let (ranks, len) = (self.size(), call.bytes());
        let behind = (self.me + 1) * len;
        let (before, after) = (self.me * len, ranks * len - behind);
        let from = self.sends(call, self.me, 0, ranks * len);
        self.slots.post(before + after, self.timeout, |slot| {
            // SAFETY: `from` is valid for the chunks of all ranks (checked where it was made), the slot
            // for those of all but one (checked by `post`), and nobody reads it until it is announced.
            unsafe {
                std::ptr::copy_nonoverlapping(from.add(behind), slot, after);
                std::ptr::copy_nonoverlapping(from, slot.add(after), before);
            }
        })
    }

    /// The offset of a rank's chunk in `peer`'s message.
    fn chunk_in_message(&self, call: &Call, peer: usize) -> usize {
        (self.me + self.size() - peer - 1) % self.size() * call.bytes()
    }

    /// Copies our chunk of `peer`'s message to `to` of our receive buffer.
    fn take_chunk(
        &self,
        call: &Call,
        peer: usize,
        to: usize,
        expected: impl Fn(usize) -> bool,
    ) -> Result<(), Wait> {
        let at = if peer == self.me {
            self.me * call.bytes()
        } else {
            self.chunk_in_message(call, peer)
        };
        self.take(call, peer, at, to, call.bytes(), expected)
    }

    /// Copies `len` bytes from `at` of `peer`'s message to `to` of our receive buffer; our own data
    /// from `at` of our send buffer.
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

    /// Gathers every rank's message in rank order.
    fn take_all(&self, call: &Call) -> Result<(), Wait> {
        let len = call.bytes();
        for peer in self.others_first_next() {
            self.take(call, peer, 0, peer * len, len, |_| true)?;
        }
        Ok(())
    }

    /// Reduces the count argument's elements from byte `at` of every rank's message. Every rank
    /// reduces in rank order, so that all get the same bits also where rounding depends on the
    /// order.
    fn reduce_messages(&mut self, call: &Call, at: usize) -> Result<(), Wait> {
        let len = call.bytes();
        let mut sources = std::mem::take(&mut self.sources);
        sources.clear();
        for peer in 0..self.size() {
            let from = if peer == self.me {
                self.sends(call, peer, at, len)
            } else {
                let chunked = call.collective == Collective::ReduceScatter;
                let posted = if chunked { self.chunk_in_message(call, peer) } else { at };
                // SAFETY: the peer posted that many bytes and `len` more, as all run the same call.
                unsafe { self.slots.message(peer, |_| true, self.timeout)?.add(posted) }
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
