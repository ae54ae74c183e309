//! Messages between ranks, as one rank sends and receives them: what tests of messages ask of a backend.
//! Not the loops (`measure::messages`).

use busbw_core::pattern::{Content, Mismatch, Pattern};

use super::{BackendError, Met};

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
    /// Where it begins, bytes.
    pub offset: usize,
    /// How long it is, bytes.
    pub bytes: usize,
}

/// Messages under way at once, from or to one of a rank's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Which buffer.
    pub side: Side,
    /// Bytes of a message.
    pub bytes: usize,
    /// How many messages.
    pub messages: u32,
    /// How many of them have a place of their own; the others follow from the first place on.
    pub apart: usize,
}

impl Window {
    /// Where each message begins, bytes.
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

/// Messages between world ranks. Those of a pair arrive in the order in which they were sent.
pub trait Channel {
    /// Sends; when this returns, the buffer may be written again.
    ///
    /// # Errors
    /// [`BackendError`].
    fn send(&mut self, to: usize, part: Part) -> Result<(), BackendError>;

    /// Receives a message of that length; when this returns, it is there.
    ///
    /// # Errors
    /// [`BackendError`].
    fn recv(&mut self, from: usize, part: Part) -> Result<(), BackendError>;

    /// Begins to send.
    ///
    /// # Errors
    /// [`BackendError`].
    fn start_send(&mut self, to: usize, part: Part) -> Result<(), BackendError>;

    /// Begins to receive.
    ///
    /// # Errors
    /// [`BackendError`].
    fn start_recv(&mut self, from: usize, part: Part) -> Result<(), BackendError>;

    /// Begins to send a window of messages.
    ///
    /// # Errors
    /// [`BackendError`].
    fn start_sends(&mut self, to: usize, window: Window) -> Result<(), BackendError> {
        window.parts().try_for_each(|part| self.start_send(to, part))
    }

    /// Begins to receive a window of messages.
    ///
    /// # Errors
    /// [`BackendError`].
    fn start_recvs(&mut self, from: usize, window: Window) -> Result<(), BackendError> {
        window.parts().try_for_each(|part| self.start_recv(from, part))
    }

    /// Waits for everything that was begun.
    ///
    /// # Errors
    /// [`BackendError`].
    fn complete(&mut self) -> Result<(), BackendError>;

    /// Stays in the library until all other ranks have ended their messages, too: called by all, before they
    /// meet outside of it. A library that works only while it is called leaves another rank waiting for
    /// ever otherwise. Whether they have met by that.
    ///
    /// # Errors
    /// [`BackendError`].
    fn serve_others(&mut self) -> Result<Met, BackendError> {
        Ok(Met::No)
    }

    /// Writes what is to be sent, or poison where something is to be received.
    ///
    /// # Errors
    /// [`BackendError`].
    fn fill(&mut self, part: Part, pattern: &Pattern, content: Content)
    -> Result<(), BackendError>;

    /// Compares a part with what it must hold.
    ///
    /// # Errors
    /// [`BackendError`].
    fn verify(
        &mut self,
        part: Part,
        pattern: &Pattern,
        content: Content,
    ) -> Result<Mismatch, BackendError>;

    /// Flips one bit of the first byte of a part, on purpose.
    ///
    /// # Errors
    /// [`BackendError`].
    fn corrupt(&mut self, part: Part) -> Result<(), BackendError>;
}
