//! memfds and their mappings: the memory that ranks of all processes share.
//! Not the owner of an address: that is `segment`.

use std::{
    ffi::c_void,
    os::fd::{AsFd, OwnedFd},
    ptr::NonNull,
};

use rustix::{
    fs::{MemfdFlags, ftruncate, memfd_create},
    io::Errno,
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap},
};

/// A memfd without bytes. Child processes inherit it on purpose.
pub fn create(name: &str) -> Result<OwnedFd, Errno> {
    memfd_create(name, MemfdFlags::empty())
}

/// Resizes it to `bytes` zero bytes.
pub fn size(fd: &OwnedFd, bytes: usize) -> Result<(), Errno> {
    ftruncate(fd, bytes as u64)
}

/// Maps `bytes` of it, for reading and writing, shared.
pub fn map(fd: impl AsFd, bytes: usize) -> Result<NonNull<u8>, Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address that the kernel chooses overlaps nothing of ours.
    let base = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, fd, 0) }?;
    NonNull::new(base.cast()).ok_or(Errno::NOMEM)
}

/// Makes every page of a mapping present and mapped for writing, if this kernel can.
pub fn populate(base: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: populating changes no byte and no mapping.
    unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) }.is_ok()
}

/// Unmaps a mapping.
///
/// # Safety
/// It comes from [`map`] with as many bytes, and no address of it is used again.
pub unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: see above.
    let _ = unsafe { munmap(base.as_ptr().cast::<c_void>(), bytes) };
}
