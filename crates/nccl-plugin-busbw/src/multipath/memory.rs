//! NCCL's memory as the transport hands it on: an address and a length, or a copy of ours.
//! Not when it may be read or written: the transport's state machine sees to that.

use std::{ops::Range, sync::Arc};

use busbw_multipath::{Destination, Memory, Source};

/// Bytes to send.
#[derive(Debug, Clone)]
pub(super) enum Outgoing {
    /// NCCL's memory, there until the message is done or the connection has ended.
    Lent(*const u8, usize),
    /// A copy.
    Copy(Arc<[u8]>),
}

// SAFETY: NCCL's memory may be read from any thread until its message is done, or the connection has ended; what
// is left beyond
// that is a copy (`busbw_multipath::Sender::hedge`).
unsafe impl Send for Outgoing {}

impl Outgoing {
    /// The bytes themselves.
    ///
    /// # Safety
    /// The message is not done, and the connection has not ended, if the bytes are NCCL's.
    pub(super) unsafe fn bytes(&self) -> &[u8] {
        match self {
            Outgoing::Copy(copy) => copy,
            // A slice begins somewhere even if it is empty.
            Outgoing::Lent(_, 0) => &[],
            // SAFETY: as the caller says.
            Outgoing::Lent(data, bytes) => unsafe { std::slice::from_raw_parts(*data, *bytes) },
        }
    }
}

impl Memory for Outgoing {
    fn part(&self, offset: usize, bytes: usize) -> Outgoing {
        match self {
            Outgoing::Lent(data, all) => {
                debug_assert!(offset + bytes <= *all);
                Outgoing::Lent(data.wrapping_add(offset), bytes)
            }
            Outgoing::Copy(copy) => Outgoing::Copy(copy[offset..offset + bytes].into()),
        }
    }

    fn overlaps(&self, addresses: &Range<usize>) -> bool {
        match self {
            Outgoing::Lent(data, bytes) => overlap(data.addr(), *bytes, addresses),
            Outgoing::Copy(_) => false,
        }
    }
}

impl Source for Outgoing {
    fn copied(&self) -> Outgoing {
        match self {
            // SAFETY: the state machine copies what is in flight, of a message that is not done.
            Outgoing::Lent(..) => Outgoing::Copy(unsafe { self.bytes() }.into()),
            Outgoing::Copy(copy) => Outgoing::Copy(copy.clone()),
        }
    }
}

/// A place for what arrives: NCCL's memory, ours until the receive is done or the connection has ended.
#[derive(Debug, Clone)]
pub(super) struct Place(pub *mut u8, pub usize);

// SAFETY: NCCL leaves the memory to us, whichever thread it is, until the receive is done or the connection has ended.
unsafe impl Send for Place {}

impl Place {
    /// Its bytes from `offset` on.
    ///
    /// # Safety
    /// The receive is not done, the connection has not ended, and nobody else has these bytes.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn rest(&self, offset: usize) -> &mut [u8] {
        let Place(data, bytes) = *self;
        // SAFETY: as the caller says; the offset is within it.
        unsafe { std::slice::from_raw_parts_mut(data.add(offset), bytes - offset) }
    }
}

impl Memory for Place {
    fn part(&self, offset: usize, bytes: usize) -> Place {
        debug_assert!(offset + bytes <= self.1);
        Place(self.0.wrapping_add(offset), bytes)
    }

    fn overlaps(&self, addresses: &Range<usize>) -> bool {
        overlap(self.0.addr(), self.1, addresses)
    }
}

impl Destination for Place {
    fn write(&self, bytes: &[u8]) {
        let Place(data, most) = *self;
        debug_assert_eq!(bytes.len(), most);
        // SAFETY: the state machine writes only what it has placed, in a receive that is not done, and which nobody else
        // writes.
        unsafe { data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len().min(most)) };
    }
}

fn overlap(from: usize, bytes: usize, addresses: &Range<usize>) -> bool {
    from < addresses.end && addresses.start < from + bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_addresses() {
        let data = [1u8, 2, 3, 4, 5];
        let lent = Outgoing::Lent(data.as_ptr(), data.len());
        let at = data.as_ptr().addr();
        assert!(lent.overlaps(&(at + 4..at + 9)) && !lent.overlaps(&(at + 5..at + 9)));
        let part = lent.part(1, 3);
        // SAFETY: it is there.
        assert_eq!(unsafe { part.bytes() }, [2, 3, 4]);
        assert!(!part.copied().overlaps(&(at..at + 9)));
        let mut room = [0u8; 4];
        let place = Place(room.as_mut_ptr(), 4);
        place.part(1, 2).write(&[8, 9]);
        assert_eq!(room, [0, 8, 9, 0]);
    }
}
