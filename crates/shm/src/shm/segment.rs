//! One memfd and its mapping. Its name is visible in /proc/PID/maps alone, and it is in no file
//! system: nothing is left behind however the processes die.
//! Not its content.

#[cfg(any(loom, miri))]
#[path = "segment/heap.rs"]
mod memory;
#[cfg(not(any(loom, miri)))]
#[path = "segment/memfd.rs"]
mod memory;

use std::{
    os::fd::{AsFd, OwnedFd},
    ptr::NonNull,
};

use thiserror::Error;

/// The smallest page of any supported machine.
const PAGE: usize = 4096;

/// Why shared memory could not be created or mapped.
#[derive(Debug, Error)]
#[error(
    "cannot {what} {bytes} bytes of shared memory '{name}': {source}; lower -e or -g, or check the memory limit"
)]
pub struct SegmentError {
    what: &'static str,
    bytes: usize,
    name: String,
    source: rustix::io::Errno,
}

/// A mapped memfd.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a Segment is an address range that stays mapped until it is dropped; who may touch which
// part when is the business of its users (Control: atomics only; Buffers: the algorithms' barriers).
unsafe impl Send for Segment {}
// SAFETY: as above; a shared Segment hands out nothing but addresses.
unsafe impl Sync for Segment {}

impl Segment {
    /// A new memfd of `bytes` zero bytes. Child processes inherit it on purpose.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn create(name: &str, bytes: usize) -> Result<OwnedFd, SegmentError> {
        let fail = |what| move |source| SegmentError { what, bytes, name: name.to_owned(), source };
        let fd = memory::create(name).map_err(fail("create"))?;
        memory::size(&fd, bytes).map_err(fail("size"))?;
        Ok(fd)
    }

    /// Maps `bytes` of a memfd, for reading and writing, shared.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn map(fd: impl AsFd, name: &str, bytes: usize) -> Result<Segment, SegmentError> {
        let fail = |source| SegmentError { what: "map", bytes, name: name.to_owned(), source };
        if bytes == 0 {
            return Err(fail(rustix::io::Errno::INVAL));
        }
        let base = memory::map(fd, bytes).map_err(fail)?;
        Ok(Segment { base, bytes })
    }

    /// Makes every page present and mapped for writing, without changing a byte.
    pub fn touch(&self) {
        if memory::populate(self.base, self.bytes) {
            return;
        }
        // Kernels before 5.14: reading a byte of every page makes it present.
        for offset in (0..self.bytes).step_by(PAGE) {
            // SAFETY: in bounds; a volatile read of initialised memory that others may write to
            // yields some byte, which is ignored.
            let _ = unsafe { self.base.add(offset).as_ptr().read_volatile() };
        }
    }

    /// The address of byte `offset`.
    ///
    /// # Panics
    /// `offset` and `len` do not lie within the segment: a bug of the caller. To continue would
    /// corrupt other data.
    pub fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
        let end = offset.checked_add(len);
        assert!(end.is_some_and(|e| e <= self.bytes), "{offset}+{len} is beyond {}", self.bytes);
        // SAFETY: offset lies within the mapping, checked above.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map` and nobody can hold an address of it any longer:
        // references handed out borrow the Segment's owner.
        unsafe { memory::unmap(self.base, self.bytes) };
    }
}
