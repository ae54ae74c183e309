//! Messages through this machine's shared memory, by the mailboxes of `busbw-shm`.
//! Not collectives: those are the communicator's.

use busbw_core::pattern::{self, Content, Mismatch, Pattern};
use busbw_shm::{Address, Buffer, Messages};

use crate::backend::{BackendError, Channel, Part, Side};

/// One rank's end.
#[derive(Debug)]
pub(super) struct HostChannel(pub(super) Messages);

fn address(part: Part) -> Address {
    let buffer = match part.side {
        Side::Send => Buffer::Send,
        Side::Recv => Buffer::Recv,
    };
    Address { buffer, offset: part.offset }
}

impl HostChannel {
    fn own(&mut self, part: Part) -> &mut [u8] {
        let Address { buffer, offset } = address(part);
        self.0.own(buffer, offset, part.bytes)
    }
}

impl Channel for HostChannel {
    #[inline]
    fn send(&mut self, to: usize, part: Part) -> Result<(), BackendError> {
        Ok(self.0.send(to, address(part), part.bytes)?)
    }

    #[inline]
    fn recv(&mut self, from: usize, part: Part) -> Result<(), BackendError> {
        Ok(self.0.recv(from, address(part), part.bytes)?)
    }

    #[inline]
    fn start_send(&mut self, to: usize, part: Part) -> Result<(), BackendError> {
        Ok(self.0.start_send(to, address(part), part.bytes)?)
    }

    #[inline]
    fn start_recv(&mut self, from: usize, part: Part) -> Result<(), BackendError> {
        Ok(self.0.start_recv(from, address(part), part.bytes)?)
    }

    fn complete(&mut self) -> Result<(), BackendError> {
        Ok(self.0.complete()?)
    }

    fn fill(
        &mut self,
        part: Part,
        pattern: &Pattern,
        content: Content,
    ) -> Result<(), BackendError> {
        pattern::fill(self.own(part), pattern, content);
        Ok(())
    }

    fn verify(
        &mut self,
        part: Part,
        pattern: &Pattern,
        content: Content,
    ) -> Result<Mismatch, BackendError> {
        Ok(pattern::verify(self.own(part), pattern, content))
    }

    fn corrupt(&mut self, part: Part) -> Result<(), BackendError> {
        if let Some(byte) = self.own(part).first_mut() {
            *byte ^= 1;
        }
        Ok(())
    }
}
