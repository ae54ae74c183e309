//! Messages between any two ranks of a host, sent and received one by one or many at once, in order between
//! each pair. Not collectives: those are `algorithm`'s.

mod peer;

use std::{sync::Arc, time::Duration};

use crate::shm::{Address, Buffer, Buffers, Control, Mailboxes, Wait, WaitPolicy};
use peer::{Part, Peer};

/// One rank's end of all messages among some ranks of a host.
///
/// Ranks are places among the members. A rank may send to itself, as in MPI: a long message then needs
/// its receive started first.
#[derive(Debug)]
pub struct Messages {
    /// World ranks, in order.
    members: Vec<usize>,
    /// Our place among them.
    me: usize,
    buffers: Arc<Buffers>,
    control: Arc<Control>,
    mailboxes: Arc<Mailboxes>,
    policy: WaitPolicy,
    timeout: Option<Duration>,
    /// By place.
    peers: Vec<Peer>,
    /// Places of those with whom something was started and is not known to be complete.
    busy: Vec<usize>,
}

impl Messages {
    /// Among the world ranks `members`, to which `world_rank` belongs. A rank makes one of these at most:
    /// mailboxes count from their beginning.
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

    /// Our place among the members.
    pub fn rank(&self) -> usize {
        self.me
    }

    /// Members.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// How long to wait, while nothing happens, for what another rank has to do.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// `len` bytes of our own buffer, to fill, to look at, or to verify.
    ///
    /// # Panics
    /// When something was started and not completed: peers may be reading and writing our buffers.
    pub fn own(&mut self, buffer: Buffer, offset: usize, len: usize) -> &mut [u8] {
        assert!(self.busy.is_empty(), "our buffers, with messages under way");
        let at = self.buffers.at(self.members[self.me], buffer, offset, len);
        // SAFETY: in bounds (checked by `at`), initialised (a memfd starts as zeros), and nobody
        // else's: within this process only this rank's thread asks for this rank's buffer, and peers
        // use it only for messages that are under way, of which there are none.
        unsafe { std::slice::from_raw_parts_mut(at, len) }
    }

    /// Touches this rank's buffers, so that their pages come from memory near this rank, then, when
    /// all have done so, every rank's, so that no page fault falls into a timed message.
    ///
    /// # Errors
    /// [`Wait`].
    pub fn touch(&mut self) -> Result<(), Wait> {
        self.buffers.touch(self.members[self.me]);
        self.meet()?;
        for &rank in &self.members {
            self.buffers.touch(rank);
        }
        Ok(())
    }

    /// Waits until all have come here, by messages without bytes: after a round, a rank knows that twice
    /// as many have come.
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

    /// Sends `len` bytes of our buffers to member `to`, and returns when they may be overwritten: a
    /// short message need not have been received then.
    ///
    /// # Errors
    /// [`Wait`].
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
    /// [`Wait`].
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

    /// Begins to send, as [`Messages::send`] does. What was started, however much, is complete after
    /// [`Messages::complete`]; until then it must stay as it is.
    ///
    /// # Errors
    /// None today: a message that cannot be announced yet waits its turn here.
    ///
    /// # Panics
    /// As [`Messages::send`].
    #[inline]
    pub fn start_send(&mut self, to: usize, from: Address, len: usize) -> Result<(), Wait> {
        self.peers[to].start_send(Part { at: from, len });
        self.note_busy(to);
        Ok(())
    }

    /// Begins to receive, as [`Messages::recv`] does: receives started first get messages sent first.
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

    /// Waits until everything that was started is complete.
    ///
    /// # Errors
    /// [`Wait`]; the buffers of what was started then hold anything, and stay under way.
    pub fn complete(&mut self) -> Result<(), Wait> {
        self.wait_while(None, |all| !all.busy.is_empty())
    }

    fn note_busy(&mut self, peer: usize) {
        if !std::mem::replace(&mut self.peers[peer].busy, true) {
            self.busy.push(peer);
        }
    }

    /// Waits while something is `unfinished`; meanwhile moves on whatever was started. If it takes too long,
    /// `peer` is missing, or all who are busy.
    fn wait_while(
        &mut self,
        peer: Option<usize>,
        mut unfinished: impl FnMut(&mut Messages) -> bool,
    ) -> Result<(), Wait> {
        loop {
            advance(&mut self.peers, &mut self.busy);
            if !unfinished(self) {
                // What it waited for may have come after the look above: who is idle by now is not busy.
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

/// Does what can be done now with those of `peers` who are `busy`. Whether there was anything.
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
