//! Memory for one buffer of a rank, in this process or on its GPU: allocated before anything is
//! timed, and never freed while MPI may still write to it.
//! Not its content, and not whether MPI accepts a GPU's memory (`awareness`).

use std::{io, mem::ManuallyDrop, sync::Arc};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::buffer::Buffer;
use crate::gpu::{self, Context, GpuError, Span, Stream};

/// Bytes of a page.
const PAGE: usize = 4096;

/// One buffer. It stays allocated for the life of the process: a message that was never completed
/// may arrive later.
#[derive(Debug)]
pub(super) struct Memory {
    address: *mut u8,
    bytes: usize,
    gpu: Option<OnGpu>,
}

/// The parts of a GPU's memory besides its address.
#[derive(Debug)]
struct OnGpu {
    memory: ManuallyDrop<gpu::Memory>,
    stream: Stream,
    /// A host copy of its content: only we read it.
    copy: Vec<u8>,
}

impl OnGpu {
    /// `len` bytes from `offset` on, and as many of the copy.
    fn both(&mut self, offset: usize, len: usize) -> (Span, &mut [u8]) {
        let whole = self.memory.span();
        let span = whole.part(offset, len).unwrap_or_else(|| outside(offset, len, whole.bytes()));
        if self.copy.len() < len {
            self.copy.resize(len, 0);
        }
        (span, &mut self.copy[..len])
    }
}

impl Memory {
    /// `bytes` zeros. The calling thread touches every page, so that they lie near it.
    ///
    /// # Errors
    /// The kernel refuses the mapping.
    pub(super) fn new(bytes: usize) -> io::Result<Memory> {
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
        Ok(Memory { address, bytes, gpu: None })
    }

    /// `bytes` on the context's GPU, uninitialised.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub(super) fn on(context: &Arc<Context>, bytes: usize) -> Result<Memory, GpuError> {
        let memory = ManuallyDrop::new(gpu::Memory::allocate(context, bytes)?);
        let address = memory.span().pointer().cast();
        let stream = Stream::create(context)?;
        Ok(Memory { address, bytes, gpu: Some(OnGpu { memory, stream, copy: Vec::new() }) })
    }

    /// Whether it is on a GPU.
    pub(super) fn is_on_gpu(&self) -> bool {
        self.gpu.is_some()
    }

    /// `len` bytes from `offset` on, for MPI.
    #[inline]
    pub(super) fn part(&self, offset: usize, len: usize) -> Option<Buffer> {
        // SAFETY: it is never given back, and neither [`Memory::look`] nor [`Memory::write`] is called while
        // operations go on.
        let whole = unsafe { Buffer::new(self.address.cast(), self.bytes) };
        whole.part(offset, len)
    }

    /// `len` bytes from `offset` on, to read; a copy of a GPU's memory.
    ///
    /// # Safety
    /// No operation of MPI on this memory may be in flight.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    ///
    /// # Panics
    /// They do not lie within: a bug of the caller.
    pub(super) unsafe fn look(&mut self, offset: usize, len: usize) -> Result<&[u8], GpuError> {
        let Some(gpu) = &mut self.gpu else {
            // SAFETY: the caller's promise.
            return Ok(unsafe { ours(self.address, self.bytes, offset, len) });
        };
        let context = Arc::clone(gpu.stream.context());
        let (span, copy) = gpu.both(offset, len);
        if len > 0 {
            context.read(span, copy)?;
        }
        Ok(copy)
    }

    /// Calls `fill` to write all of `len` bytes from `offset` on.
    ///
    /// # Safety
    /// No operation of MPI on this memory may be in flight.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    ///
    /// # Panics
    /// They do not lie within: a bug of the caller.
    pub(super) unsafe fn write(
        &mut self,
        offset: usize,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), GpuError> {
        let Some(gpu) = &mut self.gpu else {
            // SAFETY: the caller's promise.
            fill(unsafe { ours(self.address, self.bytes, offset, len) });
            return Ok(());
        };
        let (span, copy) = gpu.both(offset, len);
        fill(copy);
        if len > 0 { gpu.stream.write(&gpu.copy[..len], span) } else { Ok(()) }
    }
}

/// `len` bytes from `offset` on of the `bytes` at `address`, memory of this process.
///
/// # Safety
/// It is that for as long as the slice is used, and nobody else uses it.
unsafe fn ours<'a>(address: *mut u8, bytes: usize, offset: usize, len: usize) -> &'a mut [u8] {
    if offset.checked_add(len).is_none_or(|end| end > bytes) {
        outside(offset, len, bytes);
    }
    // SAFETY: in bounds and initialised; the rest is the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(address.add(offset), len) }
}

fn outside(offset: usize, len: usize, bytes: usize) -> ! {
    panic!("{len} bytes at {offset} of {bytes}")
}
