//! The collectives over shared buffers: one plain algorithm each, reading peers' buffers directly.
//! Not chosen by size yet, and not verified here: `model::layout` judges the result.
//!
//! Every operation begins and ends with a barrier of its communicator: nobody reads a peer's buffer
//! before the peer is in the operation, and nobody leaves while a peer may still read its buffer.

mod call;
mod copy;
mod reduce;

pub use call::{Call, Region, Segment, segments};

use std::{sync::Arc, time::Duration};

use model::Collective;

use crate::shm::{Barrier, Buffer, Buffers, Control, Wait, WaitPolicy};

/// A communicator: some ranks of this host, their buffers, and a barrier among them.
#[derive(Debug)]
pub struct Communicator {
    /// World ranks, in order.
    members: Vec<usize>,
    /// Our place among them.
    me: usize,
    buffers: Arc<Buffers>,
    barrier: Barrier,
    timeout: Option<Duration>,
}

impl Communicator {
    /// A communicator of the world ranks `members`, to which `world_rank` belongs.
    pub fn new(
        members: &[usize],
        world_rank: usize,
        buffers: Arc<Buffers>,
        control: Arc<Control>,
        policy: WaitPolicy,
    ) -> Communicator {
        Communicator {
            members: members.to_vec(),
            me: members.iter().position(|r| *r == world_rank).unwrap_or(0),
            buffers,
            barrier: Barrier::group(control, world_rank, members, policy),
            timeout: None,
        }
    }

    /// Our rank within the communicator.
    pub fn rank(&self) -> usize {
        self.me
    }

    /// Ranks of the communicator.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// How long one wait for a peer may take.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// `len` bytes of our own buffer, to fill, to look at, or to verify. The exclusive borrow keeps
    /// this rank out of operations meanwhile, and peers read our buffers only within operations that
    /// we take part in.
    pub fn own(&mut self, buffer: Buffer, offset: usize, len: usize) -> &mut [u8] {
        let at = self.buffers.at(self.members[self.me], buffer, offset, len);
        // SAFETY: in bounds (checked by `at`), initialised (a memfd starts as zeros), and nobody
        // else's: within this process only this rank's thread asks for this rank's buffer, and
        // other ranks keep away outside of operations, see above.
        unsafe { std::slice::from_raw_parts_mut(at, len) }
    }

    /// Touches this rank's buffers, so that their pages come from memory near this rank, then, when
    /// all have done so, every rank's, so that no page fault falls into a timed operation.
    ///
    /// # Errors
    /// [`Wait`].
    pub fn touch(&mut self) -> Result<(), Wait> {
        self.buffers.touch(self.members[self.me]);
        self.barrier()?;
        for &rank in &self.members {
            self.buffers.touch(rank);
        }
        Ok(())
    }

    /// Waits for the whole communicator.
    ///
    /// # Errors
    /// [`Wait`].
    pub fn barrier(&mut self) -> Result<(), Wait> {
        self.barrier.wait(self.timeout)
    }

    /// Runs one operation to its end.
    ///
    /// # Errors
    /// [`Wait`] when a peer did not come or the run was stopped; the buffers then hold anything.
    pub fn run(&mut self, call: &Call) -> Result<(), Wait> {
        self.barrier()?;
        match call.collective {
            Collective::AllReduce => self.all_reduce(call)?,
            Collective::ReduceScatter => self.reduce_scatter(call),
            Collective::Reduce => self.reduce(call),
            Collective::AllGather => self.all_gather(call),
            Collective::Gather => self.gather(call),
            Collective::Broadcast => self.broadcast(call),
            Collective::Scatter => self.scatter(call),
            Collective::AllToAll => self.all_to_all(call),
            Collective::AllToAllV => self.all_to_all_v(call),
            Collective::SendRecv => self.send_recv(call),
            Collective::HyperCube => self.hypercube(call)?,
        }
        self.barrier()
    }

    /// Address of `len` bytes at `offset` of what member `peer` sends.
    fn sends(&self, call: &Call, peer: usize, offset: usize, len: usize) -> *const u8 {
        call.send.address(&self.buffers, &self.members, peer, offset, len)
    }

    /// Address of `len` bytes at `offset` of where member `peer` receives.
    fn receives(&self, call: &Call, peer: usize, offset: usize, len: usize) -> *mut u8 {
        call.recv.address(&self.buffers, &self.members, peer, offset, len)
    }
}
