//! The collectives over shared buffers: small messages through slots, large ones directly between
//! buffers, each by the way that a table names for its size.
//! Not verified here: `busbw_core::layout` judges the result.

mod call;
mod direct;
mod slot;
mod tune;

pub use call::{Call, Exchange, Region, Segment};

use std::{sync::Arc, time::Duration};

use busbw_core::{
    Collective,
    algorithm::{Algorithm, Choice, Table},
};

use crate::{
    kernel::Source,
    shm::{Barrier, Buffer, Buffers, Control, Slots, Wait, WaitPolicy},
};

/// A communicator: some ranks of this host, their buffers, and a barrier among them.
#[derive(Debug)]
pub struct Communicator {
    /// World ranks, in order.
    members: Vec<usize>,
    /// Our index among them.
    me: usize,
    buffers: Arc<Buffers>,
    barrier: Barrier,
    slots: Slots,
    timeout: Option<Duration>,
    /// By collective, in the order of `Collective::ALL`.
    tables: Vec<Table>,
    /// Kept between operations: allocating costs as much as the smallest of them.
    sources: Vec<Source>,
    destinations: Vec<*mut u8>,
}

// SAFETY: the addresses in `sources` and `destinations` are left over from an operation and never
// used by the next, which begins by clearing them.
unsafe impl Send for Communicator {}

impl Communicator {
    /// A communicator of the world ranks `members`, to which `world_rank` belongs.
    pub fn new(
        members: &[usize],
        world_rank: usize,
        buffers: Arc<Buffers>,
        control: Arc<Control>,
        policy: WaitPolicy,
    ) -> Communicator {
        let me = members.iter().position(|r| *r == world_rank).unwrap_or(0);
        let ranks = members.len();
        Communicator {
            members: members.to_vec(),
            me,
            buffers,
            slots: Slots::new(Arc::clone(&control), members, me, policy),
            barrier: Barrier::group(control, world_rank, members, policy),
            timeout: None,
            tables: Collective::ALL.map(|c| Table::unmeasured(c, ranks)).to_vec(),
            sources: Vec::with_capacity(ranks),
            destinations: Vec::with_capacity(ranks),
        }
    }

    /// Uses `table` for its collective; all ranks call it alike.
    pub fn set_table(&mut self, table: Table) {
        if let Some(mine) = self.tables.iter_mut().find(|t| t.collective == table.collective) {
            *mine = table;
        }
    }

    /// The algorithm of a call: the same on every rank.
    pub fn choice(&self, call: &Call) -> Choice {
        let size = call.size(self.size()) as u64;
        let table = self.tables.iter().find(|table| table.collective == call.collective);
        let direct = Choice { algorithm: Algorithm::Pull, streamed: false };
        let mut choices = table.into_iter().flat_map(|table| table.at(size));
        choices.find(|choice| self.can_run(*choice, call)).unwrap_or(direct)
    }

    /// Whether `choice`, one of its collective's, can run `call`: messages must fit into slots.
    pub fn can_run(&self, choice: Choice, call: &Call) -> bool {
        choice.algorithm != Algorithm::Slot || call.longest_message(self.size()) <= Slots::CAPACITY
    }

    /// Our rank within the communicator.
    pub fn rank(&self) -> usize {
        self.me
    }

    /// Ranks of the communicator.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The time limit of one wait for a peer.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// `len` bytes of our own buffer, to fill, to read, or to verify. The exclusive borrow keeps
    /// this rank out of operations meanwhile, and peers read our buffers only within operations
    /// that we take part in.
    /// we take part in.
    pub fn own(&mut self, buffer: Buffer, offset: usize, len: usize) -> &mut [u8] {
        let at = self.buffers.at(self.members[self.me], buffer, offset, len);
        // SAFETY: in bounds (checked by `at`), initialised (a memfd starts as zeros), and nobody
        // else's: within this process only this rank's thread asks for this rank's buffer, and
        // other ranks keep away outside of operations, see above.
        unsafe { std::slice::from_raw_parts_mut(at, len) }
    }

    /// Touches this rank's buffers, so that their pages come from memory near this rank. When all
    /// ranks have done so, touches every rank's, so that no page fault occurs in a timed operation.
    ///
    /// # Errors
    /// The run was aborted, or a rank did not arrive in time.
    pub fn touch(&mut self) -> Result<(), Wait> {
        self.buffers.touch(self.members[self.me]);
        self.barrier()?;
        for &rank in &self.members {
            self.buffers.touch(rank);
        }
        Ok(())
    }

    /// A barrier of the communicator.
    ///
    /// # Errors
    /// The run was aborted, or a rank did not arrive in time.
    pub fn barrier(&mut self) -> Result<(), Wait> {
        self.barrier.wait(self.timeout)
    }

    /// Runs one operation to its end, with the algorithm that the table names.
    ///
    /// # Errors
    /// A peer did not arrive in time, or the run was aborted ([`Wait`]). The buffers then have
    /// undefined content.
    pub fn run(&mut self, call: &Call) -> Result<(), Wait> {
        self.run_by(self.choice(call), call)
    }

    /// Runs one operation with a given algorithm, the same on all ranks.
    ///
    /// # Errors
    /// As [`Communicator::run`].
    ///
    /// # Panics
    /// A message does not fit into its slot: a bug of the caller.
    pub fn run_by(&mut self, choice: Choice, call: &Call) -> Result<(), Wait> {
        match choice.algorithm {
            Algorithm::Slot => self.through_slots(call),
            _ => self.on_buffers(choice, call),
        }
    }

    /// Address of `len` bytes at `offset` of member `peer`'s send buffer.
    fn sends(&self, call: &Call, peer: usize, offset: usize, len: usize) -> *const u8 {
        call.send.address(&self.buffers, &self.members, peer, offset, len)
    }

    /// Address of `len` bytes at `offset` of member `peer`'s receive buffer.
    fn receives(&self, call: &Call, peer: usize, offset: usize, len: usize) -> *mut u8 {
        call.recv.address(&self.buffers, &self.members, peer, offset, len)
    }
}
