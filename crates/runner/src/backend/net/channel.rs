//! Messages by isend, irecv and test.
//! Not collectives (`operations`).

use std::rc::Rc;

use busbw_core::pattern::{self, Content, Mismatch, Pattern};
use busbw_ffi::net::{Guard, Memory};

use super::{Net, broken, failed};
use crate::backend::{BackendError, Channel, Part, Side};

impl Net<'_> {
    fn memory(&self, side: Side) -> &Rc<Memory> {
        match side {
            Side::Send => &self.buffers.send,
            Side::Recv => &self.buffers.recv,
        }
    }

    fn guard(&self, part: Part) -> Result<Guard<'_>, BackendError> {
        let guard = self.memory(part.side).part(part.offset..part.offset + part.bytes);
        guard.map_err(|busy| failed(self.world_rank, busy.into()))
    }

    /// Makes progress on the messages to or from a rank until they are complete.
    fn settle(&mut self, with: usize) -> Result<(), BackendError> {
        let Net { links, stopped, plan, world_rank, .. } = self;
        let stopped = stopped.as_ref();
        let mut patience = super::patience(plan, stopped);
        while !links.are_idle(with, with) {
            match links.advance(with, with).map_err(|error| broken(stopped, *world_rank, error))? {
                true => patience.renew(),
                false => patience.rest(|| vec![with])?,
            }
        }
        Ok(())
    }
}

impl Channel for Net<'_> {
    fn send(&mut self, to: usize, part: Part) -> Result<(), BackendError> {
        self.start_send(to, part)?;
        self.settle(to)
    }

    fn recv(&mut self, from: usize, part: Part) -> Result<(), BackendError> {
        self.start_recv(from, part)?;
        self.settle(from)
    }

    fn start_send(&mut self, to: usize, part: Part) -> Result<(), BackendError> {
        let memory = Rc::clone(self.memory(part.side));
        let sent = self.links.send(to, &memory, part.offset..part.offset + part.bytes);
        sent.map_err(|error| failed(self.world_rank, error))
    }

    fn start_recv(&mut self, from: usize, part: Part) -> Result<(), BackendError> {
        let memory = Rc::clone(self.memory(part.side));
        let posted = self.links.recv(from, &memory, part.offset..part.offset + part.bytes);
        posted.map_err(|error| failed(self.world_rank, error))
    }

    fn complete(&mut self) -> Result<(), BackendError> {
        let Net { links, stopped, plan, world_rank, .. } = self;
        let stopped = stopped.as_ref();
        let mut patience = super::patience(plan, stopped);
        loop {
            let moved = links.advance_all().map_err(|error| broken(stopped, *world_rank, error))?;
            if links.is_everything_through() {
                return Ok(());
            }
            match moved {
                true => patience.renew(),
                false => patience.rest(|| links.busy())?,
            }
        }
    }

    fn fill(
        &mut self,
        part: Part,
        pattern: &Pattern,
        content: Content,
    ) -> Result<(), BackendError> {
        pattern::fill(&mut self.guard(part)?, pattern, content);
        Ok(())
    }

    fn verify(
        &mut self,
        part: Part,
        pattern: &Pattern,
        content: Content,
    ) -> Result<Mismatch, BackendError> {
        Ok(pattern::verify(&self.guard(part)?, pattern, content))
    }

    fn corrupt(&mut self, part: Part) -> Result<(), BackendError> {
        if let Some(first) = self.guard(part)?.first_mut() {
            *first ^= 1;
        }
        Ok(())
    }
}
