//! Point-to-point messages between ranks: what tests of messages need from a backend.
//! Not the loops (`measure::messages`).

use std::time::Duration;

use busbw_core::{
    messages::Messages,
    pattern::{Content, Mismatch, Pattern},
};

use super::{BackendError, Reason, Synchronized};

/// Which of a rank's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What it sends from.
    Send,
    /// Where it receives.
    Recv,
}

/// A part of one of a rank's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Which buffer.
    pub side: Side,
    /// Offset in bytes.
    pub offset: usize,
    /// Length in bytes.
    pub bytes: usize,
}

/// A window: messages in flight at once, from or to one of a rank's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Which buffer.
    pub side: Side,
    /// Bytes of a message.
    pub bytes: usize,
    /// How many messages.
    pub messages: u32,
    /// How many of them have a part of the buffer of their own; the others reuse the parts from the
    /// first on.
    pub apart: usize,
}

impl Window {
    /// The offset of each message, in bytes.
    #[inline]
    pub fn offsets(self) -> impl Iterator<Item = usize> {
        let Window { bytes, messages, apart, .. } = self;
        // A division would take a tenth of a short message's time.
        (0..messages).map(move |n| if apart == 1 { 0 } else { n as usize % apart * bytes })
    }

    fn parts(self) -> impl Iterator<Item = Part> {
        let Window { side, bytes, .. } = self;
        self.offsets().map(move |offset| Part { side, offset, bytes })
    }
}

/// A whole batch of a test between two ranks, as each of them runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// The test.
    pub test: Messages,
    /// World rank of the other end.
    pub peer: usize,
    /// Whether this end begins, and takes the time.
    pub begins: bool,
    /// Bytes of a message.
    pub bytes: usize,
    /// Messages of an iteration, where not one goes back and forth.
    pub window: u32,
    /// How many messages have a part of the buffers of their own.
    pub apart: usize,
    /// Timed iterations.
    pub iterations: u32,
    /// Untimed iterations before them.
    pub warmup: u32,
}

/// Messages between world ranks. Those of a pair arrive in the order in which they were sent.
pub trait Channel {
    /// Whether a message of that length can be sent.
    ///
    /// # Errors
    /// The reason why it cannot: it becomes a waived row.
    fn takes(&self, _test: Messages, _bytes: usize) -> Result<(), Reason> {
        Ok(())
    }

    /// Runs a whole batch, where the channel has loops of its own: the two ends of an RDMA write do not take the same
    /// part. Returns the time of each timed iteration at the end that begins, and none at the other. `None` means that
    /// the caller sends message by message.
    fn batch(&mut self, _batch: &Batch) -> Option<Result<Vec<Duration>, BackendError>> {
        None
    }

    /// Sends a message. The buffer may be written again when this returns.
    ///
    /// # Errors
    /// The library refuses the call, or the run was stopped.
    fn send(&mut self, to: usize, part: Part) -> Result<(), BackendError>;

    /// Receives a message of that length. The data is complete when this returns.
    ///
    /// # Errors
    /// The library refuses the call, or the run was stopped.
    fn recv(&mut self, from: usize, part: Part) -> Result<(), BackendError>;

    /// Starts to send a message; [`Channel::complete`] waits for it.
    ///
    /// # Errors
    /// The library refuses the call.
    fn start_send(&mut self, to: usize, part: Part) -> Result<(), BackendError>;

    /// Starts to receive a message; [`Channel::complete`] waits for it.
    ///
    /// # Errors
    /// The library refuses the call.
    fn start_recv(&mut self, from: usize, part: Part) -> Result<(), BackendError>;

    /// Starts to send a window of messages.
    ///
    /// # Errors
    /// The library refuses a call.
    fn start_sends(&mut self, to: usize, window: Window) -> Result<(), BackendError> {
        window.parts().try_for_each(|part| self.start_send(to, part))
    }

    /// Starts to receive a window of messages.
    ///
    /// # Errors
    /// The library refuses a call.
    fn start_recvs(&mut self, from: usize, window: Window) -> Result<(), BackendError> {
        window.parts().try_for_each(|part| self.start_recv(from, part))
    }

    /// Waits for everything that was started.
    ///
    /// # Errors
    /// The deadline passes, the library reports an error, or the run was stopped.
    fn complete(&mut self) -> Result<(), BackendError>;

    /// Stays in the library until all other ranks have completed their messages, too. All ranks
    /// call it before a barrier outside of the library: a library that makes progress only while it
    /// is called would otherwise leave another rank waiting for ever. Returns whether this call was
    /// a barrier by itself.
    ///
    /// # Errors
    /// The library's own call fails.
    fn quiesce(&mut self) -> Result<Synchronized, BackendError> {
        Ok(Synchronized::No)
    }

    /// Writes a part that is to be sent, or poison where something is to be received.
    ///
    /// # Errors
    /// A copy to the GPU fails.
    fn fill(&mut self, part: Part, pattern: &Pattern, content: Content)
    -> Result<(), BackendError>;

    /// Compares a part with its expected content.
    ///
    /// # Errors
    /// A copy from the GPU fails.
    fn verify(
        &mut self,
        part: Part,
        pattern: &Pattern,
        content: Content,
    ) -> Result<Mismatch, BackendError>;

    /// Flips one bit of the first byte of a part: an injected fault.
    ///
    /// # Errors
    /// A copy to or from the GPU fails.
    fn corrupt(&mut self, part: Part) -> Result<(), BackendError>;
}
