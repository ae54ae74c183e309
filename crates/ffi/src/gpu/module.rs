//! Kernels from PTX text: the driver compiles them for its GPU.
//! Not what they compute.

use std::{
    ffi::{CStr, c_void},
    sync::Arc,
};

use super::{
    context::Context,
    memory::Span,
    runtime::{GpuError, call},
    stream::Stream,
    table::Handle,
};

/// A loaded module.
#[derive(Debug)]
pub struct Module {
    context: Arc<Context>,
    handle: Handle,
}

// SAFETY: a module may be used from any thread.
unsafe impl Send for Module {}

/// A kernel of a module; it must not outlive the module.
#[derive(Debug, Clone, Copy)]
pub struct Function(Handle);

// SAFETY: a function is a handle that any thread may launch.
unsafe impl Send for Function {}

/// One argument of a kernel, as the bytes that it takes.
#[derive(Debug, Clone)]
pub struct Argument(Vec<u8>);

impl Argument {
    /// A span's address.
    pub fn span(span: Span) -> Argument {
        Argument(span.address().to_ne_bytes().to_vec())
    }

    /// A 64-bit word.
    pub fn word(word: u64) -> Argument {
        Argument(word.to_ne_bytes().to_vec())
    }

    /// A structure, as its bytes in memory order.
    pub fn bytes(bytes: Vec<u8>) -> Argument {
        Argument(bytes)
    }
}

impl Module {
    /// Loads PTX text.
    ///
    /// # Errors
    /// The driver is older than the PTX, or refuses it.
    pub fn load(context: &Arc<Context>, ptx: &CStr) -> Result<Module, GpuError> {
        context.enter()?;
        let mut handle = std::ptr::null_mut();
        call!(context.runtime, module_load(&mut handle, ptx.as_ptr().cast()))
            .map_err(|e| e.on(context.ordinal()))?;
        Ok(Module { context: Arc::clone(context), handle })
    }

    /// The kernel called `name`.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn function(&self, name: &CStr) -> Result<Function, GpuError> {
        let mut handle = std::ptr::null_mut();
        call!(self.context.runtime, module_function(&mut handle, self.handle, name.as_ptr()))
            .map_err(|e| e.on(self.context.ordinal()))?;
        Ok(Function(handle))
    }

    /// Enqueues a kernel of this module over `blocks` × `threads`.
    ///
    /// # Safety
    /// The arguments must be those that the kernel takes, and what it then touches must lie within
    /// live memory of the stream's GPU.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub(crate) unsafe fn launch(
        &self,
        function: Function,
        stream: &Stream,
        blocks: u32,
        threads: u32,
        arguments: &mut [Argument],
    ) -> Result<(), GpuError> {
        let mut pointers: Vec<*mut c_void> =
            arguments.iter_mut().map(|argument| argument.0.as_mut_ptr().cast()).collect();
        call!(
            self.context.runtime,
            launch(
                function.0,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream.handle(),
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        )
        .map_err(|e| e.on(self.context.ordinal()))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            let _ = call!(self.context.runtime, module_unload(self.handle));
        }
    }
}
