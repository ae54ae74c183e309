//! Memory of this process for one buffer of a rank: whole pages, there before anything is timed, and never
//! given back while MPI may still write to it.
//! Not what is in it.

use std::io;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::buffer::Buffer;

/// Bytes of a page.
const PAGE: usize = 4096;

/// One buffer. It stays for the life of the process: a message that was never completed may come later.
#[derive(Debug)]
pub(super) struct Memory {
    address: *mut u8,
    bytes: usize,
}

impl Memory {
    /// `bytes` zeros, every page of them touched by the calling thread, so that they lie near it.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn new(bytes: usize) -> io::Result<Memory> {
        let whole = bytes.max(1).next_multiple_of(PAGE);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let address = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                whole,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let address = address.cast::<u8>();
        for at in (0..whole).step_by(PAGE) {
            // SAFETY: within the mapping, which nobody else knows yet.
            unsafe { address.add(at).write_volatile(0) };
        }
        Ok(Memory { address, bytes })
    }

    /// `len` bytes from `offset` on, for MPI.
    #[inline]
    pub(super) fn part(&self, offset: usize, len: usize) -> Option<Buffer> {
        // SAFETY: the mapping is never unmapped, and [`Memory::bytes`] is not called while operations go on.
        let whole = unsafe { Buffer::new(self.address.cast(), self.bytes) };
        whole.part(offset, len)
    }

    /// `len` bytes from `offset` on, for us.
    ///
    /// # Safety
    /// No operation of MPI on this memory may be under way.
    ///
    /// # Panics
    /// When they do not lie within, a bug of the caller.
    pub(super) unsafe fn bytes(&mut self, offset: usize, len: usize) -> &mut [u8] {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.bytes),
            "{len} bytes at {offset} of {}",
            self.bytes
        );
        // SAFETY: in bounds and initialised; exclusive by the borrow, and by what the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.address.add(offset), len) }
    }
}
