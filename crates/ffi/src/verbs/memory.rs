//! Memory of this process that a device reads and writes, also while nobody here looks.
//! Not GPUs' memory, and not the requests.

use std::{
    fmt, io,
    ops::Range,
    ptr,
    rc::Rc,
    sync::atomic::{Ordering, fence},
};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::{Device, VerbsError, abi, abi::access, error::refused};

const PAGE: usize = 4096;

/// Memory of the other end, as it tells it: where it begins, and the key that opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemoteMemory {
    /// Address of its first byte in the other process.
    pub address: u64,
    /// The key.
    pub key: u32,
}

/// Registered memory pages, zeros at first. It has no references into it: bytes are copied in and out, since the other
/// end may write at any time.
pub struct Region {
    device: Rc<Device>,
    address: *mut u8,
    bytes: usize,
    registration: *mut abi::MemoryRegion,
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Region {
    /// `bytes` zeros that the device may read and write, and the other end, too.
    ///
    /// # Errors
    /// There is no memory, or it cannot be locked (memlock).
    pub fn new(device: &Rc<Device>, bytes: usize) -> Result<Rc<Region>, VerbsError> {
        let whole = bytes.max(1).next_multiple_of(PAGE);
        let refuse = |error: io::Error| refused("mmap", device.name(), &error);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let address = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                whole,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        let address = address.map_err(|error| refuse(error.into()))?.cast::<u8>();
        for at in (0..whole).step_by(PAGE) {
            // SAFETY: within the mapping, which nobody else knows yet. The thread that uses it touches it first, so
            // that it lies near that thread.
            unsafe { address.add(at).write_volatile(0) };
        }
        let mut region =
            Region { device: Rc::clone(device), address, bytes, registration: ptr::null_mut() };
        let register = device.verbs.calls.reg_mr.ok_or(VerbsError::Absent("ibv_reg_mr"))?;
        let rights = access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ;
        // SAFETY: the mapping lives until the registration has ended, in `drop`.
        region.registration =
            unsafe { register(device.domain, address.cast(), whole, rights as i32) };
        if region.registration.is_null() {
            return Err(refused("ibv_reg_mr", device.name(), &io::Error::last_os_error()));
        }
        Ok(Rc::new(region))
    }

    /// What the other end needs to reach it.
    pub fn remote(&self) -> RemoteMemory {
        // SAFETY: registered, and so for as long as this exists.
        RemoteMemory { address: self.address as u64, key: unsafe { (*self.registration).rkey } }
    }

    pub(super) fn piece(&self, range: &Range<usize>) -> Result<abi::Piece, VerbsError> {
        self.within(range)?;
        let length = u32::try_from(range.len())
            .map_err(|_| VerbsError::Misuse("a message has 4 GiB at most"))?;
        // SAFETY: registered, and so for as long as this exists.
        let lkey = unsafe { (*self.registration).lkey };
        Ok(abi::Piece { address: self.address as u64 + range.start as u64, length, lkey })
    }

    fn within(&self, range: &Range<usize>) -> Result<(), VerbsError> {
        match range.start <= range.end && range.end <= self.bytes {
            true => Ok(()),
            false => Err(VerbsError::Misuse("bytes that do not lie within the memory")),
        }
    }

    /// One byte, as it is now: the device may have just written it. What was written before it is seen after it.
    #[inline]
    pub fn byte(&self, at: usize) -> u8 {
        if at >= self.bytes {
            return 0;
        }
        // SAFETY: within the mapping. A volatile read, since the device writes.
        let byte = unsafe { self.address.add(at).read_volatile() };
        fence(Ordering::Acquire);
        byte
    }

    /// Changes one byte.
    #[inline]
    pub fn set_byte(&self, at: usize, byte: u8) {
        if at < self.bytes {
            // SAFETY: within the mapping; a volatile write, since the device reads.
            unsafe { self.address.add(at).write_volatile(byte) };
            fence(Ordering::Release);
        }
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// They do not lie within the memory.
    pub fn read(&self, from: usize, into: &mut [u8]) -> Result<(), VerbsError> {
        self.within(&(from..from.saturating_add(into.len())))?;
        fence(Ordering::Acquire);
        // SAFETY: within the mapping, and `into` is not: no reference into it exists.
        unsafe { ptr::copy_nonoverlapping(self.address.add(from), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// They do not lie within the memory.
    pub fn write(&self, to: usize, from: &[u8]) -> Result<(), VerbsError> {
        self.within(&(to..to.saturating_add(from.len())))?;
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.address.add(to), from.len()) };
        fence(Ordering::Release);
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Some(deregister) =
            self.device.verbs.calls.dereg_mr.filter(|_| !self.registration.is_null())
        {
            // SAFETY: ours, once.
            unsafe { deregister(self.registration) };
        }
        let whole = self.bytes.max(1).next_multiple_of(PAGE);
        // SAFETY: what `new` mapped; the device has let go of it.
        let _ = unsafe { munmap(self.address.cast(), whole) };
    }
}
