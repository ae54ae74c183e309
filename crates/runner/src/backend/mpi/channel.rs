//! Messages by MPI_Send, MPI_Recv, MPI_Isend, MPI_Irecv and MPI_Waitall, as OSU's programs send them.
//! Not collectives (`operations`).

use busbw_core::pattern::{self, Content, Mismatch, Pattern};
use busbw_ffi::mpi::{self, Which};

use super::{Mpi, deadline, failed};
use crate::backend::{BackendError, Channel, Part, Side, Synchronized, Window};

fn which(side: Side) -> Which {
    match side {
        Side::Send => Which::Send,
        Side::Recv => Which::Recv,
    }
}

fn part(part: Part) -> mpi::Part {
    mpi::Part { which: which(part.side), offset: part.offset, bytes: part.bytes }
}

impl Channel for Mpi<'_> {
    fn send(&mut self, to: usize, what: Part) -> Result<(), BackendError> {
        self.rank.send(to, part(what)).map_err(failed)
    }

    fn recv(&mut self, from: usize, what: Part) -> Result<(), BackendError> {
        self.rank.recv(from, part(what)).map_err(failed)
    }

    fn start_send(&mut self, to: usize, what: Part) -> Result<(), BackendError> {
        self.rank.start_send(to, part(what)).map_err(failed)
    }

    fn start_recv(&mut self, from: usize, what: Part) -> Result<(), BackendError> {
        self.rank.start_recv(from, part(what)).map_err(failed)
    }

    // Windows of small messages are nothing but calls: whatever runs between two calls is part of
    // the time.
    fn start_sends(&mut self, to: usize, window: Window) -> Result<(), BackendError> {
        let started = self.rank.start_sends(to, which(window.side), window.bytes, window.offsets());
        started.map_err(failed)
    }

    fn start_recvs(&mut self, from: usize, window: Window) -> Result<(), BackendError> {
        let started =
            self.rank.start_recvs(from, which(window.side), window.bytes, window.offsets());
        started.map_err(failed)
    }

    fn complete(&mut self) -> Result<(), BackendError> {
        self.rank.complete(deadline(self.plan), &self.stopped).map_err(failed)
    }

    fn quiesce(&mut self) -> Result<Synchronized, BackendError> {
        self.rank.barrier().map_err(failed)?;
        Ok(Synchronized::Yes)
    }

    fn fill(
        &mut self,
        what: Part,
        pattern: &Pattern,
        content: Content,
    ) -> Result<(), BackendError> {
        let fill = |bytes: &mut [u8]| pattern::fill(bytes, pattern, content);
        self.rank.write(part(what), fill).map_err(failed)
    }

    fn verify(
        &mut self,
        what: Part,
        pattern: &Pattern,
        content: Content,
    ) -> Result<Mismatch, BackendError> {
        let bytes = self.rank.look(part(what)).map_err(failed)?;
        Ok(pattern::verify(bytes, pattern, content))
    }

    fn corrupt(&mut self, what: Part) -> Result<(), BackendError> {
        self.rank.flip(part(what)).map_err(failed)
    }
}
