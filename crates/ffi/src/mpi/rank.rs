//! A rank with buffers of its own: messages and collectives between parts of them. It owns both, so
//! that nothing can touch memory that MPI uses. Buffers are in memory of the process, or of a GPU
//! where the library accepts that.
//! Not buffers of others (`buffer`).

mod collectives;

use std::{io, sync::Arc, time::Instant};

use thiserror::Error;

use super::{
    buffer::Buffer,
    communicator::Communicator,
    element::{Element, Elements, NotPossible},
    exchange::Source,
    library::{Mpi, MpiError},
    memory::Memory,
    requests::{Requests, WaitError},
    session::Session,
};
use crate::gpu::{Context, GpuError};

/// The tag of every message: two ranks use only one.
const TAG: i32 = 1;

/// Which of a rank's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The send buffer.
    Send,
    /// The receive buffer; in place, the send buffer as well.
    Recv,
    /// The check buffer: the result that is verified.
    Check,
}

/// A part of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Which buffer.
    pub which: Which,
    /// Offset in bytes.
    pub offset: usize,
    /// Length in bytes.
    pub bytes: usize,
}

/// Why an operation failed.
#[derive(Debug, Error)]
pub enum RankError {
    /// An MPI call failed.
    #[error(transparent)]
    Mpi(#[from] MpiError),
    /// MPI lacks the feature.
    #[error(transparent)]
    NotPossible(#[from] NotPossible),
    /// Messages were still in flight.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// The GPU's driver refused.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The library does not say that it accepts buffers in a GPU's memory.
    #[error("{0}")]
    NotAware(String),
    /// There is no memory for buffers.
    #[error("cannot make buffers: {0}")]
    Memory(#[from] io::Error),
    /// A part does not lie within its buffer: a bug of the caller.
    #[error("{} bytes at {} do not lie within the {:?} buffer", .0.bytes, .0.offset, .0.which)]
    Outside(Part),
}

/// A rank of MPI_COMM_WORLD and its buffers, on the thread that called MPI_Init.
#[derive(Debug)]
pub struct Rank {
    // Declared before the session, to be dropped first: both use it.
    requests: Requests,
    world: Communicator,
    session: Session,
    send: Memory,
    recv: Memory,
    check: Memory,
    /// The last number of bytes, and how the library takes it: a test sends the same number again
    /// and again.
    last: Option<(usize, Elements)>,
    /// Whether an operation was started and never completed: MPI may then use the buffers for ever.
    lost: bool,
}

/// The source of a result: a part of a buffer, or its destination.
pub type Input = Option<Part>;

impl Rank {
    /// A rank with buffers of `bytes` each, with up to `window` messages in flight in each
    /// direction. They are on `gpu` if there is one: the current context of this thread since
    /// before [`Session::join`], where most libraries look for it.
    ///
    /// # Errors
    /// The library does not accept GPU memory ([`RankError::NotAware`]), or there is not enough
    /// memory.
    pub fn new(
        session: Session,
        bytes: usize,
        verified: bool,
        window: usize,
        gpu: Option<&Arc<Context>>,
    ) -> Result<Rank, RankError> {
        if let Some(context) = gpu {
            let vendor = context.runtime().vendor();
            session.takes_memory_of(vendor).map_err(RankError::NotAware)?;
        }
        let memory = |bytes| -> Result<Memory, RankError> {
            Ok(match gpu {
                Some(context) => Memory::on(context, bytes)?,
                None => Memory::new(bytes)?,
            })
        };
        let world = session.world()?;
        let requests = Requests::new(&world, 2 * window.max(1));
        let check = memory(if verified { bytes } else { 1 })?;
        let (send, recv) = (memory(bytes)?, memory(bytes)?);
        Ok(Rank { requests, world, session, send, recv, check, last: None, lost: false })
    }

    /// The library.
    pub fn mpi(&self) -> &'static Mpi {
        self.world.mpi()
    }

    /// This rank of MPI_COMM_WORLD.
    pub fn rank(&self) -> usize {
        self.world.rank()
    }

    /// Its size.
    pub fn ranks(&self) -> usize {
        self.world.ranks()
    }

    /// Calls MPI_Finalize with all other ranks; only after everything was completed.
    ///
    /// # Errors
    /// MPI refuses the call.
    pub fn finalize(self) -> Result<(), MpiError> {
        let Rank { requests, world, session, .. } = self;
        drop((requests, world));
        session.finalize()
    }

    fn memory(&self, which: Which) -> &Memory {
        match which {
            Which::Send => &self.send,
            Which::Recv => &self.recv,
            Which::Check => &self.check,
        }
    }

    #[inline]
    fn buffer(&self, part: Part) -> Result<Buffer, RankError> {
        self.memory(part.which).part(part.offset, part.bytes).ok_or(RankError::Outside(part))
    }

    /// The buffer, for our own use.
    fn own(&mut self, which: Which) -> &mut Memory {
        assert!(
            self.requests.open() == 0 && !self.lost,
            "buffers were accessed with messages in flight"
        );
        match which {
            Which::Send => &mut self.send,
            Which::Recv => &mut self.recv,
            Which::Check => &mut self.check,
        }
    }

    /// A part, to read; a copy of a GPU's memory.
    ///
    /// # Errors
    /// The GPU's driver refuses the copy.
    ///
    /// # Panics
    /// Messages are in flight, or the part does not lie within its buffer: bugs of the caller.
    pub fn look(&mut self, part: Part) -> Result<&[u8], RankError> {
        // SAFETY: collectives and blocking messages are over when they return, and of others none is
        // under way.
        Ok(unsafe { self.own(part.which).look(part.offset, part.bytes) }?)
    }

    /// Calls `fill` to write all of a part.
    ///
    /// # Errors
    /// The GPU's driver refuses the copy.
    ///
    /// # Panics
    /// As [`Rank::look`].
    pub fn write(&mut self, part: Part, fill: impl FnOnce(&mut [u8])) -> Result<(), RankError> {
        // SAFETY: as above.
        Ok(unsafe { self.own(part.which).write(part.offset, part.bytes, fill) }?)
    }

    /// Flips one bit of the first byte of a part: an injected fault.
    ///
    /// # Errors
    /// The GPU's driver refuses the copy.
    ///
    /// # Panics
    /// As [`Rank::look`].
    pub fn flip(&mut self, part: Part) -> Result<(), RankError> {
        let Some(byte) = self.look(part)?.first().copied() else { return Ok(()) };
        self.write(Part { bytes: 1, ..part }, |bytes| bytes.fill(byte ^ 1))
    }

    #[inline]
    fn bytes(&mut self, part: Part) -> Result<Elements, MpiError> {
        if let Some((bytes, elements)) = self.last
            && bytes == part.bytes
        {
            return Ok(elements);
        }
        let elements = self.world.elements(Element::Char, part.bytes)?;
        self.last = Some((part.bytes, elements));
        Ok(elements)
    }

    /// MPI_Send of bytes.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn send(&mut self, to: usize, part: Part) -> Result<(), RankError> {
        let (buffer, elements) = (self.buffer(part)?, self.bytes(part)?);
        Ok(self.world.send(buffer, elements, to, TAG)?)
    }

    /// MPI_Recv of bytes.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn recv(&mut self, from: usize, part: Part) -> Result<(), RankError> {
        let (buffer, elements) = (self.buffer(part)?, self.bytes(part)?);
        Ok(self.world.recv(buffer, elements, Source::Rank(from), TAG)?)
    }

