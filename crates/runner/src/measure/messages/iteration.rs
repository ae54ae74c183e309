//! One iteration of a test of messages, as each end of a pair runs it. The loops are OSU's
//! (c/mpi/pt2pt/standard/osu_latency.c, osu_bw.c, osu_bibw.c of 7.4), so that figures compare.
//! Not how many iterations, and no clock.

use busbw_core::messages::Messages;

use crate::backend::{BackendError, Batch, Channel, Part, Side, Window};

/// One end of a pair.
#[derive(Debug, Clone, Copy)]
pub(in crate::measure) struct End {
    /// World rank of the other end.
    pub(in crate::measure) peer: usize,
    /// Whether this end begins, and reads the clock.
    pub(in crate::measure) begins: bool,
    /// Bytes of a message.
    pub(in crate::measure) bytes: usize,
    /// Messages in flight at once.
    pub(in crate::measure) window: u32,
    /// Offset of the one-byte answer, behind the messages.
    pub(in crate::measure) answer: usize,
}

impl End {
    /// A message at the beginning of a buffer.
    pub(in crate::measure) fn message(&self, side: Side) -> Part {
        Part { side, offset: 0, bytes: self.bytes }
    }

    fn answer(&self, side: Side) -> Part {
        Part { side, offset: self.answer, bytes: 1 }
    }

    fn messages(&self, side: Side, apart: usize) -> Window {
        Window { side, bytes: self.bytes, messages: self.window, apart }
    }

    /// A batch of `test` with so many timed and untimed iterations, for channels that run it themselves.
    pub(in crate::measure) fn batch(
        &self,
        test: Messages,
        (iterations, warmup): (u32, u32),
        apart: usize,
    ) -> Batch {
        let End { peer, begins, bytes, window, .. } = *self;
        Batch { test, peer, begins, bytes, window, apart, iterations, warmup }
    }

    /// Runs one iteration of `test`; `apart` messages of a window have a part of the buffers of
    /// their own.
    pub(in crate::measure) fn talk(
        &self,
        test: Messages,
        channel: &mut dyn Channel,
        apart: usize,
    ) -> Result<(), BackendError> {
        if let Some(done) = channel.batch(&self.batch(test, (1, 0), apart)) {
            return done.map(drop);
        }
        match test {
            Messages::Latency | Messages::MultiLatency => self.round_trip(channel),
            Messages::Bandwidth | Messages::MultiBandwidth => self.one_way(channel, apart),
            Messages::BiBandwidth => self.both_ways(channel, apart),
        }
    }

    fn round_trip(&self, channel: &mut dyn Channel) -> Result<(), BackendError> {
        let (out, back) = (self.message(Side::Send), self.message(Side::Recv));
        if self.begins {
            channel.send(self.peer, out)?;
            channel.recv(self.peer, back)
        } else {
            channel.recv(self.peer, back)?;
            channel.send(self.peer, out)
        }
    }

    fn one_way(&self, channel: &mut dyn Channel, apart: usize) -> Result<(), BackendError> {
        if self.begins {
            channel.start_sends(self.peer, self.messages(Side::Send, apart))?;
            channel.complete()?;
            channel.recv(self.peer, self.answer(Side::Recv))
        } else {
            channel.start_recvs(self.peer, self.messages(Side::Recv, apart))?;
            channel.complete()?;
            channel.send(self.peer, self.answer(Side::Send))
        }
    }

    fn both_ways(&self, channel: &mut dyn Channel, apart: usize) -> Result<(), BackendError> {
        channel.start_recvs(self.peer, self.messages(Side::Recv, apart))?;
        channel.start_sends(self.peer, self.messages(Side::Send, apart))?;
        channel.complete()
    }
}
