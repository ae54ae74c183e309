//! Small messages between ranks: each rank has a ring of slots that only it writes. A message
//! directly follows the counter that announces it, so that both arrive with one cache line.
//! Not large messages: those are read from the sender's buffer.

#[cfg(all(test, loom))]
mod loom_models;

use std::{sync::Arc, time::Duration};

use super::{
    control::Control,
    sync::{AtomicU32, Ordering, Reads, Shared},
    wait::{Wait, WaitPolicy, reached},
};

/// Slots of a rank: how many operations its writer may be ahead of its slowest reader. Few in a
/// loom model, where they are reused after a few operations.
pub(super) const DEPTH: usize = if cfg!(loom) { 2 } else { 8 };

/// Bytes of a slot.
const SLOT_BYTES: usize = if cfg!(loom) { 64 } else { 16 << 10 };

/// Operations after which every rank renews its counters: a counter that was not written for 2^31
/// operations would seem to be ahead.
const RENEWAL_OPERATIONS: u32 = 1 << 28;

/// One message and the counter that announces it.
#[repr(C, align(64))]
pub(super) struct Slot {
    /// Number of the operation whose message this is.
    pub(super) operation: AtomicU32,
    pub(super) sleepers: AtomicU32,
    /// Written by its rank before `operation`, read by others behind it.
    pub(super) message: Shared<Message>,
}

type Message = [u8; Slots::CAPACITY];

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == SLOT_BYTES);

/// Prefetches a slot's first line for writing while other cores still hold it from reading, so that
/// the next message does not wait for that.
#[inline]
pub(super) fn take_for_writing<T>(slot: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads and writes nothing that a program can see; processors without
    // this one do nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) slot, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = slot;
}

/// The slots of a communicator, as one of its ranks uses them. All of its ranks run the same
/// operations through them, in the same order.
#[derive(Debug)]
pub struct Slots {
    control: Arc<Control>,
    /// World ranks.
    members: Vec<usize>,
    me: usize,
    policy: WaitPolicy,
    /// The operation that is running, counted from 1.
    operation: u32,
    /// An operation that every member is known to have finished.
    left_by_all: u32,
    /// Messages of this operation that we may be reading.
    reads: Reads<Message>,
}

impl Slots {
    /// The largest message, in bytes.
    pub const CAPACITY: usize = SLOT_BYTES - 2 * size_of::<AtomicU32>();

    /// Slots of the world ranks `members`, as member `me`. A rank belongs to one communicator at
    /// most.
    pub fn new(control: Arc<Control>, members: &[usize], me: usize, policy: WaitPolicy) -> Slots {
        let members = members.to_vec();
        Slots { control, members, me, policy, operation: 0, left_by_all: 0, reads: Reads::new() }
    }

    fn slot(&self, member: usize, operation: u32) -> &Slot {
        self.control.slot(self.members[member], operation as usize % DEPTH)
    }

    /// Begins the next operation.
    ///
    /// # Errors
    /// The run was aborted, or a rank did not arrive in time for a renewal.
    pub fn enter(&mut self, timeout: Option<Duration>) -> Result<(), Wait> {
        self.operation = self.operation.wrapping_add(1);
        if self.operation.is_multiple_of(RENEWAL_OPERATIONS) {
            self.renew(timeout)?;
        }
        Ok(())
    }

    /// Announces our old messages again as the last operation's.
    fn renew(&mut self, timeout: Option<Duration>) -> Result<(), Wait> {
        let last = self.operation.wrapping_sub(1);
        self.wait_until_left(last, timeout)?;
        for number in 0..DEPTH as u32 {
            self.slot(self.me, number).operation.store(last, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits until every member has finished `operation`.
    fn wait_until_left(&mut self, operation: u32, timeout: Option<Duration>) -> Result<(), Wait> {
        let left = |rank: usize| &self.control.words(rank).left;
        for &rank in &self.members {
            if rank != self.members[self.me] {
                let (word, sleepers) = (&left(rank).epoch, &left(rank).sleepers);
                self.policy
                    .until(word, sleepers, operation, self.control.abort_word(), timeout)
                    .map_err(|stop| {
                        stop.naming(&self.members, |rank| reached(&left(rank).epoch, operation))
                    })?;
            }
        }
        let all = self.members.iter().filter(|rank| **rank != self.members[self.me]);
        let behind =
            |rank: &usize| left(*rank).epoch.load(Ordering::Acquire).wrapping_sub(operation);
        let ahead = all.map(behind).min().unwrap_or(0);
        self.left_by_all = operation.wrapping_add(ahead);
        Ok(())
    }

    /// Posts a message of `len` bytes in our slot of this operation, once nobody reads its last
    /// message: `write` fills the slot, which is then announced.
    ///
    /// # Errors
    /// The run was aborted, or a reader of an earlier message did not finish in time.
    ///
    /// # Panics
    /// The message is longer than [`Slots::CAPACITY`]: a bug of the caller.
    pub fn post(
        &mut self,
        len: usize,
        timeout: Option<Duration>,
        write: impl FnOnce(*mut u8),
    ) -> Result<(), Wait> {
        assert!(len <= Slots::CAPACITY, "a message of {len} bytes in a slot");
        let reused = self.operation.wrapping_sub(DEPTH as u32);
        if (self.left_by_all.wrapping_sub(reused) as i32) < 0 {
            self.wait_until_left(reused, timeout)?;
        }
        let slot = self.slot(self.me, self.operation);
        slot.message.write(|message| write(message.cast()));
        self.policy.publish(&slot.operation, &slot.sleepers, self.operation);
        Ok(())
    }

    /// Waits for `peer`'s message of this operation and returns its address, valid until
    /// [`Slots::leave`].
    ///
    /// # Errors
    /// The run was aborted, or time ran out; `expected` returns whose messages this rank needs, and
    /// so who may be missing.
    #[inline]
    pub fn message(
        &self,
        peer: usize,
        expected: impl Fn(usize) -> bool,
        timeout: Option<Duration>,
    ) -> Result<*const u8, Wait> {
        let slot = self.slot(peer, self.operation);
        let abort = self.control.abort_word();
        self.policy
            .until(&slot.operation, &slot.sleepers, self.operation, abort, timeout)
            .map_err(|stop| {
                let position = |rank| self.members.iter().position(|r| *r == rank);
                stop.naming(&self.members, |rank| {
                    position(rank).is_none_or(|member| {
                        // This rank may be one that posts nothing.
                        member == self.me
                            || !expected(member)
                            || reached(&self.slot(member, self.operation).operation, self.operation)
                    })
                })
            })?;
        Ok(self.reads.begin(&slot.message).cast())
    }

    /// Ends the operation: peers may reuse the slots of the messages that we have read.
    #[inline]
    pub fn leave(&mut self) {
        self.reads.end();
        let left = &self.control.words(self.members[self.me]).left;
        self.policy.publish(&left.epoch, &left.sleepers, self.operation);
        take_for_writing(self.slot(self.me, self.operation.wrapping_add(1)));
    }
}
