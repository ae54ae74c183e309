//! Copies, through the caches or past them.
//! Not reductions, though those end in copies of their blocks.

use super::{
    Store,
    isa::{Isa, LINE, Level, Work},
};

/// Copies `len` bytes with an instruction set.
///
/// # Safety
/// As [`super::copy`]; and the processor has the instruction set.
pub(super) unsafe fn run(level: Level, from: *const u8, to: *mut u8, len: usize, store: Store) {
    match store {
        // SAFETY: the caller vouches for it.
        Store::Cached => unsafe { std::ptr::copy_nonoverlapping(from, to, len) },
        // SAFETY: as above.
        Store::Streamed => unsafe { level.run(Streamed { from, to, len }) },
    }
}

/// A copy past the caches.
struct Streamed {
    from: *const u8,
    to: *mut u8,
    len: usize,
}

impl Work for Streamed {
    #[inline(always)]
    unsafe fn run<I: Isa>(self) {
        let Streamed { from, to, len } = self;
        let head = to.align_offset(LINE).min(len);
        // SAFETY: the caller vouches for `len` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, head);
            block::<I>(from.add(head), to.add(head), len - head, Store::Streamed);
        }
        I::fence();
    }
}

/// Copies `len` bytes, to be followed by a fence; streams whole lines of `to` if it begins with one.
///
/// # Safety
/// `from` is valid for reading, `to` for writing `len` bytes; they do not overlap.
#[inline(always)]
pub(super) unsafe fn block<I: Isa>(from: *const u8, to: *mut u8, len: usize, store: Store) {
    let streamed = store == Store::Streamed && to.addr().is_multiple_of(LINE);
    let lines = len / LINE * LINE;
    // SAFETY: the caller vouches for `len` bytes; streamed lines are aligned.
    unsafe {
        for at in (0..lines).step_by(LINE) {
            let line = from.add(at).cast::<[u8; LINE]>().read();
            if streamed {
                I::stream(to.add(at), line);
            } else {
                to.add(at).cast::<[u8; LINE]>().write(line);
            }
        }
        std::ptr::copy_nonoverlapping(from.add(lines), to.add(lines), len - lines);
    }
}
