//! Memory that MPI reads or writes and that a caller owns.
//! Not its content.

use std::ffi::c_void;

/// A range of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    address: *mut c_void,
    bytes: usize,
}

impl Buffer {
    /// `bytes` from `address` on.
    ///
    /// # Safety
    /// They must exist, and not be used otherwise, while any operation on the buffer is in flight:
    /// from [`Requests::send`] or [`Requests::recv`] to the wait that succeeds, and for ever after
    /// a failed wait.
    /// did not.
    ///
    /// [`Requests::send`]: super::Requests::send
    /// [`Requests::recv`]: super::Requests::recv
    pub unsafe fn new(address: *mut c_void, bytes: usize) -> Buffer {
        Buffer::at(address, bytes)
    }

    /// Without bytes the address is null: Rust's dangling addresses are small numbers, and 1 is
    /// MPI_IN_PLACE in two of the ABIs.
    fn at(address: *mut c_void, bytes: usize) -> Buffer {
        Buffer { address: if bytes == 0 { std::ptr::null_mut() } else { address }, bytes }
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// `bytes` of it from `offset` on; `None` if that range does not lie within.
    #[inline]
    pub fn part(&self, offset: usize, bytes: usize) -> Option<Buffer> {
        let end = offset.checked_add(bytes)?;
        let address = self.address.wrapping_byte_add(offset);
        (end <= self.bytes).then_some(Buffer::at(address, bytes))
    }

    pub(super) fn address(&self) -> *mut c_void {
        self.address
    }
}

/// One side of a collective: a buffer of its own, or MPI_IN_PLACE, where the standard allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A buffer.
    Buffer(Buffer),
    /// MPI_IN_PLACE: the other side's buffer.
    InPlace,
}

impl From<Buffer> for Side {
    fn from(buffer: Buffer) -> Side {
        Side::Buffer(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_within() {
        let mut bytes = [0_u8; 64];
        // SAFETY: no operation is made on it.
        let buffer = unsafe { Buffer::new(bytes.as_mut_ptr().cast(), 64) };
        assert_eq!(buffer.part(16, 48).map(|b| b.bytes()), Some(48));
        assert_eq!(buffer.part(16, 49), None);
        assert_eq!(buffer.part(usize::MAX, 2), None);
        assert_eq!(buffer.part(64, 0).map(|b| b.address().is_null()), Some(true));
    }
}
