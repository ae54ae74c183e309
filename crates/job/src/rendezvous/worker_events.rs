//! What workers send, and their silence, as events: one thread follows all connections.
//! Not what is sent to them (`workers`).

use std::{
    os::fd::OwnedFd,
    sync::{Arc, mpsc::Sender},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::record::HostCounters;
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerEvent {
    /// The counters of its host, and the number of the question that they answer.
    Counters(u64, Box<HostCounters>),
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
            let gone = one == WorkerEvent::Gone;
            received &= send(worker.process, one);
            if gone {
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
        for process in silent(followed.iter_mut().flatten(), now) {
            received &= send(process, WorkerEvent::Silent);
        }
    }
    received
}

/// The processes that have been silent for too long at `now`, and were not named before.
fn silent<'a>(workers: impl Iterator<Item = &'a mut Followed>, now: Instant) -> Vec<usize> {
    let late = workers.filter_map(|worker| {
        let silent = worker.silence.length(now) >= SILENCE_TIMEOUT;
        (silent && !std::mem::replace(&mut worker.told, true)).then_some(worker.process)
    });
    late.collect()
}

impl WorkerEvent {
    /// The event of a message; none for a heartbeat.
    fn of(payload: &[u8]) -> Option<WorkerEvent> {
        Some(match serde_json::from_slice(payload) {
            Ok(ToCoordinator::Heartbeat) => return None,
            Ok(ToCoordinator::Signalled(signal)) => WorkerEvent::Signalled(signal),
            Ok(ToCoordinator::Ended) => WorkerEvent::Ended,
            Ok(ToCoordinator::Counters { question, counters }) => {
                WorkerEvent::Counters(question, counters)
            }
            // Handshakes are over: a violation of the protocol.
            Ok(ToCoordinator::Join { .. }) | Err(_) => WorkerEvent::Gone,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixStream, sync::mpsc};

    use super::*;

    /// Two workers, processes 1 and 2, with the other ends of their connections.
    fn two() -> (Vec<Option<Followed>>, [FramedStream; 2], OwnedFd, Instant) {
        let (now, epoll) = (Instant::now(), epoll::create(epoll::CreateFlags::CLOEXEC).unwrap());
        let mut followed = Vec::new();
        let others = [0u64, 1].map(|place| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let stream = Arc::new(FramedStream::from_unix(ours).unwrap());
            epoll::add(&epoll, &*stream, EventData::new_u64(place), EventFlags::IN).unwrap();
            let (process, reader) = (place as usize + 1, FrameReader::default());
            let silence = Silence::begin(now);
            followed.push(Some(Followed { process, stream, reader, silence, told: false }));
            FramedStream::from_unix(theirs).unwrap()
        });
        (followed, others, epoll, now)
    }

    #[test]
    fn whoever_sends_heartbeats_is_not_silent() {
        let (mut followed, [one, _other], epoll, start) = two();
        let (sender, events) = mpsc::channel();
        let send = |process, what| sender.send((process, what)).is_ok();
        let (mut ready, mut checked) = (Vec::with_capacity(MAX_READY), start);
        one.send(&ToCoordinator::Heartbeat).unwrap();
        assert!(step(&epoll, &mut followed, &mut ready, &mut checked, &send));
        one.send(&ToCoordinator::Signalled(15)).unwrap();
        assert!(step(&epoll, &mut followed, &mut ready, &mut checked, &send));
        assert_eq!(events.try_recv(), Ok((1, WorkerEvent::Signalled(15))));
        assert!(events.try_recv().is_err(), "a heartbeat is no event");
        let mut named = Vec::new();
        for seconds in 1..30 {
            let now = start + Duration::from_secs(seconds);
            // The first one is heard again and again.
            followed[0].as_mut().unwrap().silence.end(now);
            let late = silent(followed.iter_mut().flatten(), now);
            named.extend(late.into_iter().map(|process| (process, seconds)));
        }
        assert_eq!(named, [(2, 10)]);
    }

    #[test]
    fn a_closed_connection_is_no_silence() {
        let (mut followed, [one, _other], epoll, start) = two();
        let (sender, events) = mpsc::channel();
        let send = |process, what| sender.send((process, what)).is_ok();
        drop(one);
        assert!(step(&epoll, &mut followed, &mut Vec::with_capacity(9), &mut { start }, &send));
        assert_eq!(events.try_recv(), Ok((1, WorkerEvent::Gone)));
        assert!(followed[0].is_none() && followed[1].is_some());
    }
}
