//! The coordinator's side of the handshake: one thread reads every pending connection until its process has
//! authenticated itself and asked to join.
//! Not the worker's side (`join`), and not whether a process may join (`server`).

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    time::Instant,
};

use anyhow::{Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    HANDSHAKE_TIMEOUT, JoinRequest, ToCoordinator, ToWorker, Worker,
    address::{Listener, Rendezvous},
    authentication::{Side, auth_tag, verify_auth_tag},
    framed_stream::FramedStream,
    heartbeats::Joined,
    hello::Hello,
};
use crate::frame::{FrameReader, Peer};

/// Pending connections that are read at once; further ones stay in the listener's queue.
const MAX_UNAUTHENTICATED: usize = 4096;
/// How often `closing` is checked while nothing happens.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A connection that is not authenticated yet.
struct PendingConnection {
    stream: FramedStream,
    reader: FrameReader,
    /// The first message of both sides, once the worker has sent its own.
    hellos: Option<(Hello, Hello)>,
    deadline: Instant,
}

/// What the accepting thread sends: a worker that shook hands, or another version of busbw that cannot, and where.
pub(super) type Arrival = Result<(JoinRequest, Worker), String>;

/// Accepts connections until `closing` is set. `joined` gets every worker that shook hands.
pub(super) fn accept_workers(
    listener: &Listener,
    rendezvous: &Rendezvous,
    arrivals: &Sender<Arrival>,
    joined: &Joined,
    closing: &AtomicBool,
) {
    let mut pending: Vec<PendingConnection> = Vec::new();
    while !closing.load(Ordering::SeqCst) {
        let mut fds: Vec<PollFd<'_>> = pending
            .iter()
            .map(|connection| PollFd::new(&connection.stream, PollFlags::IN))
            .collect();
        if pending.len() < MAX_UNAUTHENTICATED {
            fds.push(PollFd::new(listener, PollFlags::IN));
        }
        if poll(&mut fds, Some(&POLL_INTERVAL)).is_err() {
            continue;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let now = Instant::now();
        let left = std::mem::take(&mut pending).into_iter().zip(&ready).filter_map(
            |(mut connection, ready)| {
                if !ready {
                    return (now < connection.deadline).then_some(connection);
                }
                let arrival = match connection.shake_hands(rendezvous) {
                    Ok(None) => return Some(connection),
                    Ok(Some(request)) => {
                        let worker = Worker::new(&request, connection.stream);
                        joined.add(&worker);
                        Ok((request, worker))
                    }
                    // An unauthenticated peer learns nothing from an error but this version.
                    Err(_) => Err(connection.other_version()?),
                };
                let _ = arrivals.send(arrival);
                None
            },
        );
        pending = left.collect();
        while pending.len() < MAX_UNAUTHENTICATED {
            match listener.accept() {
                Ok(stream) => pending.push(PendingConnection::new(stream)),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                // Another user's process, a connection that is closed already, or no free descriptor.
                Err(_) => {
                    let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 }));
                    break;
                }
            }
        }
    }
}

impl PendingConnection {
    fn new(stream: FramedStream) -> PendingConnection {
        let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
        PendingConnection { stream, reader: FrameReader::default(), hellos: None, deadline }
    }

    /// Reads the frames that have arrived and answers them; the request to join, once it is authenticated.
    ///
    /// # Errors
    /// When the other side is not a worker of this job, or is another version.
    fn shake_hands(&mut self, rendezvous: &Rendezvous) -> Result<Option<JoinRequest>> {
        self.stream.read(&mut self.reader)?;
        while let Some(payload) = self.reader.next(Peer::Unauthenticated)? {
            let Some((ours, _)) = &self.hellos else {
                let (ours, theirs) = (Hello::new()?, serde_json::from_slice(payload)?);
                self.stream.send(&ours)?;
                let (_, theirs) = self.hellos.insert((ours, theirs));
                theirs.check()?;
                let auth_tag = auth_tag(&rendezvous.key, Side::Coordinator, &theirs.nonce);
                let redirect = rendezvous.redirect_for(self.stream.local());
                self.stream.send(&ToWorker::<()>::Authentication { auth_tag, redirect })?;
                continue;
            };
            match serde_json::from_slice(payload)? {
                ToCoordinator::Join { auth_tag, request }
                    if verify_auth_tag(&auth_tag, &rendezvous.key, Side::Worker, &ours.nonce) =>
                {
                    return Ok(Some(*request));
                }
                _ => bail!("not of this job"),
            }
        }
        Ok(None)
    }

