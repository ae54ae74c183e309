//! Memory of messages as the transport knows it: places that it hands on and never looks into.
//! Not how bytes are read or written: whoever moves them knows what a place is.

use std::ops::Range;

/// A place in memory with the bytes of a message, or of a part of one.
///
/// The memory belongs to whoever began the request. The transport gives it to nobody after the request is done or
/// the connection has ended.
pub trait Memory: Clone {
    /// The `bytes` bytes from `offset` on, which are within it.
    #[must_use]
    fn part(&self, offset: usize, bytes: usize) -> Self;

    /// Whether any byte of it lies within these addresses.
    fn overlaps(&self, addresses: &Range<usize>) -> bool;
}

/// Memory that is sent from.
pub trait Source: Memory {
    /// The same bytes, in memory that stays when the request is done.
    #[must_use]
    fn copied(&self) -> Self;
}

/// Memory that is received into.
pub trait Destination: Memory {
    /// Writes all of it, which has as many bytes.
    fn write(&self, bytes: &[u8]);
}

#[cfg(test)]
pub(crate) mod fake {
    //! Memory for tests: its length, and bytes that are written there.

    use std::{cell::RefCell, ops::Range, rc::Rc};

    use super::{Destination, Memory, Source};

    /// A range of bytes that several may have.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Fake {
        pub(crate) bytes: Rc<RefCell<Vec<u8>>>,
        pub(crate) range: Range<usize>,
    }

    impl Fake {
        pub(crate) fn new(bytes: usize) -> Fake {
            Fake { bytes: Rc::new(RefCell::new(vec![0; bytes])), range: 0..bytes }
        }
    }

    impl Memory for Fake {
        fn part(&self, offset: usize, bytes: usize) -> Fake {
            let from = self.range.start + offset;
            assert!(from + bytes <= self.range.end);
            Fake { bytes: self.bytes.clone(), range: from..from + bytes }
        }

        fn overlaps(&self, addresses: &Range<usize>) -> bool {
            self.range.start < addresses.end && addresses.start < self.range.end
        }
    }

    impl Source for Fake {
        fn copied(&self) -> Fake {
            let bytes = self.bytes.borrow()[self.range.clone()].to_vec();
            Fake { range: 0..bytes.len(), bytes: Rc::new(RefCell::new(bytes)) }
        }
    }

    impl Destination for Fake {
        fn write(&self, bytes: &[u8]) {
            self.bytes.borrow_mut()[self.range.clone()].copy_from_slice(bytes);
        }
    }
}
