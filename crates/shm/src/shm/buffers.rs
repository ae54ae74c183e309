//! Every rank's send, receive and check buffers, each rank's in a memfd of its own, mapped by all.
//! Not allocation policy: the supervisor decides the sizes.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use super::segment::{Segment, SegmentError};

/// One of a rank's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// Out of place: the send data.
    Send,
    /// The received data; in place also the send data.
    Recv,
    /// The check buffer. It replaces `Recv` in the last timed iteration, whose result is verified.
    /// It was poisoned before the batch, so no earlier iteration's result can pass for that one.
    Check,
}

/// A byte of a rank's buffers, whose rank the context names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The buffer.
    pub buffer: Buffer,
    /// Bytes from its start.
    pub offset: usize,
}

/// Buffers start on a page, so that they share none.
const PAGE: usize = 4096;

/// All ranks' buffers, as mapped in one process.
#[derive(Debug)]
pub struct Buffers {
    segments: Vec<Segment>,
    each: usize,
    bytes: usize,
}

impl Buffers {
    /// Bytes that one buffer occupies, for `bytes` usable ones.
    const fn padded(bytes: usize) -> usize {
        (if bytes == 0 { 1 } else { bytes }).next_multiple_of(PAGE)
    }

    /// Bytes of one rank's memfd with buffers of `bytes`: three buffers if results are verified,
    /// else two.
    pub const fn total(bytes: usize, verified: bool) -> usize {
        (if verified { 3 } else { 2 }) * Buffers::padded(bytes)
    }

    /// A new memfd for `rank`'s buffers. Its name shows in /proc/PID/maps.
    ///
    /// # Errors
    /// When the kernel refuses the memory.
    pub fn create(rank: usize, bytes: usize, verified: bool) -> Result<OwnedFd, SegmentError> {
        Segment::create(&format!("busbw-rank-{rank}"), Buffers::total(bytes, verified))
    }

    /// Maps the memfds of all ranks, in rank order.
    ///
    /// # Errors
    /// When the kernel refuses a mapping.
    pub fn map(
        fds: &[impl AsFd],
        bytes: usize,
        verified: bool,
    ) -> Result<Arc<Buffers>, SegmentError> {
        let total = Buffers::total(bytes, verified);
        let segments = fds
            .iter()
            .enumerate()
            .map(|(rank, fd)| Segment::map(fd, &format!("busbw-rank-{rank}"), total))
            .collect::<Result<_, _>>()?;
        Ok(Arc::new(Buffers { segments, each: Buffers::padded(bytes), bytes }))
    }

    /// Maps every page of a rank's buffers into this process.
    pub(crate) fn touch(&self, rank: usize) {
        self.segments[rank].touch();
    }

    /// Address of `len` bytes at `offset` of a rank's buffer.
    ///
    /// # Panics
    /// They do not lie within the buffer: a bug of the caller.
    pub(crate) fn at(&self, rank: usize, buffer: Buffer, offset: usize, len: usize) -> *mut u8 {
        let end = offset.checked_add(len);
        assert!(end.is_some_and(|e| e <= self.bytes), "{offset}+{len} is beyond {}", self.bytes);
        let start = match buffer {
            Buffer::Send => 0,
            Buffer::Recv => self.each,
            Buffer::Check => 2 * self.each,
        };
        self.segments[rank].at(start + offset, len).as_ptr()
    }
}
