//! The coordinator's heartbeats: a thread shows every worker that has joined that the coordinator answers.
//! Not the workers' own heartbeats (`worker_events` hears those).

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    mpsc::{self, RecvTimeoutError},
};

use anyhow::{Context, Result};
use busbw_host::machine;

use super::Worker;
use crate::heartbeat::{EventLoop, HEARTBEAT_INTERVAL, Heartbeat};

/// The workers that get heartbeats.
#[derive(Debug, Clone)]
pub(super) struct Joined {
    workers: Arc<Mutex<Vec<Worker>>>,
    event_loop: EventLoop,
    host: String,
}

impl Joined {
    /// Adds a worker. It gets its first heartbeat at once: from then on it knows who is silent.
    pub(super) fn add(&self, worker: &Worker) {
        worker.send_heartbeat(&self.heartbeat());
        self.lock().push(worker.clone());
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat::of_this_process(&self.host, &self.event_loop)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Worker>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Heartbeats to workers, until this is dropped.
pub(super) struct Heartbeats {
    event_loop: EventLoop,
    /// Dropped to end the thread.
    _running: mpsc::Sender<()>,
}

impl Heartbeats {
    /// Starts them, for workers that are added.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn begin() -> Result<(Heartbeats, Joined)> {
        let event_loop = EventLoop::default();
        let (running, ended) = mpsc::channel::<()>();
        let joined = Joined {
            workers: Arc::default(),
            event_loop: event_loop.clone(),
            host: machine::host_name(),
        };
        let to = joined.clone();
        std::thread::Builder::new()
            .name("heartbeats".to_owned())
            .spawn(move || {
                while ended.recv_timeout(HEARTBEAT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    let (workers, heartbeat) = (to.lock().clone(), to.heartbeat());
                    workers.iter().for_each(|worker| worker.send_heartbeat(&heartbeat));
                }
            })
            .context("cannot start a thread for heartbeats")?;
        Ok((Heartbeats { event_loop, _running: running }, joined))
    }

    /// The event loop that they tell of.
    pub(super) fn event_loop(&self) -> &EventLoop {
        &self.event_loop
    }
}
