//! Memory of a GPU: allocated by the driver or by NCCL, freed when dropped, with spans that stay
//! within it.
//! Not its contents.

use std::{ffi::c_void, fmt, sync::Arc};

use super::{
    context::Context,
    runtime::{GpuError, call},
    stream::Stream,
    table::Address,
};

/// The function that frees memory, by its address.
pub(crate) type Free = Box<dyn Fn(Address) + Send + Sync>;

/// Memory of one GPU.
pub struct Memory {
    context: Arc<Context>,
    span: Span,
    free: Free,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("context", &self.context).field("span", &self.span).finish()
    }
}

/// A range of a GPU's memory; it lies within the allocation that it was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    address: Address,
    bytes: usize,
}

impl Span {
    /// The address on the GPU.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// `bytes` of it from `offset` on; `None` if that range does not lie within.
    pub fn part(&self, offset: usize, bytes: usize) -> Option<Span> {
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes).then(|| Span { address: self.address + offset as u64, bytes })
    }

    pub(crate) fn pointer(&self) -> *mut c_void {
        self.address as *mut c_void
    }
}

impl Memory {
    /// Allocates `bytes` on the context's GPU.
    ///
    /// # Errors
    /// The GPU has not enough free memory.
    pub fn allocate(context: &Arc<Context>, bytes: usize) -> Result<Memory, GpuError> {
        context.enter()?;
        let mut address = 0;
        call!(context.runtime, allocate(&mut address, bytes.max(1)))
            .map_err(|e| e.on(context.ordinal()))?;
        let runtime = context.runtime;
        let free = move |address| {
            let _ = call!(runtime, free(address));
        };
        Ok(Memory::adopt(context, address, bytes, Box::new(free)))
    }

    /// Memory that a library allocated on the context's GPU and that `free` frees.
    pub(crate) fn adopt(
        context: &Arc<Context>,
        address: Address,
        bytes: usize,
        free: Free,
    ) -> Memory {
        Memory { context: Arc::clone(context), span: Span { address, bytes }, free }
    }

    /// The complete allocation as a span.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The context of its GPU.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            (self.free)(self.span.address);
        }
    }
}

impl Context {
    /// Copies a span into `to`, as many bytes as there are in both, after everything that was
    /// enqueued on the default stream.
    ///
    /// # Errors
    /// The GPU's driver refuses the copy.
    pub fn read(&self, from: Span, to: &mut [u8]) -> Result<(), GpuError> {
        self.enter()?;
        let bytes = from.bytes.min(to.len());
        call!(self.runtime, copy_to_host(to.as_mut_ptr().cast(), from.address, bytes))
            .map_err(|e| e.on(self.ordinal()))
    }
}

impl Stream {
    /// Copies `from` into a span, as many bytes as there are in both, in the stream's order, and
    /// waits for the copy. A plain copy from pageable memory may return before it has arrived, and
    /// only the default stream waits for it (CUDA driver API, "API synchronization behavior").
    ///
    /// # Errors
    /// The GPU's driver refuses the copy.
    pub fn write(&self, from: &[u8], to: Span) -> Result<(), GpuError> {
        let context = self.context();
        context.enter()?;
        let bytes = to.bytes.min(from.len());
        let source = from.as_ptr().cast();
        call!(context.runtime, copy_to_device(to.address, source, bytes, self.handle()))
            .and_then(|()| call!(context.runtime, stream_wait(self.handle())))
            .map_err(|e| e.on(context.ordinal()))
    }

    /// Sets every byte of a span, in the stream's order.
    ///
    /// # Errors
    /// The GPU's driver refuses the copy.
    pub fn set(&self, span: Span, byte: u8) -> Result<(), GpuError> {
        self.context().enter()?;
        call!(self.context().runtime, set_bytes(span.address, byte, span.bytes, self.handle()))
            .map_err(|e| e.on(self.context().ordinal()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_within() {
        let span = Span { address: 1000, bytes: 64 };
        assert_eq!(span.part(16, 48), Some(Span { address: 1016, bytes: 48 }));
        assert_eq!(span.part(64, 0), Some(Span { address: 1064, bytes: 0 }));
        assert_eq!(span.part(16, 49), None);
        assert_eq!(span.part(usize::MAX, 2), None);
    }
}
