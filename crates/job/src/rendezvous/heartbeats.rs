//! The coordinator's heartbeats: a thread shows every worker that has joined that the coordinator answers.
//! Not the workers' own heartbeats (`worker_events` hears those).

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::Duration,
};

use anyhow::{Context, Result};
use busbw_host::machine;

use super::Worker;
use crate::heartbeat::{EventLoop, HEARTBEAT_INTERVAL, Heartbeat};

/// Heartbeats to workers, until this is dropped.
pub(super) struct Heartbeats {
    event_loop: EventLoop,
    /// Dropped to end the thread.
    _running: mpsc::Sender<()>,
}

impl Heartbeats {
    /// Starts them for `joined`, which may grow.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn begin(joined: Arc<Mutex<Vec<Worker>>>) -> Result<Heartbeats> {
        let event_loop = EventLoop::default();
        let (running, ended) = mpsc::channel::<()>();
        let (host, ours) = (machine::host_name(), event_loop.clone());
        std::thread::Builder::new()
            .name("heartbeats".to_owned())
            .spawn(move || {
                while !is_over(&ended, HEARTBEAT_INTERVAL) {
                    let workers = joined.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let heartbeat = Heartbeat::of_this_process(&host, &ours);
                    workers.iter().for_each(|worker| worker.send_heartbeat(&heartbeat));
                }
            })
            .context("cannot start a thread for heartbeats")?;
        Ok(Heartbeats { event_loop, _running: running })
    }

    /// The event loop that they tell of.
    pub(super) fn event_loop(&self) -> &EventLoop {
        &self.event_loop
    }
}

/// Waits so long; true if the sender is gone.
fn is_over(ended: &mpsc::Receiver<()>, wait: Duration) -> bool {
    ended.recv_timeout(wait) == Err(mpsc::RecvTimeoutError::Disconnected)
}
