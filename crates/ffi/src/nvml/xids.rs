//! Errors that a GPU's driver reports (XID), as events that are queued until they are read.
//! Not those from before the watch began.

use nvml_wrapper::{
    Device, EventSet, Nvml, bitmasks::event::EventTypes, enums::event::XidError, error::NvmlError,
};

/// The most events that one read takes.
const MAX_EVENTS_PER_READ: usize = 64;

/// A watch on one GPU.
#[derive(Debug)]
pub struct Xids {
    events: EventSet<'static>,
}

// SAFETY: NVML's functions may be called from any thread, and several at once (nvml.h, "NVML is
// thread-safe"); a set of events belongs to no thread.
unsafe impl Send for Xids {}
// SAFETY: as above.
unsafe impl Sync for Xids {}

impl Xids {
    /// Watches `device` from now on.
    ///
    /// # Errors
    /// The GPU has no such events, such as a virtual GPU.
    pub fn watch(nvml: &'static Nvml, device: &Device<'static>) -> Result<Xids, NvmlError> {
        let events = nvml.create_event_set()?;
        let events = device.register_events(EventTypes::CRITICAL_XID_ERROR, events);
        Ok(Xids { events: events.map_err(|refused| refused.error)? })
    }

    /// The errors since the last read, without waiting. NVML reports the last error's number for
    /// all of them (nvml.h, nvmlEventSetWait_v2); 0 stands for an unknown one.
    pub fn take(&self) -> Vec<u64> {
        let events = std::iter::from_fn(|| self.events.wait(0).ok()).take(MAX_EVENTS_PER_READ);
        events
            .map(|event| match event.event_data {
                Some(XidError::Value(number)) => number,
                _ => 0,
            })
            .collect()
    }
}
