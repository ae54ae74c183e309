//! Memory of the heap with the functions of `memfd`, for checkers without mappings: Miri and loom.
//! Not shared by processes: ranks are threads there.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    ptr::NonNull,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::io::Errno;

/// One piece of memory; freed with its last mapping.
struct Block {
    /// The descriptor that stands for it, until another file gets that number.
    fd: Option<RawFd>,
    base: NonNull<u8>,
    layout: Layout,
    mapped: usize,
}

// SAFETY: an address; the table is locked, and what lies there is the business of its users.
unsafe impl Send for Block {}

static BLOCKS: Mutex<Vec<Block>> = Mutex::new(Vec::new());

fn blocks() -> MutexGuard<'static, Vec<Block>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn create(_name: &str) -> Result<OwnedFd, Errno> {
    // Any descriptor will do: only its number counts.
    let (end, _) = std::io::pipe().map_err(|_| Errno::MFILE)?;
    Ok(end.into())
}

pub fn size(fd: &OwnedFd, bytes: usize) -> Result<(), Errno> {
    let fd = fd.as_raw_fd();
    let layout = Layout::from_size_align(bytes.max(1), super::PAGE).map_err(|_| Errno::INVAL)?;
    // SAFETY: the layout has at least one byte.
    let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Errno::NOMEM)?;
    let mut blocks = blocks();
    blocks.iter_mut().filter(|b| b.fd == Some(fd)).for_each(|block| block.fd = None);
    blocks.push(Block { fd: Some(fd), base, layout, mapped: 0 });
    Ok(())
}

pub fn map(fd: impl AsFd, _bytes: usize) -> Result<NonNull<u8>, Errno> {
    let fd = fd.as_fd().as_raw_fd();
    let mut blocks = blocks();
    let block = blocks.iter_mut().find(|b| b.fd == Some(fd)).ok_or(Errno::BADF)?;
    block.mapped += 1;
    Ok(block.base)
}

pub fn populate(_base: NonNull<u8>, _bytes: usize) -> bool {
    true
}

/// # Safety
/// `base` comes from [`map`], and nobody uses an address of this mapping again.
pub unsafe fn unmap(base: NonNull<u8>, _bytes: usize) {
    let mut blocks = blocks();
    let Some(at) = blocks.iter().position(|block| block.base == base) else { return };
    blocks[at].mapped -= 1;
    if blocks[at].mapped == 0 {
        let block = blocks.swap_remove(at);
        // SAFETY: allocated with this layout, and mapped nowhere any more.
        unsafe { dealloc(block.base.as_ptr(), block.layout) };
    }
}
