//! Reaching somebody who has several addresses, of which some may be dead: each gets a head start over the
//! next one, and whichever answers first is taken (RFC 8305). Not which addresses those are.

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

/// Head start of an address over the next one.
const HEAD_START: Duration = Duration::from_millis(250);
/// How long one address may take.
const ANSWER: Duration = Duration::from_secs(2);

/// Connects to whichever of these answers first, each from the address beside it, if one is given.
///
/// # Errors
/// What every one of them said.
pub(super) fn first(ways: &[(Option<SocketAddr>, SocketAddr)]) -> io::Result<TcpStream> {
    let mut failed: Vec<String> = Vec::new();
    let mut under_way: Vec<(OwnedFd, SocketAddr, Instant)> = Vec::new();
    let mut left = ways.iter();
    let mut next_at = Instant::now();
    loop {
        let now = Instant::now();
        if under_way.is_empty() || now >= next_at {
            match left.next() {
                Some((from, to)) => {
                    next_at = now + HEAD_START;
                    match begin(*from, *to) {
                        Ok(socket) => under_way.push((socket, *to, now + ANSWER)),
                        Err(error) => failed.push(format!("{to}: {error}")),
                    }
                }
                None if under_way.is_empty() => {
                    let none = "the name has no address that can be tried".to_owned();
                    return Err(io::Error::other(if failed.is_empty() {
                        none
                    } else {
                        failed.join("; ")
                    }));
                }
                None => next_at = now + ANSWER,
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
            // Whoever comes next need not wait any longer.
            next_at = now;
        }
    }
}

/// Starts to connect.
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

    /// A listener, and an address that answers nobody: its queue is full.
    fn alive_and_deaf() -> (TcpListener, TcpListener, Vec<TcpStream>) {
        let alive = TcpListener::bind("127.0.0.1:0").unwrap();
        let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&deaf, 0).unwrap();
        let address = deaf.local_addr().unwrap();
        let limit = Duration::from_millis(50);
        let queue =
            (0..8).map_while(|_| TcpStream::connect_timeout(&address, limit).ok()).collect();
        (alive, deaf, queue)
    }

    #[test]
    fn an_address_that_does_not_answer_costs_its_head_start() {
        let (alive, deaf, _queue) = alive_and_deaf();
        let (alive, deaf) = (alive.local_addr().unwrap(), deaf.local_addr().unwrap());
        let begun = Instant::now();
        assert_eq!(first(&[(None, deaf), (None, alive)]).unwrap().peer_addr().unwrap(), alive);
        assert!(begun.elapsed() >= HEAD_START && begun.elapsed() < ANSWER);
    }

    #[test]
    fn everyone_who_fails_is_named() {
        let (_alive, deaf, _queue) = alive_and_deaf();
        let deaf = deaf.local_addr().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let why = first(&[(None, closed), (None, deaf)]).unwrap_err().to_string();
        assert!(why.contains(&format!("{closed}: Connection refused")), "{why}");
        assert!(why.contains(&format!("{deaf}: no answer")), "{why}");
        assert!(first(&[]).unwrap_err().to_string().contains("no address"));
    }

    #[test]
    fn from_an_address_of_ours() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let from = "127.0.0.9:0".parse().unwrap();
        let stream = first(&[(Some(from), to)]).unwrap();
        assert_eq!(stream.local_addr().unwrap().ip(), from.ip());
        // 192.0.2.0/24 is nobody's.
        let foreign = "192.0.2.1:0".parse().unwrap();
        assert!(first(&[(Some(foreign), to)]).is_err());
    }
}
