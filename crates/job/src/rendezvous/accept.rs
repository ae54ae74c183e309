//! The accept side of the handshake: one thread reads every pending connection until its process has
//! authenticated itself and asked to join.
//! Not whether a process may join (`server`).

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::token;
use super::{JoinRequest, ToCoordinator, ToWorker};
use crate::rendezvous::{
    address::{Listener, Rendezvous},
    authentication,
    authentication::Side,
    framed_stream::{FrameReader, FramedStream},
};

/// How long a pending connection may take for its handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest frame of an unauthenticated connection: a command line, or the findings of a doctor.
const MAX_REQUEST_BYTES: u32 = 1 << 20;
/// Pending connections that are read at once; further ones stay in the listener's queue.
const MAX_UNAUTHENTICATED: usize = 4096;
/// How often `closing` is checked while nothing happens.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A connection that is not authenticated yet.
struct PendingConnection {
    reader: FrameReader<FramedStream>,
    /// The nonce that it has to authenticate, once it has sent its own.
    nonce: Option<String>,
    deadline: Instant,
}

/// Accepts connections until `closing` is set, and sends each authenticated request to `joining`.
pub(super) fn accept_workers(
    listener: &Listener,
    rendezvous: &Rendezvous,
    joining: &Sender<(JoinRequest, FramedStream)>,
    closing: &AtomicBool,
) {
    let mut pending: Vec<PendingConnection> = Vec::new();
    while !closing.load(Ordering::SeqCst) {
        let mut fds: Vec<PollFd<'_>> = pending
            .iter()
            .map(|connection| PollFd::new(&connection.reader.stream, PollFlags::IN))
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
            |(mut connection, ready)| match ready {
                false => (now < connection.deadline).then_some(connection),
                true => match connection.shake_hands(rendezvous) {
                    Ok(None) => Some(connection),
                    Ok(Some(request)) => {
                        let _ = joining.send((*request, connection.reader.stream));
                        None
                    }
                    // An unauthenticated peer learns nothing from an error.
                    Err(_) => None,
                },
            },
        );
        pending = left.collect();
        while pending.len() < MAX_UNAUTHENTICATED {
            match listener.accept() {
                Ok(stream) => {
                    let (reader, deadline) = (FrameReader::new(stream), now + HANDSHAKE_TIMEOUT);
                    pending.push(PendingConnection { reader, nonce: None, deadline });
                }
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
    /// Reads the frames that have arrived and answers them; the request to join, once it is authenticated.
    fn shake_hands(&mut self, rendezvous: &Rendezvous) -> Result<Option<Box<JoinRequest>>> {
        for message in self.reader.read_frames(MAX_REQUEST_BYTES)? {
            match (message, &self.nonce) {
                (ToCoordinator::ClientChallenge { nonce: theirs }, None) => {
                    let nonce = token()?;
                    let auth_tag =
                        authentication::auth_tag(&rendezvous.key, Side::Coordinator, &theirs);
                    let redirect = rendezvous.redirect_for(self.reader.stream.local());
                    self.nonce = Some(nonce.clone());
                    let challenge = ToWorker::ServerChallenge { auth_tag, nonce, redirect };
                    self.reader.stream.send(&challenge)?;
                }
                (ToCoordinator::Join { auth_tag, request }, Some(nonce))
                    if authentication::verify_auth_tag(
                        &auth_tag,
                        &rendezvous.key,
                        Side::Worker,
                        nonce,
                    ) =>
                {
                    return Ok(Some(request));
                }
                _ => bail!("not of this job"),
            }
        }
        Ok(None)
    }
}
