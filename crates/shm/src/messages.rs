//! Messages between any two ranks of a host, sent and received one by one or many at once, in order
//! between each pair.
//! Not collectives: `algorithm` has those.

mod peer;

use std::{sync::Arc, time::Duration};

use crate::shm::{Address, Buffer, Buffers, Control, Mailboxes, Wait, WaitPolicy};
use peer::{Part, Peer};

/// One rank's end of all messages among some ranks of a host.
///
/// Ranks are indices among the members. A rank may send to itself, as in MPI: a long message then
/// needs its receive started first.
#[derive(Debug)]
pub struct Messages {
    /// World ranks, in order.
    members: Vec<usize>,
    /// Our index among them.
    me: usize,
    buffers: Arc<Buffers>,
    control: Arc<Control>,
    mailboxes: Arc<Mailboxes>,
    policy: WaitPolicy,
    timeout: Option<Duration>,
    /// By index.
    peers: Vec<Peer>,
    /// Indices of peers with messages in flight.
    busy: Vec<usize>,
}

impl Messages {
    /// Messages among the world ranks `members`, to which `world_rank` belongs. A rank creates at
    /// most one of these: mailboxes count from their beginning.
    pub fn new(
        members: &[usize],
        world_rank: usize,
        buffers: Arc<Buffers>,
        control: Arc<Control>,
        mailboxes: Arc<Mailboxes>,
        policy: WaitPolicy,
    ) -> Messages {
        let me = members.iter().position(|r| *r == world_rank).unwrap_or(0);
        let peer = |peer: &usize| Peer::new(&mailboxes, &buffers, world_rank, *peer, policy);
        Messages {
            members: members.to_vec(),
            me,
            peers: members.iter().map(peer).collect(),
            buffers,
            control,
            mailboxes,
            policy,
            timeout: None,
            busy: Vec::with_capacity(members.len()),
        }
    }

    /// Our index among the members.
    pub fn rank(&self) -> usize {
        self.me
    }

    /// Members.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The time limit of a wait without progress.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// `len` bytes of our own buffer, to fill, to read, or to verify.
    ///
    /// # Panics
    /// A message is in flight: peers may be reading and writing our buffers.
    pub fn own(&mut self, buffer: Buffer, offset: usize, len: usize) -> &mut [u8] {
        assert!(self.busy.is_empty(), "buffers were accessed with messages in flight");
        let at = self.buffers.at(self.members[self.me], buffer, offset, len);
        // SAFETY: in bounds (checked by `at`), initialised (a memfd starts as zeros), and nobody
        // else's: within this process only this rank's thread asks for this rank's buffer, and peers
        // use it only for messages that are under way, of which there are none.
        unsafe { std::slice::from_raw_parts_mut(at, len) }
    }

    /// Touches this rank's buffers, so that their pages come from memory near this rank. When all
    /// ranks have done so, touches every rank's, so that no page fault occurs in a timed message.
    ///
    /// # Errors
    /// The run was aborted, or a rank did not arrive in time.
    pub fn touch(&mut self) -> Result<(), Wait> {
        self.buffers.touch(self.members[self.me]);
        self.meet()?;
        for &rank in &self.members {
            self.buffers.touch(rank);
        }
        Ok(())
    }

    /// A barrier by messages without bytes (dissemination barrier): after each round a rank knows
    /// that twice as many ranks have arrived.
    fn meet(&mut self) -> Result<(), Wait> {
        let nothing = Address { buffer: Buffer::Send, offset: 0 };
        let ranks = self.size();
        let mut known = 1;
        while known < ranks {
            self.start_recv((self.me + ranks - known) % ranks, nothing, 0)?;
            self.start_send((self.me + known) % ranks, nothing, 0)?;
            self.complete()?;
            known *= 2;
        }
        Ok(())
    }

