//! The coordinator's side of a worker that has joined: it sends the rank assignment, heartbeats, aborts and the exit
//! code.
//! Not what the worker sends (`worker_events`), and not the worker's own side.

use std::{
    net::IpAddr,
    ops::Range,
    os::fd::BorrowedFd,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use serde::Serialize;

use super::{JoinRequest, ToWorker};
use crate::{heartbeat::Heartbeat, rendezvous::framed_stream::FramedStream};

/// A worker that has joined.
#[derive(Debug, Clone)]
pub struct Worker {
    /// Its process ID.
    pub pid: u32,
    /// Its host's name.
    pub host: String,
    pub(super) cores: Vec<usize>,
    /// The numbers of all processes of its host, where they are known and consecutive.
    pub(super) processes_of_host: Option<Range<usize>>,
    stream: Arc<FramedStream>,
    /// Held while a message is sent: heartbeats come from a thread of their own.
    sending: Arc<Mutex<()>>,
}

impl Worker {
    pub(super) fn new(request: &JoinRequest, stream: FramedStream) -> Worker {
        Worker {
            pid: request.pid,
            host: request.host.clone(),
            cores: request.cores.clone(),
            processes_of_host: request.processes_of_host.clone(),
            stream: Arc::new(stream),
            sending: Arc::default(),
        }
    }

    /// The coordinator's own address on this worker's connection; none within a host.
    pub fn local_address(&self) -> Option<IpAddr> {
        self.stream.local()
    }

    /// Sends the rank assignment and the descriptors that it needs.
    ///
    /// # Errors
    /// When the worker's connection is broken.
    pub fn assign(
        &self,
        assignment: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<()> {
        let message = ToWorker::Assign { assignment, descriptors: descriptors.len() };
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        self.stream
            .send(&message)
            .and_then(|()| self.stream.send_descriptors(descriptors))
            .with_context(|| {
                format!("cannot send process {} on {} its rank assignment", self.pid, self.host)
            })
    }

    /// Has it read its host's counters, before a row or after it; `gpus` are the PCI addresses of the host's GPUs.
    pub fn read_counters(&self, gpus: Option<Vec<String>>, question: u64, after: bool) {
        self.send(&ToWorker::ReadCounters { gpus, question, after });
    }

    /// Aborts the waits of its ranks.
    pub fn abort(&self) {
        self.send(&ToWorker::Abort);
    }

    /// Tells it what the job's end means.
    pub fn conclude(&self, text: &str) {
        self.send(&ToWorker::Conclusion(text.to_owned()));
    }

    /// Has it exit with this code.
    pub fn exit(&self, exit: Exit) {
        self.send(&ToWorker::Exit(exit));
    }

    /// Shows it that this process answers; leaves that out while another message is sent.
    pub(super) fn send_heartbeat(&self, heartbeat: &Heartbeat) {
        if let Ok(_sending) = self.sending.try_lock() {
            let _ = self.stream.send(&ToWorker::<()>::Heartbeat(heartbeat.clone()));
        }
    }

    /// Its connection.
    pub(super) fn stream(&self) -> Arc<FramedStream> {
        Arc::clone(&self.stream)
    }

    fn send(&self, message: &ToWorker<()>) {
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        // A broken connection shows as an event.
        let _ = self.stream.send(message);
    }
}
