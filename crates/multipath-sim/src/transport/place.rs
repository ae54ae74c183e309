//! Memory of messages in a simulation. It knows whose it is: whoever touches what is not lent any more fails.
//! Not when it is lent (the application's).

use std::{
    cell::{Cell, RefCell},
    ops::Range,
    rc::Rc,
};

use busbw_multipath::{Destination, Memory, Source};

use crate::Content;

/// Memory of the application's, which it lends to the transport for a request.
#[derive(Debug)]
pub struct Buffer {
    /// Where it would be in the process.
    address: usize,
    bytes: RefCell<Vec<u8>>,
    length: usize,
    is_lent: Cell<bool>,
}

impl Buffer {
    /// Memory with these bytes.
    #[must_use]
    pub fn new(address: usize, bytes: Vec<u8>) -> Rc<Buffer> {
        let length = bytes.len();
        let bytes = RefCell::new(bytes);
        Rc::new(Buffer { address, bytes, length, is_lent: Cell::new(true) })
    }

    /// Memory whose bytes nobody looks at.
    #[must_use]
    pub fn blank(address: usize, length: usize) -> Rc<Buffer> {
        let bytes = RefCell::default();
        Rc::new(Buffer { address, bytes, length, is_lent: Cell::new(true) })
    }

    /// Its addresses.
    #[must_use]
    pub fn addresses(&self) -> Range<usize> {
        self.address..self.address + self.length
    }

    /// The transport may not touch it any more.
    pub fn take_back(&self) {
        self.is_lent.set(false);
    }

    /// What is in it.
    #[must_use]
    pub fn bytes(&self) -> std::cell::Ref<'_, Vec<u8>> {
        self.bytes.borrow()
    }

    /// All of it, for the transport.
    #[must_use]
    pub fn lend(self: &Rc<Buffer>) -> Place {
        Place::Lent(self.clone(), 0..self.length)
    }
}

/// A place in memory.
#[derive(Debug, Clone)]
pub enum Place {
    /// A part of the application's.
    Lent(Rc<Buffer>, Range<usize>),
    /// A copy.
    Copy(Content),
}

impl Place {
    /// Its bytes, as they are now.
    ///
    /// # Panics
    /// When the memory was taken back.
    #[must_use]
    pub fn content(&self) -> Content {
        match self {
            Place::Copy(content) => content.clone(),
            Place::Lent(buffer, range) => {
                assert!(buffer.is_lent.get(), "memory is read that was taken back: {range:?}");
                let bytes = buffer.bytes.borrow();
                if bytes.is_empty() {
                    return Content::zeros(range.len());
                }
                Content::of(bytes[range.clone()].into())
            }
        }
    }

    /// Writes these bytes to its beginning.
    ///
    /// # Panics
    /// When the memory was taken back, or is a copy.
    pub(crate) fn write_content(&self, content: &Content) {
        let Place::Lent(buffer, range) = self else { unreachable!("nobody receives into a copy") };
        assert!(buffer.is_lent.get(), "memory is written that was taken back: {range:?}");
        assert!(content.bytes() <= range.len());
        let mut bytes = buffer.bytes.borrow_mut();
        if !bytes.is_empty() {
            content.copy_to(&mut bytes[range.start..range.start + content.bytes()]);
        }
    }
}

impl Memory for Place {
    fn part(&self, offset: usize, bytes: usize) -> Place {
        match self {
            Place::Copy(content) => Place::Copy(content.part(offset..offset + bytes)),
            Place::Lent(buffer, range) => {
                let from = range.start + offset;
                assert!(from + bytes <= range.end);
                Place::Lent(buffer.clone(), from..from + bytes)
            }
        }
    }

    fn overlaps(&self, addresses: &Range<usize>) -> bool {
        match self {
            Place::Copy(_) => false,
            Place::Lent(buffer, range) => {
                let (from, to) = (buffer.address + range.start, buffer.address + range.end);
                from < addresses.end && addresses.start < to
            }
        }
    }
}

impl Source for Place {
    fn copied(&self) -> Place {
        Place::Copy(self.content())
    }
}

impl Destination for Place {
    fn write(&self, bytes: &[u8]) {
        self.write_content(&Content::of(bytes.into()));
    }
}