    /// MPI_Isend of bytes.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn start_send(&mut self, to: usize, part: Part) -> Result<(), RankError> {
        let (buffer, elements) = (self.buffer(part)?, self.bytes(part)?);
        Ok(self.requests.send(&self.world, buffer, elements, to, TAG)?)
    }

    /// MPI_Irecv of bytes.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn start_recv(&mut self, from: usize, part: Part) -> Result<(), RankError> {
        let (buffer, elements) = (self.buffer(part)?, self.bytes(part)?);
        Ok(self.requests.recv(&self.world, buffer, elements, Source::Rank(from), TAG)?)
    }

    /// MPI_Isend of messages of `bytes` each, one at each offset.
    ///
    /// # Errors
    /// A call failed: the messages before it are in flight.
    #[inline]
    pub fn start_sends(
        &mut self,
        to: usize,
        which: Which,
        bytes: usize,
        offsets: impl Iterator<Item = usize>,
    ) -> Result<(), RankError> {
        let elements = self.bytes(Part { which, offset: 0, bytes })?;
        for offset in offsets {
            let buffer = self.buffer(Part { which, offset, bytes })?;
            self.requests.send(&self.world, buffer, elements, to, TAG)?;
        }
        Ok(())
    }

    /// MPI_Irecv of messages of `bytes` each, one at each offset.
    ///
    /// # Errors
    /// A call failed: the messages before it are in flight.
    #[inline]
    pub fn start_recvs(
        &mut self,
        from: usize,
        which: Which,
        bytes: usize,
        offsets: impl Iterator<Item = usize>,
    ) -> Result<(), RankError> {
        let elements = self.bytes(Part { which, offset: 0, bytes })?;
        for offset in offsets {
            let buffer = self.buffer(Part { which, offset, bytes })?;
            self.requests.recv(&self.world, buffer, elements, Source::Rank(from), TAG)?;
        }
        Ok(())
    }

    /// MPI_Waitall or, with a deadline, the same by polling.
    ///
    /// # Errors
    /// MPI reports an error, or the deadline passes: the rank cannot be used afterwards.
    #[inline]
    pub fn complete(
        &mut self,
        deadline: Option<Instant>,
        given_up: impl FnMut() -> bool,
    ) -> Result<(), RankError> {
        let Some(deadline) = deadline else { return Ok(self.requests.wait_all()?) };
        let done = self.requests.wait_all_until(deadline, given_up);
        self.lost |= done.is_err();
        Ok(done?)
    }

    /// MPI_Sendrecv.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn exchange(
        &mut self,
        (send, to): (Part, usize),
        (recv, from): (Part, usize),
        elements: Elements,
    ) -> Result<(), RankError> {
        let (send, recv) = (self.buffer(send)?, self.buffer(recv)?);
        let (send, recv) = ((send, to), (recv, Source::Rank(from)));
        Ok(self.world.send_recv(send, recv, elements, TAG)?)
    }

    /// The same with bytes, the same number in each direction.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn exchange_bytes(
        &mut self,
        send: (Part, usize),
        recv: (Part, usize),
    ) -> Result<(), RankError> {
        let elements = self.bytes(send.0)?;
        self.exchange(send, recv, elements)
    }

    /// Copies a part of a buffer to a part of another of the same size; in a GPU's memory by a
    /// message to ourselves.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    ///
    /// # Panics
    /// Messages are in flight, or both parts are of one buffer: bugs of the caller.
    pub fn copy(&mut self, from: Part, to: Part) -> Result<(), RankError> {
        assert!(from.which != to.which && from.bytes == to.bytes, "{from:?} to {to:?}");
        if self.memory(from.which).is_on_gpu() {
            let me = self.rank();
            return self.exchange_bytes((from, me), (to, me));
        }
        let bytes = self.look(from)?.as_ptr();
        // SAFETY: both are checked, as long, and lie in different mappings.
        self.write(to, |to| unsafe {
            std::ptr::copy_nonoverlapping(bytes, to.as_mut_ptr(), to.len());
        })
    }
}
