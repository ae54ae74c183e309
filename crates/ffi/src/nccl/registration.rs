//! Memory that NCCL allocates and registers with a communicator (`-R`).
//! Not ordinary memory of a GPU (`gpu::memory`).

use std::{
    ffi::{c_int, c_void},
    ptr::NonNull,
    sync::{Arc, PoisonError},
};

use super::{
    communicator::Communicator,
    library::{Nccl, NcclError, call},
    table::Handle,
};
use crate::gpu::{Context, Memory, Span};

/// NCCL_WIN_COLL_SYMMETRIC.
const SYMMETRIC: c_int = 1;

/// The kind of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symmetric {
    /// 1: ncclCommRegister, each rank for itself (2.19 and later).
    No,
    /// 2: ncclCommWindowRegister, all ranks together (2.27 and later).
    Yes,
}

/// A registered span. It is deregistered when dropped, which must be before its communicator is
/// dropped and after the end of the group in which it was registered.
#[derive(Debug)]
pub struct Registration {
    nccl: &'static Nccl,
    communicator: Handle,
    /// Within a group NCCL writes the handle at the group's end: its address must not change.
    handle: NonNull<Handle>,
    kind: Symmetric,
}

// SAFETY: it is only a pair of handles that one thread at a time uses.
unsafe impl Send for Registration {}

impl Nccl {
    /// Whether NCCL has the functions that a registration needs.
    pub fn registers(&self, kind: Symmetric) -> bool {
        match kind {
            Symmetric::No => self.table.register.is_some(),
            Symmetric::Yes => self.table.window_register.is_some(),
        }
    }

    /// Allocates memory the way NCCL prefers it (ncclMemAlloc, 2.19 and later).
    ///
    /// # Errors
    /// NCCL refuses the call.
    pub fn allocate(
        &'static self,
        context: &Arc<Context>,
        bytes: usize,
    ) -> Result<Memory, NcclError> {
        context.enter().map_err(|error| self.refused(&error.to_string()))?;
        let _one_at_a_time = self.serial.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pointer: *mut c_void = std::ptr::null_mut();
        call!(self, mem_alloc(&mut pointer, bytes.max(1)))?;
        let free = move |address: u64| {
            let _ = call!(self, mem_free(address as *mut c_void));
        };
        Ok(Memory::adopt(context, pointer as u64, bytes, Box::new(free)))
    }

    /// Whether [`Nccl::allocate`] is available.
    pub fn allocates(&self) -> bool {
        self.table.mem_alloc.is_some()
    }

    fn refused(&self, why: &str) -> NcclError {
        NcclError { call: "mem_alloc", code: -1, text: why.to_owned(), last: String::new() }
    }
}

impl Communicator {
    /// Registers a span. With [`Symmetric::Yes`] every rank must do so with the same number of
    /// bytes; several GPUs of one thread do it within a group.
    ///
    /// # Errors
    /// NCCL refuses the call.
    pub fn register(&self, span: Span, kind: Symmetric) -> Result<Registration, NcclError> {
        let place = Box::leak(Box::new(std::ptr::null_mut()));
        let made = Registration {
            nccl: self.nccl,
            communicator: self.handle,
            handle: NonNull::from(place),
            kind,
        };
        let (pointer, bytes, handle) = (span.pointer(), span.bytes(), made.handle.as_ptr());
        match kind {
            Symmetric::No => call!(self.nccl, register(self.handle, pointer, bytes, handle))?,
            Symmetric::Yes => {
                call!(self.nccl, window_register(self.handle, pointer, bytes, handle, SYMMETRIC))?;
            }
        }
        Ok(made)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: the box was leaked when this was made, and nobody else frees it.
        let handle = *unsafe { Box::from_raw(self.handle.as_ptr()) };
        if handle.is_null() {
            return;
        }
        let _ = match self.kind {
            Symmetric::No => call!(self.nccl, deregister(self.communicator, handle)),
            Symmetric::Yes => call!(self.nccl, window_deregister(self.communicator, handle)),
        };
    }
}
