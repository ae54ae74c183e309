//! One iteration of a test of messages, as each end of a pair runs it. The loops are OSU's
//! (c/mpi/pt2pt/standard/osu_latency.c, osu_bw.c, osu_bibw.c of 7.4), so that figures compare.
//! Not how many iterations, and no clock.

use model::messages::Messages;

use crate::backend::{BackendError, Channel, Part, Side};

/// One end of a pair.
#[derive(Debug, Clone, Copy)]
pub(in crate::measure) struct End {
    /// World rank of the other end.
    pub(in crate::measure) peer: usize,
    /// Whether this end begins, and takes the time.
    pub(in crate::measure) begins: bool,
    /// Bytes of a message.
    pub(in crate::measure) bytes: usize,
    /// Messages under way at once.
    pub(in crate::measure) window: u32,
    /// Where the answer of one byte lies, behind the messages.
    pub(in crate::measure) answer: usize,
}

impl End {
    /// The whole of a message, at `offset` of both buffers.
    pub(in crate::measure) fn message(&self, side: Side, offset: usize) -> Part {
        Part { side, offset, bytes: self.bytes }
    }

    fn answer(&self, side: Side) -> Part {
        Part { side, offset: self.answer, bytes: 1 }
    }

    /// One iteration of `test`, with message `n` of a window at `place(n)` of the buffers.
    pub(in crate::measure) fn talk(
        &self,
        test: Messages,
        channel: &mut dyn Channel,
        place: impl Fn(u32) -> usize,
    ) -> Result<(), BackendError> {
        match test {
            Messages::Latency | Messages::MultiLatency => self.round_trip(channel, place(0)),
            Messages::Bandwidth | Messages::MultiBandwidth => self.one_way(channel, place),
            Messages::BiBandwidth => self.both_ways(channel, place),
        }
    }

    fn round_trip(&self, channel: &mut dyn Channel, at: usize) -> Result<(), BackendError> {
        let (out, back) = (self.message(Side::Send, at), self.message(Side::Recv, at));
        if self.begins {
            channel.send(self.peer, out)?;
            channel.recv(self.peer, back)
        } else {
            channel.recv(self.peer, back)?;
            channel.send(self.peer, out)
        }
    }

    fn one_way(
        &self,
        channel: &mut dyn Channel,
        place: impl Fn(u32) -> usize,
    ) -> Result<(), BackendError> {
        if self.begins {
            for n in 0..self.window {
                channel.start_send(self.peer, self.message(Side::Send, place(n)))?;
            }
            channel.complete()?;
            channel.recv(self.peer, self.answer(Side::Recv))
        } else {
            for n in 0..self.window {
                channel.start_recv(self.peer, self.message(Side::Recv, place(n)))?;
            }
            channel.complete()?;
            channel.send(self.peer, self.answer(Side::Send))
        }
    }

    fn both_ways(
        &self,
        channel: &mut dyn Channel,
        place: impl Fn(u32) -> usize,
    ) -> Result<(), BackendError> {
        for n in 0..self.window {
            channel.start_recv(self.peer, self.message(Side::Recv, place(n)))?;
        }
        for n in 0..self.window {
            channel.start_send(self.peer, self.message(Side::Send, place(n)))?;
        }
        channel.complete()
    }
}