    /// Sends `len` bytes of our buffers to member `to`. When this returns they may be overwritten,
    /// but a short message need not have been received.
    ///
    /// # Errors
    /// The run was aborted, or a rank did not arrive in time.
    ///
    /// # Panics
    /// When there is no such member, or the bytes do not lie within the buffer: bugs of the caller.
    #[inline]
    pub fn send(&mut self, to: usize, from: Address, len: usize) -> Result<(), Wait> {
        self.peers[to].start_send(Part { at: from, len });
        if self.peers[to].may_overwrite_last(len) {
            return Ok(());
        }
        self.note_busy(to);
        self.wait_while(Some(to), |all| !all.peers[to].may_overwrite_last(len))
    }

    /// Receives the next message of member `from`, of `len` bytes at most, into our buffers.
    ///
    /// # Errors
    /// The run was aborted, or a rank did not arrive in time.
    ///
    /// # Panics
    /// As [`Messages::send`]; and when the message is longer.
    #[inline]
    pub fn recv(&mut self, from: usize, into: Address, len: usize) -> Result<(), Wait> {
        self.peers[from].start_receive(Part { at: into, len });
        if self.busy.is_empty() && self.peers[from].receive_soon() {
            return Ok(());
        }
        self.note_busy(from);
        self.wait_while(Some(from), |all| all.peers[from].is_receiving())
    }

    /// Starts to send, as [`Messages::send`] does. Any number of started messages are complete
    /// after [`Messages::complete`]; their buffers must not change until then.
    ///
    /// # Errors
    /// None today: a message that cannot be announced yet is queued.
    ///
    /// # Panics
    /// As [`Messages::send`].
    #[inline]
    pub fn start_send(&mut self, to: usize, from: Address, len: usize) -> Result<(), Wait> {
        self.peers[to].start_send(Part { at: from, len });
        self.note_busy(to);
        Ok(())
    }

    /// Starts to receive, as [`Messages::recv`] does: the first receive started gets the first
    /// message sent.
    ///
    /// # Errors
    /// None today.
    ///
    /// # Panics
    /// As [`Messages::recv`].
    #[inline]
    pub fn start_recv(&mut self, from: usize, into: Address, len: usize) -> Result<(), Wait> {
        self.peers[from].start_receive(Part { at: into, len });
        self.note_busy(from);
        Ok(())
    }

    /// Waits until all started messages are complete.
    ///
    /// # Errors
    /// The run was aborted, or a rank did not arrive in time. The started messages stay in flight,
    /// and their buffers have undefined content.
    pub fn complete(&mut self) -> Result<(), Wait> {
        self.wait_while(None, |all| !all.busy.is_empty())
    }

    fn note_busy(&mut self, peer: usize) {
        if !std::mem::replace(&mut self.peers[peer].busy, true) {
            self.busy.push(peer);
        }
    }

    /// Waits while `unfinished` returns true, and makes progress on all started messages meanwhile.
    /// If it takes too long, `peer` is reported as missing, or all busy peers.
    fn wait_while(
        &mut self,
        peer: Option<usize>,
        mut unfinished: impl FnMut(&mut Messages) -> bool,
    ) -> Result<(), Wait> {
        loop {
            advance(&mut self.peers, &mut self.busy);
            if !unfinished(self) {
                // The message may have arrived after the last poll: a peer that is idle by now is
                // not busy.
                advance(&mut self.peers, &mut self.busy);
                return Ok(());
            }
            let Messages { members, me, control, mailboxes, policy, timeout, peers, busy, .. } =
                self;
            let look = || advance(peers, busy);
            mailboxes.until(members[*me], control, *policy, *timeout, look).map_err(|stop| {
                let missing = |place: usize| peer.map_or(peers[place].busy, |peer| peer == place);
                let place = |rank| members.iter().position(|member| *member == rank);
                stop.naming(members, |rank| !place(rank).is_some_and(missing))
            })?;
        }
    }
}

/// Makes progress with the `busy` ones of `peers`. Returns whether there was any.
#[inline]
fn advance(peers: &mut [Peer], busy: &mut Vec<usize>) -> bool {
    let mut moved = false;
    let mut at = 0;
    while let Some(&place) = busy.get(at) {
        let peer = &mut peers[place];
        moved |= peer.advance();
        if peer.is_idle() {
            peer.busy = false;
            busy.swap_remove(at);
            moved = true;
        } else {
            at += 1;
        }
    }
    moved
}
