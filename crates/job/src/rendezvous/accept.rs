//! The coordinator's accepting thread: it reads every pending connection until the handshake is complete.
//! Not the handshake (`handshake`), and not whether a process may join (`server`).

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    time::Instant,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    JoinRequest,
    address::{Listener, Rendezvous},
    framed_stream::FramedStream,
    handshake::{HANDSHAKE_TIMEOUT, PendingConnection},
};

/// Pending connections that are read at once; further ones stay in the listener's queue.
const MAX_UNAUTHENTICATED: usize = 4096;
/// How often `closing` is checked while nothing happens.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What the accepting thread sends: a worker that shook hands, or another version of busbw that cannot, and where.
pub(super) type Arrival = Result<(JoinRequest, FramedStream), String>;

/// Accepts connections until `closing` is set.
pub(super) fn accept_workers(
    listener: &Listener,
    rendezvous: &Rendezvous,
    arrivals: &Sender<Arrival>,
    closing: &AtomicBool,
) {
    let mut pending: Vec<(PendingConnection, Instant)> = Vec::new();
    while !closing.load(Ordering::SeqCst) {
        let mut fds: Vec<PollFd<'_>> = pending
            .iter()
            .map(|(connection, _)| PollFd::new(&connection.stream, PollFlags::IN))
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
            |((mut connection, deadline), ready)| {
                if !ready {
                    return (now < deadline).then_some((connection, deadline));
                }
                match connection.shake_hands(rendezvous) {
                    Ok(None) => return Some((connection, deadline)),
                    Ok(Some(request)) => drop(arrivals.send(Ok((request, connection.stream)))),
                    // An unauthenticated peer learns nothing from an error but our version.
                    Err(_) => drop(connection.other_version().map(|it| arrivals.send(Err(it)))),
                }
                None
            },
        );
        pending = left.collect();
        while pending.len() < MAX_UNAUTHENTICATED {
            match listener.accept() {
                Ok(stream) => {
                    pending.push((PendingConnection::new(stream), now + HANDSHAKE_TIMEOUT));
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
