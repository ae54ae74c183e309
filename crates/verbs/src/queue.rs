//! A completion queue: what has completed, and whether it failed.
//! Not the requests (`queue_pair`).

use std::{fmt, io, sync::Arc};

use super::{
    Device, VerbsError, abi,
    error::{advice, refused},
};

/// Entries that one call takes.
const BATCH: usize = 16;

/// A request that has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completed {
    /// The number that it was posted with.
    pub id: u64,
    /// The number that the other end sent with it.
    pub immediate: u32,
}

/// A request that has ended, well or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The number that it was posted with.
    pub id: u64,
    /// The number that the other end sent with it.
    pub immediate: u32,
    /// Bytes of what a receive took, also of a write that came with a number.
    pub bytes: u32,
    /// `enum ibv_wc_status`: 0 where it was done.
    pub status: i32,
}

/// A completion queue. Errors of its entries end the wait that finds them.
pub struct CompletionQueue {
    pub(super) device: Arc<Device>,
    pub(super) queue: *mut abi::CompletionQueue,
}

// SAFETY: a pointer to what the library guards by itself: any thread may poll (ibv_poll_cq(3), rdma-core's
// Documentation/libibverbs.md).
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompletionQueue")
    }
}

impl CompletionQueue {
    /// A queue of at least so many entries.
    ///
    /// # Errors
    /// The device has no room for it.
    pub fn new(device: &Arc<Device>, entries: u32) -> Result<Arc<CompletionQueue>, VerbsError> {
        let create = device.verbs.calls.create_cq.ok_or(VerbsError::Absent("ibv_create_cq"))?;
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        let none = std::ptr::null_mut();
        // SAFETY: the context is open; without a channel there are no events to wait for.
        let queue = unsafe { create(device.context, entries, none, none, 0) };
        if queue.is_null() {
            return Err(refused("ibv_create_cq", device.name(), &io::Error::last_os_error()));
        }
        Ok(Arc::new(CompletionQueue { device: Arc::clone(device), queue }))
    }

    /// Takes what has completed and gives it to `each`. Returns how many there were. Never waits.
    ///
    /// # Errors
    /// A request completed with an error: the first.
    #[inline]
    pub fn poll(&self, mut each: impl FnMut(Completed)) -> Result<usize, VerbsError> {
        let mut entries = [abi::Completion::default(); BATCH];
        let taken = self.take(&mut entries)?;
        for entry in &entries[..taken] {
            if entry.status != 0 {
                return Err(self.failed(entry));
            }
            each(Completed { id: entry.id, immediate: u32::from_be(entry.immediate) });
        }
        Ok(taken)
    }

    /// As [`CompletionQueue::poll`], with what ended badly among the others, as it is when a queue pair has failed.
    ///
    /// # Errors
    /// The queue itself cannot be read.
    #[inline]
    pub fn poll_all(&self, mut each: impl FnMut(Ended)) -> Result<usize, VerbsError> {
        let mut entries = [abi::Completion::default(); BATCH];
        let taken = self.take(&mut entries)?;
        for entry in &entries[..taken] {
            each(Ended {
                id: entry.id,
                immediate: u32::from_be(entry.immediate),
                bytes: entry.bytes,
                status: entry.status,
            });
        }
        Ok(taken)
    }

    /// The library's text for a status of [`Ended`].
    #[must_use]
    pub fn status_text(&self, status: i32) -> String {
        self.device.verbs.status(status)
    }

    #[inline]
    fn take(&self, entries: &mut [abi::Completion; BATCH]) -> Result<usize, VerbsError> {
        // SAFETY: the queue and its context exist; the entries have their room.
        let taken = unsafe {
            let poll = (*(*self.queue).context).ops.poll_cq;
            let poll = poll.ok_or(VerbsError::Absent("poll_cq"))?;
            poll(self.queue, BATCH as i32, entries.as_mut_ptr())
        };
        usize::try_from(taken)
            .map(|taken| taken.min(BATCH))
            .map_err(|_| refused("ibv_poll_cq", self.device.name(), &io::Error::last_os_error()))
    }

    #[cold]
    fn failed(&self, entry: &abi::Completion) -> VerbsError {
        let status = self.device.verbs.status(entry.status);
        VerbsError::Completed {
            what: format!("a request of queue pair {}", entry.number),
            on: self.device.name().to_owned(),
            status: format!("'{status}' (vendor code {:#x})", entry.vendor_error),
            advice: advice(entry.status).to_owned(),
        }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        if let Some(destroy) = self.device.verbs.calls.destroy_cq {
            // SAFETY: ours, once; the queue pairs that used it held on to it.
            unsafe { destroy(self.queue) };
        }
    }
}
