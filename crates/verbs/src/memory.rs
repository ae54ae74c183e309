//! Memory that a device reads and writes, also while nobody here looks: of this process, or of a GPU.
//! Not the requests, and not allocating a GPU's memory (`busbw_ffi::gpu`).

use std::{
    any::Any,
    fmt, io,
    ops::Range,
    ptr,
    sync::Arc,
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

/// The device may write there, and the other end may read and write.
const RIGHTS: u32 = access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ;

/// The order in which a device's writes over PCIe reach the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PcieOrdering {
    /// That of the packets, so that the last byte of a message says that all of it is there.
    Strict,
    /// Any; a completion comes after what it completes. Faster on some processors. As perftest and NCCL ask for it, where
    /// libibverbs has `ibv_reg_mr_iova2` (rdma-core 28), which leaves the flag out for kernels without it.
    Relaxed,
}

impl PcieOrdering {
    /// The flags of a registration.
    fn rights(self, device: &Device) -> u32 {
        match self {
            PcieOrdering::Relaxed if device.verbs.calls.reg_mr_iova2.is_some() => {
                RIGHTS | access::RELAXED_ORDERING
            }
            PcieOrdering::Relaxed | PcieOrdering::Strict => RIGHTS,
        }
    }
}

/// Memory that a device knows: of this process, or of a GPU. Ending it, as dropping does, ends all access to it.
pub struct Registration {
    device: Arc<Device>,
    registration: *mut abi::MemoryRegion,
}

// SAFETY: a pointer to what the library guards by itself; of what lies behind it only the keys are read, which stay.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").finish_non_exhaustive()
    }
}

impl Registration {
    /// The `bytes` bytes from `address` on: of this process, or of a GPU whose driver lets the device reach them
    /// (nvidia_peermem).
    ///
    /// # Safety
    /// They stay until this is dropped, and nobody here takes for its own what the other end writes.
    ///
    /// # Errors
    /// The memory cannot be locked (memlock), or the device cannot reach it.
    pub unsafe fn of_memory(
        device: &Arc<Device>,
        address: *mut u8,
        bytes: usize,
        ordering: PcieOrdering,
    ) -> Result<Registration, VerbsError> {
        let calls = &device.verbs.calls;
        let rights = ordering.rights(device);
        // Only the newer function knows which flags may be left out.
        if let Some(register) = calls.reg_mr_iova2.filter(|_| rights != RIGHTS) {
            let address = address.cast();
            // SAFETY: the domain is open, and the caller vouches for the memory.
            let made = unsafe { register(device.domain, address, bytes, address as u64, rights) };
            return Registration::checked(device, "ibv_reg_mr_iova2", made);
        }
        let register = calls.reg_mr.ok_or(VerbsError::Absent("ibv_reg_mr"))?;
        // SAFETY: as above.
        let made = unsafe { register(device.domain, address.cast(), bytes, rights as i32) };
        Registration::checked(device, "ibv_reg_mr", made)
    }

    /// The `bytes` bytes from `offset` on of a dma-buf, which requests know as those from `address` on.
    ///
    /// # Safety
    /// As [`Registration::of_memory`].
    ///
    /// # Errors
    /// The device or its driver takes no dma-buf, or not this one.
    pub unsafe fn of_dma_buf(
        device: &Arc<Device>,
        (descriptor, offset): (i32, u64),
        address: u64,
        bytes: usize,
        ordering: PcieOrdering,
    ) -> Result<Registration, VerbsError> {
        let register = device.verbs.calls.reg_dmabuf_mr;
        let register = register.ok_or(VerbsError::Absent("ibv_reg_dmabuf_mr"))?;
        let rights = ordering.rights(device) as i32;
        // SAFETY: the domain is open, and the caller vouches for the memory.
        let made = unsafe { register(device.domain, offset, bytes, address, descriptor, rights) };
        Registration::checked(device, "ibv_reg_dmabuf_mr", made)
    }

