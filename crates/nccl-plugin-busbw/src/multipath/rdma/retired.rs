//! Queue pairs that are not used any more: stopped at once, and destroyed by a thread that may wait for that.
//! Not when one is given up (`sender`, `receiver`).
//!
//! They stay stopped for a while before that, so that no new queue pair has the number of one whose packets may still be on their way:
//! an unreliable one takes the first packet of any message (rdma_rxe does so in check_psn of rxe_resp.c).
//! The kernel waits in ibv_destroy_qp(3) until nothing holds the queue pair. rdma_rxe of Linux 6.1 waits there for minutes where the
//! port has just gone down, and whoever destroys it stands still meanwhile: NCCL's thread must not.

use std::{
    collections::VecDeque,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    sync::{OnceLock, mpsc},
    time::{Duration, Instant},
};

use busbw_verbs::QueuePair;

use crate::{multipath::threads, network::Result};

/// Longer than a packet is on its way, also where ports are paused (PFC) for a while.
const QUARANTINE: Duration = Duration::from_secs(2);

/// To the thread, where there is one.
static THREAD: OnceLock<mpsc::Sender<(Instant, QueuePair)>> = OnceLock::new();

/// Starts the thread, once a process.
///
/// # Errors
/// The system does not let us.
pub(super) fn start() -> Result<()> {
    if THREAD.get().is_none() {
        let (retire, retired) = mpsc::channel::<(Instant, QueuePair)>();
        threads::spawn("busbw-retired", move || destroy_late(&retired))?;
        // Another one that was faster has a thread of its own; this one's ends.
        let _ = THREAD.set(retire);
    }
    Ok(())
}

/// Destroys each when it has been stopped for long enough.
fn destroy_late(retired: &mpsc::Receiver<(Instant, QueuePair)>) {
    let mut stopped = VecDeque::new();
    while let Ok(first) = retired.recv() {
        stopped.push_back(first);
        while let Some((since, _)) = stopped.front() {
            let left = QUARANTINE.saturating_sub(since.elapsed());
            match retired.recv_timeout(left) {
                Ok(next) => stopped.push_back(next),
                Err(_) => drop(stopped.pop_front()),
            }
        }
    }
}

/// A queue pair of a path. When it is dropped, the device reads and writes nothing for it any more.
pub(super) struct Retiring(ManuallyDrop<QueuePair>);

impl Retiring {
    pub(super) fn new(pair: QueuePair) -> Retiring {
        Retiring(ManuallyDrop::new(pair))
    }
}

impl Deref for Retiring {
    type Target = QueuePair;

    fn deref(&self) -> &QueuePair {
        &self.0
    }
}

impl DerefMut for Retiring {
    fn deref_mut(&mut self) -> &mut QueuePair {
        &mut self.0
    }
}

impl Drop for Retiring {
    fn drop(&mut self) {
        // A device that is gone does not stop, and one that was never connected need not.
        let _ = self.0.stop();
        // SAFETY: once, and nobody has it behind this.
        let pair = unsafe { ManuallyDrop::take(&mut self.0) };
        if let Some(thread) = THREAD.get() {
            // It ends with the process alone.
            let _ = thread.send((Instant::now(), pair));
        }
    }
}
