//! The coordinator's side of a worker that has joined: it sends the rank assignment, aborts and the exit code,
//! and turns what the worker sends into events.
//! Not the worker's own side.

use std::{
    net::IpAddr,
    ops::Range,
    os::fd::BorrowedFd,
    sync::{Arc, mpsc::Sender},
};

use anyhow::{Context, Result};
use busbw_core::{exit::Exit, record::HostCounters};
use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;

use super::{JoinRequest, ToCoordinator, ToWorker};
use crate::{
    frame::{FrameReader, Peer},
    rendezvous::framed_stream::FramedStream,
};

/// What happens to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerEvent {
    /// The counters of its host, as they were asked for.
    Counters(Box<HostCounters>),
    /// It received this signal.
    Signalled(i32),
    /// Its ranks have exited.
    Ended,
    /// Its connection broke: the process is gone.
    Gone,
}

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
}

impl Worker {
    pub(super) fn new(request: &JoinRequest, stream: FramedStream) -> Worker {
        Worker {
            pid: request.pid,
            host: request.host.clone(),
            cores: request.cores.clone(),
            processes_of_host: request.processes_of_host.clone(),
            stream: Arc::new(stream),
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
        self.stream
            .send(&message)
            .and_then(|()| self.stream.send_descriptors(descriptors))
            .with_context(|| {
                format!("cannot send process {} on {} its rank assignment", self.pid, self.host)
            })
    }

    /// Has it read its host's counters, before a row or after it; `gpus` are the PCI addresses of the host's GPUs.
    pub fn read_counters(&self, gpus: Option<Vec<String>>, after: bool) {
        self.send(&ToWorker::ReadCounters { gpus, after });
    }

    /// Aborts the waits of its ranks.
    pub fn abort(&self) {
        self.send(&ToWorker::Abort);
    }

    /// Has it exit with this code.
    pub fn exit(&self, exit: Exit) {
        self.send(&ToWorker::Exit(exit));
    }

    fn send(&self, message: &ToWorker<()>) {
        // A broken connection shows as an event.
        let _ = self.stream.send(message);
    }
}

/// Starts a thread that sends an event for everything that happens to a worker; `event` makes it from the
/// worker's process number.
///
/// # Errors
/// When no thread can be started.
pub(super) fn follow<'a, E: Send + 'static>(
    workers: impl Iterator<Item = (usize, &'a Worker)>,
    events: Sender<E>,
    event: impl Fn(usize, WorkerEvent) -> E + Send + 'static,
) -> Result<()> {
    let mut streams: Vec<(usize, Arc<FramedStream>, FrameReader)> = workers
        .map(|(process, worker)| (process, Arc::clone(&worker.stream), FrameReader::default()))
        .collect();
    let follow = move || {
        while !streams.is_empty() {
            let mut fds: Vec<PollFd<'_>> = streams
                .iter()
                .map(|(_, stream, _)| PollFd::new(&**stream, PollFlags::IN))
                .collect();
            if poll(&mut fds, None).is_err() {
                // EINTR; nothing else can fail on this process's own descriptors.
                continue;
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            let mut ready = ready.into_iter();
            let mut received = true;
            streams.retain_mut(|(process, stream, reader)| {
                if !ready.next().unwrap_or(false) {
                    return true;
                }
                let over = stream.read(reader).is_err();
                loop {
                    let one = match reader.next(Peer::Authenticated) {
                        Ok(Some(payload)) => WorkerEvent::of(payload),
                        Ok(None) if !over => return true,
                        Ok(None) | Err(_) => WorkerEvent::Gone,
                    };
                    let gone = one == WorkerEvent::Gone;
                    received &= events.send(event(*process, one)).is_ok();
                    if gone {
                        return false;
                    }
                }
            });
            if !received {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("workers".to_owned())
        .spawn(follow)
        .map(drop)
        .context("cannot start a thread for the other processes of this job")
}

impl WorkerEvent {
    fn of(payload: &[u8]) -> WorkerEvent {
        match serde_json::from_slice(payload) {
            Ok(ToCoordinator::Signalled(signal)) => WorkerEvent::Signalled(signal),
            Ok(ToCoordinator::Ended) => WorkerEvent::Ended,
            Ok(ToCoordinator::Counters(counters)) => WorkerEvent::Counters(counters),
            // Handshakes are over: a violation of the protocol.
            Ok(ToCoordinator::Join { .. }) | Err(_) => WorkerEvent::Gone,
        }
    }
}
