//! What workers send, and their silence, as events: one thread follows all connections.
//! Not what is sent to them (`workers`).

use std::{
    os::fd::OwnedFd,
    sync::{Arc, mpsc::Sender},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::{
    buffer::spare_capacity,
    event::{
        Timespec,
        epoll::{self, EventData, EventFlags},
    },
};

use super::{ToCoordinator, Worker};
use crate::{
    frame::{FrameReader, Peer},
    heartbeat::{SILENCE_TIMEOUT, Silence},
    rendezvous::framed_stream::FramedStream,
};

/// How often silence is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Connections that are read after one wait.
const MAX_READY: usize = 256;

/// What happens to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerEvent {
    /// It received this signal.
    Signalled(i32),
    /// Its ranks have exited.
    Ended,
    /// Its connection broke: the process is gone.
    Gone,
    /// It has sent nothing for [`SILENCE_TIMEOUT`]: the process is stopped, or its host hangs. Comes once.
    Silent,
}

/// A connection that is followed.
struct Followed {
    process: usize,
    stream: Arc<FramedStream>,
    reader: FrameReader,
    silence: Silence,
    told: bool,
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
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
        .context("cannot wait for the other processes of this job")?;
    let now = Instant::now();
    let mut followed = Vec::new();
    for (place, (process, worker)) in workers.enumerate() {
        let stream = worker.stream();
        epoll::add(&epoll, &*stream, EventData::new_u64(place as u64), EventFlags::IN)
            .context("cannot wait for the other processes of this job")?;
        let (reader, silence) = (FrameReader::default(), Silence::begin(now));
        followed.push(Some(Followed { process, stream, reader, silence, told: false }));
    }
    let send = move |process, what| events.send(event(process, what)).is_ok();
    std::thread::Builder::new()
        .name("workers".to_owned())
        .spawn(move || {
            let mut ready = Vec::with_capacity(MAX_READY);
            let mut checked = now;
            while followed.iter().any(Option::is_some) {
                if !step(&epoll, &mut followed, &mut ready, &mut checked, &send) {
                    return;
                }
            }
        })
        .map(drop)
        .context("cannot start a thread for the other processes of this job")
}

/// Waits, reads what has arrived, and checks silence when that is due. False if nobody receives events any more.
fn step(
    epoll: &OwnedFd,
    followed: &mut [Option<Followed>],
    ready: &mut Vec<epoll::Event>,
    checked: &mut Instant,
    send: &impl Fn(usize, WorkerEvent) -> bool,
) -> bool {
    ready.clear();
    let timeout = Timespec::try_from(CHECK_INTERVAL).unwrap_or_default();
    // EINTR; nothing else can fail on this process's own descriptor.
    let _ = epoll::wait(epoll, spare_capacity(ready), Some(&timeout));
    let now = Instant::now();
    let mut received = true;
    for event in ready.iter() {
        let Some(place) = followed.get_mut(event.data.u64() as usize) else { continue };
        let Some(worker) = place else { continue };
        worker.silence.end(now);
        let over = worker.stream.read(&mut worker.reader).is_err();
        let gone = loop {
            let one = match worker.reader.next(Peer::Authenticated) {
                Ok(Some(payload)) => WorkerEvent::of(payload),
                Ok(None) if !over => break false,
                Ok(None) | Err(_) => Some(WorkerEvent::Gone),
            };
            let Some(one) = one else { continue };
            received &= send(worker.process, one);
            if one == WorkerEvent::Gone {
                break true;
            }
        };
        if gone {
            let _ = epoll::delete(epoll, &*worker.stream);
            *place = None;
        }
    }
    // A full list may be only a part of what has arrived.
    if ready.len() < MAX_READY && now.duration_since(*checked) >= CHECK_INTERVAL {
        *checked = now;
        for worker in followed.iter_mut().flatten() {
            let silent = worker.silence.length(now) >= SILENCE_TIMEOUT;
            if silent && !std::mem::replace(&mut worker.told, true) {
                received &= send(worker.process, WorkerEvent::Silent);
            }
        }
    }
    received
}

impl WorkerEvent {
    /// The event of a message; none for a heartbeat.
    fn of(payload: &[u8]) -> Option<WorkerEvent> {
        Some(match serde_json::from_slice(payload) {
            Ok(ToCoordinator::Heartbeat) => return None,
            Ok(ToCoordinator::Signalled(signal)) => WorkerEvent::Signalled(signal),
            Ok(ToCoordinator::Ended) => WorkerEvent::Ended,
            // Handshakes are over: a violation of the protocol.
            Ok(ToCoordinator::Join { .. }) | Err(_) => WorkerEvent::Gone,
        })
    }
}
