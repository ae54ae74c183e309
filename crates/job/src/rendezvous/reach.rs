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
    let mut race = Race::new(ways.len(), Instant::now());
    let mut failed: Vec<String> = Vec::new();
    let mut under_way: Vec<(usize, OwnedFd)> = Vec::new();
    loop {
        let wake = match race.next(Instant::now()) {
            Next::Begin(way) => {
                let (from, to) = ways[way];
                match begin(from, to) {
                    Ok(socket) => under_way.push((way, socket)),
                    Err(error) => {
                        failed.push(format!("{to}: {error}"));
                        race.failed(way, Instant::now());
                    }
                }
                continue;
            }
            Next::GiveUp(way) => {
                under_way.retain(|(other, _)| *other != way);
                failed.push(format!("{}: no answer", ways[way].1));
                continue;
            }
            Next::Wait(wake) => wake,
            Next::Over => {
                let none = "the name has no address that can be tried".to_owned();
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
        for ((way, socket), ready) in std::mem::take(&mut under_way).into_iter().zip(ready) {
            match sockopt::socket_error(&socket)? {
                Ok(()) if ready => {
                    ioctl_fionbio(&socket, false)?;
                    return Ok(TcpStream::from(socket));
                }
                Ok(()) => under_way.push((way, socket)),
                Err(error) => {
                    failed.push(format!("{}: {}", ways[way].1, io::Error::from(error)));
                    race.failed(way, Instant::now());
                }
            }
        }
    }
}

/// Which address is tried when. It knows no sockets and no clock: the caller says what the time is.
#[derive(Debug)]
struct Race {
    /// How many addresses there are, and how many of them have been begun.
    ways: usize,
    begun: usize,
    /// When the next one begins, whatever the others do.
    next_at: Instant,
    /// Those under way, and when each is given up.
    under_way: Vec<(usize, Instant)>,
}

/// What there is to do.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Connect to this address.
    Begin(usize),
    /// This address has not answered in time.
    GiveUp(usize),
    /// Nothing before this time, unless an address answers or fails.
    Wait(Instant),
    /// No address is left.
    Over,
}

impl Race {
    fn new(ways: usize, now: Instant) -> Race {
        Race { ways, begun: 0, next_at: now, under_way: Vec::new() }
    }

    fn next(&mut self, now: Instant) -> Next {
        if let Some(at) = self.under_way.iter().position(|(_, by)| now >= *by) {
            let (way, _) = self.under_way.remove(at);
            // Whoever comes next need not wait any longer.
            self.next_at = now;
            return Next::GiveUp(way);
        }
        let is_left = self.begun < self.ways;
        if is_left && (self.under_way.is_empty() || now >= self.next_at) {
            self.next_at = now + HEAD_START;
            self.under_way.push((self.begun, now + ANSWER));
            self.begun += 1;
            return Next::Begin(self.begun - 1);
        }
        let next_at = is_left.then_some(self.next_at);
        let wake = self.under_way.iter().map(|(_, by)| *by).chain(next_at).min();
        wake.map_or(Next::Over, Next::Wait)
    }

    /// An address cannot be reached.
    fn failed(&mut self, way: usize, now: Instant) {
        self.under_way.retain(|(other, _)| *other != way);
        self.next_at = now;
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

    #[test]
    fn an_address_that_does_not_answer_costs_its_head_start() {
        let start = Instant::now();
        let mut race = Race::new(3, start);
        assert_eq!(race.next(start), Next::Begin(0));
        let second = start + HEAD_START;
        assert_eq!(race.next(start), Next::Wait(second));
        assert_eq!(race.next(second), Next::Begin(1));
        // One that is refused costs nothing.
        let refused = second + HEAD_START / 2;
        race.failed(1, refused);
        assert_eq!(race.next(refused), Next::Begin(2));
        assert_eq!(race.next(refused), Next::Wait(start + ANSWER));
        assert_eq!(race.next(start + ANSWER), Next::GiveUp(0));
        assert_eq!(race.next(start + ANSWER), Next::Wait(refused + ANSWER));
        race.failed(2, start + ANSWER);
        assert_eq!(race.next(start + ANSWER), Next::Over);
    }

    #[test]
    fn everyone_who_fails_is_named() {
        let closed = [(); 2].map(|()| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap()
        });
        let why = first(&closed.map(|to| (None, to))).unwrap_err().to_string();
        for to in closed {
            assert!(why.contains(&format!("{to}: Connection refused")), "{why}");
        }
        assert!(first(&[]).unwrap_err().to_string().contains("no address"));
        let alive = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = alive.local_addr().unwrap();
        let reached = first(&[(None, closed[0]), (None, to)]).unwrap();
        assert_eq!(reached.peer_addr().unwrap(), to);
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
