//! A stream: operations enqueued on it run in order, while the caller continues.
//! Not the operations.

use std::sync::Arc;

use super::{
    context::Context,
    graph::Captured,
    runtime::{GpuError, call},
    table::Handle,
};

/// CU_STREAM_NON_BLOCKING: no implicit waiting for the default stream.
const NON_BLOCKING: u32 = 1;
/// CUDA_ERROR_NOT_READY, hipErrorNotReady.
const NOT_READY: i32 = 600;
/// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL.
const THREAD_LOCAL: i32 = 1;

/// A stream of one GPU.
#[derive(Debug)]
pub struct Stream {
    context: Arc<Context>,
    handle: Handle,
}

// SAFETY: a stream may be used from any thread; the driver locks.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream of its own.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn create(context: &Arc<Context>) -> Result<Stream, GpuError> {
        context.enter()?;
        let mut handle = std::ptr::null_mut();
        call!(context.runtime, stream_create(&mut handle, NON_BLOCKING))
            .map_err(|e| e.on(context.ordinal()))?;
        Ok(Stream { context: Arc::clone(context), handle })
    }

    /// The default stream (`-y`).
    pub fn default_of(context: &Arc<Context>) -> Stream {
        Stream { context: Arc::clone(context), handle: std::ptr::null_mut() }
    }

    /// The context of its GPU.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// Whether everything enqueued so far has completed.
    ///
    /// # Errors
    /// An operation enqueued before has failed.
    pub fn is_done(&self) -> Result<bool, GpuError> {
        match call!(self.context.runtime, stream_query(self.handle)) {
            Ok(()) => Ok(true),
            Err(error) if error.code == NOT_READY => Ok(false),
            Err(error) => Err(error.on(self.context.ordinal())),
        }
    }

    /// Begins a capture: enqueued operations are recorded for a graph and do not run.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn begin_capture(&self) -> Result<(), GpuError> {
        self.context.enter()?;
        call!(self.context.runtime, stream_capture(self.handle, THREAD_LOCAL))
            .map_err(|e| e.on(self.context.ordinal()))
    }

    /// Ends the capture. [`Captured::instantiate`] makes its result launchable; CUDA refuses that
    /// on a thread that still captures on another stream.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn end_capture(&self) -> Result<Captured, GpuError> {
        self.context.enter()?;
        let mut graph = std::ptr::null_mut();
        call!(self.context.runtime, stream_captured(self.handle, &mut graph))
            .map_err(|e| e.on(self.context.ordinal()))?;
        Ok(Captured::new(&self.context, graph))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.handle.is_null() && self.context.enter().is_ok() {
            let _ = call!(self.context.runtime, stream_destroy(self.handle));
        }
    }
}