    fn checked(
        device: &Arc<Device>,
        call: &'static str,
        made: *mut abi::MemoryRegion,
    ) -> Result<Registration, VerbsError> {
        match made.is_null() {
            true => Err(refused(call, device.name(), &io::Error::last_os_error())),
            false => Ok(Registration { device: Arc::clone(device), registration: made }),
        }
    }

    /// The key by which our own requests name it.
    #[must_use]
    pub fn local_key(&self) -> u32 {
        // SAFETY: registered, and so for as long as this exists.
        unsafe { (*self.registration).lkey }
    }

    /// The key by which the other end names it.
    #[must_use]
    pub fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.registration).rkey }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(deregister) = self.device.verbs.calls.dereg_mr {
            // SAFETY: ours, once.
            unsafe { deregister(self.registration) };
        }
    }
}

/// Pages of this process, zeros at first, until dropped.
struct Pages {
    address: *mut u8,
    bytes: usize,
}

/// What a region consists of.
enum Owner {
    /// Pages of this process.
    Pages(Pages),
    /// Memory that this process cannot read, and what keeps it allocated.
    Elsewhere { _memory: Box<dyn Any + Send + Sync> },
}

/// Registered memory. It has no references into it: bytes are copied in and out, since the other end may write at any time.
pub struct Region {
    // Dropped before the memory that it is of.
    registration: Registration,
    owner: Owner,
    address: u64,
    bytes: usize,
}

// SAFETY: a pointer to memory of this process that stays; bytes are copied in and out, and whoever copies while another
// thread or the device writes gets either, as with any memory that a device writes.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// A region's memory with a key whose writes are ordered strictly.
#[derive(Debug)]
pub struct StrictAlias {
    // Before the memory that it is of.
    registration: Registration,
    region: Arc<Region>,
}

impl StrictAlias {
    /// What the other end needs to reach it.
    pub fn remote(&self) -> RemoteMemory {
        RemoteMemory { address: self.region.address, key: self.registration.remote_key() }
    }
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
    pub fn new(
        device: &Arc<Device>,
        bytes: usize,
        ordering: PcieOrdering,
    ) -> Result<Arc<Region>, VerbsError> {
        let whole = bytes.max(1).next_multiple_of(PAGE);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let address = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                whole,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        let address = address.map_err(|error| refused("mmap", device.name(), &error.into()))?;
        let pages = Pages { address: address.cast::<u8>(), bytes: whole };
        for at in (0..whole).step_by(PAGE) {
            // SAFETY: within the mapping, which nobody else knows yet. The thread that uses it touches it first, so
            // that it lies near that thread.
            unsafe { pages.address.add(at).write_volatile(0) };
        }
        // SAFETY: the mapping lives until the registration has ended; bytes are only copied in and out.
        let registration =
            unsafe { Registration::of_memory(device, pages.address, whole, ordering) }?;
        let address = pages.address as u64;
        Ok(Arc::new(Region { registration, owner: Owner::Pages(pages), address, bytes }))
    }

    /// Memory of a GPU: the `bytes` bytes from `address` on, which `memory` keeps allocated. Nothing is copied in or out here.
    ///
    /// # Safety
    /// The registration is of these bytes, and they are nobody else's until `memory` is dropped.
    pub unsafe fn elsewhere(
        registration: Registration,
        address: u64,
        bytes: usize,
        memory: Box<dyn Any + Send + Sync>,
    ) -> Arc<Region> {
        Arc::new(Region {
            registration,
            owner: Owner::Elsewhere { _memory: memory },
            address,
            bytes,
        })
    }

