//! An event: a time stamp that the GPU records when its stream reaches it.
//! Not the host's clock.

use std::sync::Arc;

use super::{
    context::Context,
    runtime::{GpuError, call},
    stream::Stream,
    table::Handle,
};

/// An event with timing.
#[derive(Debug)]
pub struct Event {
    context: Arc<Context>,
    handle: Handle,
}

// SAFETY: an event may be used from any thread.
unsafe impl Send for Event {}

impl Event {
    /// A new event, not yet recorded.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn create(context: &Arc<Context>) -> Result<Event, GpuError> {
        context.enter()?;
        let mut handle = std::ptr::null_mut();
        call!(context.runtime, event_create(&mut handle, 0))
            .map_err(|e| e.on(context.ordinal()))?;
        Ok(Event { context: Arc::clone(context), handle })
    }

    /// Records it on a stream, after what was enqueued so far.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn record(&self, stream: &Stream) -> Result<(), GpuError> {
        call!(self.context.runtime, event_record(self.handle, stream.handle()))
            .map_err(|e| e.on(self.context.ordinal()))
    }

    /// Seconds from this event to a later one; both must have completed.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn seconds_to(&self, later: &Event) -> Result<f64, GpuError> {
        let mut milliseconds = 0.0;
        call!(self.context.runtime, event_elapsed(&mut milliseconds, self.handle, later.handle))
            .map_err(|e| e.on(self.context.ordinal()))?;
        Ok(f64::from(milliseconds) * 1e-3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            let _ = call!(self.context.runtime, event_destroy(self.handle));
        }
    }
}
