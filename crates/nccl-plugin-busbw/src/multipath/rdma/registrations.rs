//! Memory that a port's device knows: registered once for all connections that use it, and let go with the last of them.
//! Not what memory a connection uses (`memory`).

use std::{
    ops::Range,
    sync::{Arc, Mutex, Weak},
};

use busbw_verbs::{Device, PcieOrdering, Registration, VerbsError};

use crate::{multipath::locks::lock, network::Memory};

/// 0: writes to memory keep the order of their packets, which nobody here needs: messages are known to be there by completions.
const ORDERING: &str = "NCCL_IB_PCI_RELAXED_ORDERING";
/// Registering a page takes as long as sending it; NCCL registers the same buffers with every connection.
const PAGE: usize = 4096;

/// The registrations of one open device.
pub(super) struct Registrations {
    device: Arc<Device>,
    ordering: PcieOrdering,
    kept: Mutex<Vec<Kept>>,
}

/// Registered memory, as long as anybody uses it.
struct Kept {
    pages: Range<usize>,
    is_device: bool,
    registration: Weak<Registration>,
}

impl Registrations {
    pub(super) fn new(device: &Arc<Device>) -> Registrations {
        let is_strict = std::env::var(ORDERING).is_ok_and(|value| value.trim() == "0");
        let ordering = if is_strict { PcieOrdering::Strict } else { PcieOrdering::Relaxed };
        Registrations { device: device.clone(), ordering, kept: Mutex::default() }
    }

    /// The registration of this memory: the one that is there, or a new one of all its pages.
    ///
    /// # Errors
    /// The memory cannot be locked, or the device cannot reach it.
    pub(super) fn of(&self, memory: &Memory) -> Result<Arc<Registration>, VerbsError> {
        let mut kept = lock(&self.kept);
        kept.retain(|one| one.registration.strong_count() > 0);
        let Range { start, end } = memory.addresses;
        let fits = |one: &&Kept| {
            one.pages.start <= start && end <= one.pages.end && one.is_device == memory.is_device
        };
        if let Some(there) = kept.iter().find(fits).and_then(|one| one.registration.upgrade()) {
            return Ok(there);
        }
        let (made, pages) = match memory.dma_buf {
            Some(dma_buf) => {
                let (address, bytes) = (start as u64, end - start);
                // SAFETY: the memory stays until NCCL takes the registration back; the device writes there only what the
                // connection that it is registered with was asked to receive.
                let made = unsafe {
                    Registration::of_dma_buf(&self.device, dma_buf, address, bytes, self.ordering)
                };
                (made?, start..end)
            }
            None => {
                let first = start / PAGE * PAGE;
                let bytes = end.next_multiple_of(PAGE).max(first + PAGE) - first;
                let address = first as *mut u8;
                // SAFETY: as above; what else lies on the first and the last page is not named by any request.
                let made =
                    unsafe { Registration::of_memory(&self.device, address, bytes, self.ordering) };
                (made?, first..first + bytes)
            }
        };
        let made = Arc::new(made);
        let registration = Arc::downgrade(&made);
        kept.push(Kept { pages, is_device: memory.is_device, registration });
        Ok(made)
    }
}