    /// The version at the other end, and where that is, if it is not this one's.
    fn other_version(&self) -> Option<String> {
        let version = self.hellos.as_ref()?.1.other_version()?;
        let at = self
            .stream
            .peer()
            .map_or("this host".to_owned(), |at| at.ip().to_canonical().to_string());
        Some(format!("{version} on {at}"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::{
        launched::Launched,
        rendezvous::{
            hello::PROTOCOL,
            join::{Handshake, shake_hands},
        },
    };

    fn rendezvous(secret: &str) -> Rendezvous {
        let secret = Some(secret.to_owned());
        let job = Some("handshake".to_owned());
        Rendezvous::of(&Launched { job, secret, ..Launched::planned(2, true) }).unwrap()
    }

    fn pair() -> (FramedStream, PendingConnection) {
        let (one, other) = UnixStream::pair().unwrap();
        let [one, other] = [one, other].map(|stream| FramedStream::from_unix(stream).unwrap());
        (one, PendingConnection::new(other))
    }

    /// A worker with `secret` at a coordinator with "right": what each of them gets.
    fn meet(secret: &str) -> (Result<Handshake>, Result<JoinRequest>, Option<String>) {
        let (stream, mut pending) = pair();
        let join = JoinRequest::of_this_process(&Launched::planned(2, true), &["busbw".into()]);
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || shake_hands(stream, &rendezvous(secret), &join));
            let request = loop {
                assert!(pending.stream.is_ready(HANDSHAKE_TIMEOUT));
                if let Some(end) = pending.shake_hands(&rendezvous("right")).transpose() {
                    break end;
                }
            };
            (worker.join().unwrap(), request, pending.other_version())
        })
    }

    #[test]
    fn whoever_knows_the_secret_joins() {
        let (worker, request, other) = meet("right");
        assert!(matches!(worker, Ok(Handshake::Joined(_))), "{worker:?}");
        assert_eq!((request.unwrap().pid, other), (std::process::id(), None));
        let (worker, request, other) = meet("wrong");
        let text = "the busbw that listens there belongs to another job";
        assert_eq!(worker.unwrap_err().to_string(), text);
        assert!(request.is_err() && other.is_none());
    }

    #[test]
    fn a_worker_hears_the_coordinators_version() {
        let (stream, PendingConnection { stream: coordinator, .. }) = pair();
        let nonce = "of a later form".to_owned();
        let later = Hello { protocol: PROTOCOL + 1, version: "9.9.9".to_owned(), nonce };
        coordinator.send(&later).unwrap();
        let join = JoinRequest::of_this_process(&Launched::planned(2, true), &["busbw".into()]);
        let error = shake_hands(stream, &rendezvous("right"), &join).unwrap_err();
        let text = format!(
            "this process is busbw {}, and rank 0 is busbw 9.9.9: install one version on all hosts: its rendezvous has protocol {}, and this one has {PROTOCOL}",
            env!("CARGO_PKG_VERSION"),
            PROTOCOL + 1
        );
        assert_eq!(format!("{error:#}"), text);
    }

    #[test]
    fn a_coordinator_answers_another_version_and_names_it() {
        let (worker, mut pending) = pair();
        let nonce = String::new();
        let later = Hello { protocol: PROTOCOL + 1, version: "9.9.9\u{1b}[0m".to_owned(), nonce };
        worker.send(&later).unwrap();
        assert!(pending.shake_hands(&rendezvous("right")).is_err());
        let other = pending.other_version().unwrap();
        assert!(other.starts_with("9.9.9") && other.ends_with(" on this host"), "{other}");
        assert!(!other.contains('\u{1b}'));
        let answer: Hello = worker.receive_from(Peer::Unauthenticated).unwrap();
        assert_eq!((answer.protocol, &*answer.version), (PROTOCOL, env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn whoever_sends_something_else_gets_no_answer() {
        let garbage = [&[4, 0, 0, 0][..], b"{{{{"].concat();
        let too_long = ((1u32 << 20) + 1).to_le_bytes().to_vec();
        for bytes in [garbage, too_long] {
            let (other, mut pending) = pair();
            rustix::io::write(&other, &bytes).unwrap();
            assert!(pending.shake_hands(&rendezvous("right")).is_err());
            drop(pending);
            assert_eq!(rustix::io::read(&other, &mut [0; 9]).unwrap(), 0);
        }
    }
}
