//! Heartbeats of a process whose outputs another busbw writes: lines among those of its record on stdout.
//! Not its heartbeats to workers (`busbw_job::rendezvous`).

use std::sync::mpsc::{self, RecvTimeoutError, Sender};

use anyhow::{Context, Result};
use busbw_host::machine;
use busbw_job::heartbeat::{EventLoop, HEARTBEAT_INTERVAL, Heartbeat};

use crate::outputs::Outputs;

/// Heartbeats on stdout, until this is dropped.
pub(super) struct RelayedHeartbeats {
    /// Dropped to end the thread.
    _running: Sender<()>,
}

impl RelayedHeartbeats {
    /// Starts them, the first one at once.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn begin(outputs: &Outputs, event_loop: &EventLoop) -> Result<RelayedHeartbeats> {
        let (running, ended) = mpsc::channel::<()>();
        let (event_loop, stdout, host) =
            (event_loop.clone(), outputs.heartbeats(), machine::host_name());
        std::thread::Builder::new()
            .name("heartbeats".to_owned())
            .spawn(move || {
                loop {
                    stdout(Heartbeat::of_this_process(&host, &event_loop).to_line());
                    if ended.recv_timeout(HEARTBEAT_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                        return;
                    }
                }
            })
            .context("cannot start a thread for heartbeats")?;
        Ok(RelayedHeartbeats { _running: running })
    }
}
