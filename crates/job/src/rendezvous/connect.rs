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
    let mut attempts = Attempts::new(routes.len(), Instant::now());
    let mut failed: Vec<String> = Vec::new();
    let mut under_way: Vec<(usize, OwnedFd)> = Vec::new();
    loop {
        let wake = match attempts.next(Instant::now()) {
            Next::Begin(route) => {
                let (from, to) = routes[route];
                match begin(from, to) {
                    Ok(socket) => under_way.push((route, socket)),
                    Err(error) => {
                        failed.push(format!("{to}: {error}"));
                        attempts.failed(route, Instant::now());
                    }
                }
                continue;
            }
            Next::GiveUp(route) => {
                under_way.retain(|(other, _)| *other != route);
                failed.push(format!("{}: no answer", routes[route].1));
                continue;
            }
            Next::Wait(wake) => wake,
            Next::Over => {
                let none = "the name resolves to no address".to_owned();
                return Err(io::Error::other(if failed.is_empty() {
                    none
                } else {
                    failed.join("; ")
                }));
            }
        };
        let pause = wake.saturating_duration_since(Instant::now());
        let pause =
            Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() };
        let mut fds: Vec<PollFd<'_>> =
            under_way.iter().map(|(_, socket)| PollFd::new(socket, PollFlags::OUT)).collect();
        match poll(&mut fds, Some(&pause)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for ((route, socket), ready) in std::mem::take(&mut under_way).into_iter().zip(ready) {
            match sockopt::socket_error(&socket)? {
                Ok(()) if ready => {
                    ioctl_fionbio(&socket, false)?;
                    return Ok(TcpStream::from(socket));
                }
                Ok(()) => under_way.push((route, socket)),
                Err(error) => {
                    failed.push(format!("{}: {}", routes[route].1, io::Error::from(error)));
                    attempts.failed(route, Instant::now());
                }
            }
        }
    }
}

/// The schedule of attempts. It knows no sockets and no clock: the caller passes the time.
#[derive(Debug)]
struct Attempts {
    /// The number of addresses, and of attempts that have started.
    routes: usize,
    begun: usize,
    /// When the next attempt starts at the latest.
    next_at: Instant,
    /// Running attempts, and the deadline of each.
    under_way: Vec<(usize, Instant)>,
}

/// The next step.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Connect to this address.
    Begin(usize),
    /// This attempt has timed out.
    GiveUp(usize),
    /// Wait until this time, or until an attempt succeeds or fails.
    Wait(Instant),
    /// All attempts have failed.
    Over,
}

impl Attempts {
    fn new(routes: usize, now: Instant) -> Attempts {
        Attempts { routes, begun: 0, next_at: now, under_way: Vec::new() }
    }

    fn next(&mut self, now: Instant) -> Next {
        if let Some(at) = self.under_way.iter().position(|(_, by)| now >= *by) {
            let (route, _) = self.under_way.remove(at);
            // The next attempt starts at once.
            self.next_at = now;
            return Next::GiveUp(route);
        }
        let is_left = self.begun < self.routes;
        if is_left && (self.under_way.is_empty() || now >= self.next_at) {
            self.next_at = now + ATTEMPT_DELAY;
            self.under_way.push((self.begun, now + CONNECT_TIMEOUT));
            self.begun += 1;
            return Next::Begin(self.begun - 1);
        }
        let next_at = is_left.then_some(self.next_at);
        let wake = self.under_way.iter().map(|(_, by)| *by).chain(next_at).min();
        wake.map_or(Next::Over, Next::Wait)
    }

    /// Records that an attempt has failed.
    fn failed(&mut self, route: usize, now: Instant) {
        self.under_way.retain(|(other, _)| *other != route);
        self.next_at = now;
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

    #[test]
    fn an_address_that_does_not_answer_costs_its_head_start() {
        let start = Instant::now();
        let mut attempts = Attempts::new(3, start);
        assert_eq!(attempts.next(start), Next::Begin(0));
        let second = start + ATTEMPT_DELAY;
        assert_eq!(attempts.next(start), Next::Wait(second));
        assert_eq!(attempts.next(second), Next::Begin(1));
        // A refused attempt costs no delay.
        let refused = second + ATTEMPT_DELAY / 2;
        attempts.failed(1, refused);
        assert_eq!(attempts.next(refused), Next::Begin(2));
        assert_eq!(attempts.next(refused), Next::Wait(start + CONNECT_TIMEOUT));
        assert_eq!(attempts.next(start + CONNECT_TIMEOUT), Next::GiveUp(0));
        assert_eq!(attempts.next(start + CONNECT_TIMEOUT), Next::Wait(refused + CONNECT_TIMEOUT));
        attempts.failed(2, start + CONNECT_TIMEOUT);
        assert_eq!(attempts.next(start + CONNECT_TIMEOUT), Next::Over);
    }

    #[test]
    fn everyone_who_fails_is_named() {
        let closed = [(); 2].map(|()| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap()
        });
        let why = connect_first(&closed.map(|to| (None, to))).unwrap_err().to_string();
        for to in closed {
            assert!(why.contains(&format!("{to}: Connection refused")), "{why}");
        }
        assert!(connect_first(&[]).unwrap_err().to_string().contains("no address"));
        let alive = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = alive.local_addr().unwrap();
        let reached = connect_first(&[(None, closed[0]), (None, to)]).unwrap();
        assert_eq!(reached.peer_addr().unwrap(), to);
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
