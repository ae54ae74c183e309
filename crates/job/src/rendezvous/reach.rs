//! Connects to a host with several addresses of which some may be dead: attempts start one after the other, and
//! the first that succeeds is used (RFC 8305, Happy Eyeballs).
//! Not which addresses those are.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, ioctl_fionbio},
    net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt},
};

/// Delay from one attempt to the next (RFC 8305, Connection Attempt Delay).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// How long one attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Connects to the first of these (source, destination) pairs that accepts.
///
/// # Errors
/// The error of every attempt, when all fail.
pub(super) fn connect_first(routes: &[(Option<SocketAddr>, SocketAddr)]) -> io::Result<TcpStream> {
    let mut failed: Vec<String> = Vec::new();
    let mut under_way: Vec<(OwnedFd, SocketAddr, Instant)> = Vec::new();
    let mut left = routes.iter();
    let mut next_at = Instant::now();
    loop {
        let now = Instant::now();
        if under_way.is_empty() || now >= next_at {
            match left.next() {
                Some((from, to)) => {
                    next_at = now + ATTEMPT_DELAY;
                    match begin(*from, *to) {
                        Ok(socket) => under_way.push((socket, *to, now + CONNECT_TIMEOUT)),
                        Err(error) => failed.push(format!("{to}: {error}")),
                    }
                }
                None if under_way.is_empty() => {
                    let none = "the name resolves to no address".to_owned();
                    return Err(io::Error::other(if failed.is_empty() {
                        none
                    } else {
                        failed.join("; ")
                    }));
                }
                None => next_at = now + CONNECT_TIMEOUT,
            }
        }
        let wake = under_way.iter().map(|(.., by)| *by).chain([next_at]).min().unwrap_or(next_at);
        let pause = wake.saturating_duration_since(Instant::now());
        let pause =
            Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() };
        let mut fds: Vec<PollFd<'_>> =
            under_way.iter().map(|(socket, ..)| PollFd::new(socket, PollFlags::OUT)).collect();
        match poll(&mut fds, Some(&pause)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let (now, before) = (Instant::now(), failed.len());
        for ((socket, to, by), ready) in std::mem::take(&mut under_way).into_iter().zip(ready) {
            match sockopt::socket_error(&socket)? {
                Ok(()) if ready => {
                    ioctl_fionbio(&socket, false)?;
                    return Ok(TcpStream::from(socket));
                }
                Ok(()) if now < by => under_way.push((socket, to, by)),
                Ok(()) => failed.push(format!("{to}: no answer")),
                Err(error) => failed.push(format!("{to}: {}", io::Error::from(error))),
            }
        }
        if failed.len() > before {
            // The next attempt starts at once.
            next_at = now;
        }
    }
}

/// Starts a connection without waiting for it.
fn begin(from: Option<SocketAddr>, to: SocketAddr) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(from) = from {
        bind(&socket, &from)?;
    }
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A listener, and one that does not answer: its queue is full.
    fn alive_and_silent() -> (TcpListener, TcpListener, Vec<TcpStream>) {
        let alive = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&silent, 0).unwrap();
        let address = silent.local_addr().unwrap();
        let limit = Duration::from_millis(50);
        let queue =
            (0..8).map_while(|_| TcpStream::connect_timeout(&address, limit).ok()).collect();
        (alive, silent, queue)
    }

    #[test]
    fn an_address_that_does_not_answer_costs_its_head_start() {
        let (alive, silent, _queue) = alive_and_silent();
        let (alive, silent) = (alive.local_addr().unwrap(), silent.local_addr().unwrap());
        let begun = Instant::now();
        assert_eq!(
            connect_first(&[(None, silent), (None, alive)]).unwrap().peer_addr().unwrap(),
            alive
        );
        assert!(begun.elapsed() >= ATTEMPT_DELAY && begun.elapsed() < CONNECT_TIMEOUT);
    }

    #[test]
    fn everyone_who_fails_is_named() {
        let (_alive, silent, _queue) = alive_and_silent();
        let silent = silent.local_addr().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let why = connect_first(&[(None, closed), (None, silent)]).unwrap_err().to_string();
        assert!(why.contains(&format!("{closed}: Connection refused")), "{why}");
        assert!(why.contains(&format!("{silent}: no answer")), "{why}");
        assert!(connect_first(&[]).unwrap_err().to_string().contains("no address"));
    }

    #[test]
    fn from_an_address_of_ours() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let from = "127.0.0.9:0".parse().unwrap();
        let stream = connect_first(&[(Some(from), to)]).unwrap();
        assert_eq!(stream.local_addr().unwrap().ip(), from.ip());
        // 192.0.2.0/24 is nobody's.
        let foreign = "192.0.2.1:0".parse().unwrap();
        assert!(connect_first(&[(Some(foreign), to)]).is_err());
    }
}
