//! Memory that requests of a plugin and this process use in turns, never at once.
//! Not the requests (`connection`).

use std::{
    cell::RefCell,
    io,
    ops::{Deref, DerefMut, Range},
    rc::Rc,
};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use thiserror::Error;

/// Bytes of a page.
const PAGE: usize = 4096;

/// The requested bytes are in use, or do not exist.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a bug of busbw: bytes {} to {} {why}", .bytes.start, .bytes.end)]
pub struct Busy {
    bytes: Range<usize>,
    why: &'static str,
}

/// A use of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// A request that sends it.
    Sent,
    /// A request that receives there.
    Received,
    /// This process reads or changes it.
    Looked,
}

impl Use {
    /// Whether two uses may overlap: several messages may be sent from, or received into, one part.
    fn bears(self, other: Use) -> bool {
        self == other && self != Use::Looked
    }
}

/// Memory pages of this process, zeros at first.
#[derive(Debug)]
pub struct Memory {
    address: *mut u8,
    bytes: usize,
    used: RefCell<Vec<(Range<usize>, Use)>>,
}

impl Memory {
    /// `bytes` zeros. The calling thread touches every page, so that they lie near it.
    ///
    /// # Errors
    /// The kernel refuses the mapping.
    pub fn new(bytes: usize) -> io::Result<Rc<Memory>> {
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
        Ok(Rc::new(Memory { address, bytes, used: RefCell::default() }))
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A part to read and to change, exclusively.
    ///
    /// # Errors
    /// A request or this process uses some of it, or it does not exist.
    pub fn part(&self, bytes: Range<usize>) -> Result<Guard<'_>, Busy> {
        self.take(&bytes, Use::Looked)?;
        Ok(Guard { memory: self, bytes })
    }

    /// The address of the first byte.
    pub(super) fn address(&self) -> *mut u8 {
        self.address
    }

    /// Adds a use, if it is possible.
    fn take(&self, bytes: &Range<usize>, how: Use) -> Result<(), Busy> {
        let refused = |why| Err(Busy { bytes: bytes.clone(), why });
        if bytes.start > bytes.end || bytes.end > self.bytes {
            return refused("do not lie within the memory");
        }
        let mut used = self.used.borrow_mut();
        // An empty part overlaps nothing.
        let meets = |other: &Range<usize>| other.start.max(bytes.start) < other.end.min(bytes.end);
        if used.iter().any(|(other, its)| meets(other) && !how.bears(*its)) {
            return refused("are in use");
        }
        used.push((bytes.clone(), how));
        Ok(())
    }

    fn release(&self, bytes: &Range<usize>, how: Use) {
        let mut used = self.used.borrow_mut();
        if let Some(at) = used.iter().position(|(other, its)| other == bytes && *its == how) {
            used.swap_remove(at);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let whole = self.bytes.max(1).next_multiple_of(PAGE);
        // SAFETY: what `new` mapped. Requests and guards hold on to the memory: there are none.
        let _ = unsafe { munmap(self.address.cast(), whole) };
    }
}

/// An exclusively used part.
#[derive(Debug)]
pub struct Guard<'m> {
    memory: &'m Memory,
    bytes: Range<usize>,
}

impl Deref for Guard<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let (at, len) = (self.bytes.start, self.bytes.len());
        // SAFETY: within the mapping, initialised, and noted as ours alone until this is dropped.
        unsafe { std::slice::from_raw_parts(self.memory.address.add(at), len) }
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        let (at, len) = (self.bytes.start, self.bytes.len());
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.memory.address.add(at), len) }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.memory.release(&self.bytes, Use::Looked);
    }
}

/// A part that a request uses: as long as this exists, the memory stays allocated and nobody reads
/// the part.
#[derive(Debug)]
pub(super) struct Hold {
    memory: Rc<Memory>,
    bytes: Range<usize>,
    how: Use,
}

impl Hold {
    /// Acquires a part for a request.
    ///
    /// # Errors
    /// Some byte of it is in use, or does not exist.
    pub(super) fn new(memory: &Rc<Memory>, bytes: Range<usize>, how: Use) -> Result<Hold, Busy> {
        memory.take(&bytes, how)?;
        Ok(Hold { memory: Rc::clone(memory), bytes, how })
    }

    /// Its address.
    pub(super) fn address(&self) -> *mut u8 {
        self.memory.address.wrapping_add(self.bytes.start)
    }

    /// Its length in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.memory.release(&self.bytes, self.how);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_looks_at_what_a_request_uses() {
        let memory = Memory::new(100).unwrap();
        let hold = Hold::new(&memory, 10..20, Use::Sent).unwrap();
        assert!(memory.part(19..30).is_err());
        assert!(Hold::new(&memory, 15..16, Use::Received).is_err());
        let again = Hold::new(&memory, 10..20, Use::Sent).unwrap();
        let mut beside = memory.part(20..30).unwrap();
        beside.fill(7);
        assert!(memory.part(29..31).is_err());
        assert!(Hold::new(&memory, 25..26, Use::Sent).is_err());
        drop((beside, hold));
        assert!(memory.part(10..11).is_err());
        drop(again);
        assert_eq!(memory.part(10..30).unwrap()[9..12], [0, 7, 7]);
        assert!(memory.part(90..101).is_err());
    }

    #[test]
    fn no_bytes_meet_nobody() {
        let memory = Memory::new(8).unwrap();
        let _all = memory.part(0..8).unwrap();
        assert_eq!(Hold::new(&memory, 4..4, Use::Sent).unwrap().bytes(), 0);
    }
}