    /// The same memory once more, for writes of the other end that keep the order of their packets.
    ///
    /// # Errors
    /// It cannot be locked once more (memlock), or is not this process's.
    pub fn strict(self: &Arc<Region>) -> Result<StrictAlias, VerbsError> {
        let address = self.reach(&(0..self.bytes))?;
        let (device, ordering) = (&self.registration.device, PcieOrdering::Strict);
        // SAFETY: the alias holds on to the region; bytes are only copied in and out.
        let registration =
            unsafe { Registration::of_memory(device, address, self.bytes, ordering) }?;
        Ok(StrictAlias { registration, region: Arc::clone(self) })
    }

    /// The pages, if this process has them.
    fn pages(&self) -> Option<&Pages> {
        match &self.owner {
            Owner::Pages(pages) => Some(pages),
            Owner::Elsewhere { .. } => None,
        }
    }

    /// Whether the processor can copy from it, as inline requests do.
    pub(super) fn is_readable(&self) -> bool {
        self.pages().is_some()
    }

    /// The key by which our own requests name it.
    #[must_use]
    pub fn local_key(&self) -> u32 {
        self.registration.local_key()
    }

    /// What the other end needs to reach it.
    pub fn remote(&self) -> RemoteMemory {
        RemoteMemory { address: self.address, key: self.registration.remote_key() }
    }

    pub(super) fn piece(&self, range: &Range<usize>) -> Result<abi::Piece, VerbsError> {
        self.within(range)?;
        let length = u32::try_from(range.len())
            .map_err(|_| VerbsError::Misuse("a message has 4 GiB at most"))?;
        let lkey = self.registration.local_key();
        Ok(abi::Piece { address: self.address + range.start as u64, length, lkey })
    }

    fn within(&self, range: &Range<usize>) -> Result<(), VerbsError> {
        match range.start <= range.end && range.end <= self.bytes {
            true => Ok(()),
            false => Err(VerbsError::Misuse("bytes that do not lie within the memory")),
        }
    }

    /// The bytes of a range as this process reaches them.
    fn reach(&self, range: &Range<usize>) -> Result<*mut u8, VerbsError> {
        self.within(range)?;
        let pages = self.pages().ok_or(VerbsError::Misuse("memory that is not this process's"))?;
        // SAFETY: within the mapping, which has at least `bytes` bytes.
        Ok(unsafe { pages.address.add(range.start) })
    }

    /// One byte, as it is now: the device may have just written it. What was written before it is seen after it, if the
    /// memory is registered with strict ordering. 0 where this process cannot look.
    #[inline]
    pub fn byte(&self, at: usize) -> u8 {
        let Some(pages) = self.pages().filter(|_| at < self.bytes) else { return 0 };
        // SAFETY: within the mapping. A volatile read, since the device writes.
        let byte = unsafe { pages.address.add(at).read_volatile() };
        fence(Ordering::Acquire);
        byte
    }

    /// Changes one byte.
    #[inline]
    pub fn set_byte(&self, at: usize, byte: u8) {
        if let Some(pages) = self.pages().filter(|_| at < self.bytes) {
            // SAFETY: within the mapping; a volatile write, since the device reads.
            unsafe { pages.address.add(at).write_volatile(byte) };
            fence(Ordering::Release);
        }
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// They do not lie within the memory, or it is not this process's.
    pub fn read(&self, from: usize, into: &mut [u8]) -> Result<(), VerbsError> {
        let first = self.reach(&(from..from.saturating_add(into.len())))?;
        fence(Ordering::Acquire);
        // SAFETY: within the mapping, and `into` is not: no reference into it exists.
        unsafe { ptr::copy_nonoverlapping(first, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// They do not lie within the memory, or it is not this process's.
    pub fn write(&self, to: usize, from: &[u8]) -> Result<(), VerbsError> {
        let first = self.reach(&(to..to.saturating_add(from.len())))?;
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), first, from.len()) };
        fence(Ordering::Release);
        Ok(())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: what `Region::new` mapped; the device has let go of it.
        let _ = unsafe { munmap(self.address.cast(), self.bytes) };
    }
}
