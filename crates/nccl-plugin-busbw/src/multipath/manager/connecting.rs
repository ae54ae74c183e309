//! A path that is being connected, until the other side has accepted it.
//! Not which paths are (`sender`).

use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use busbw_multipath::frame::{Answer, Hello};
use rustix::{io::Errno, net::sockopt};

use super::Connect;
use crate::multipath::sockets;

/// A path that does not come up in so long is tried again.
pub(in crate::multipath) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection that is being made.
pub(super) struct Connecting {
    pub socket: OwnedFd,
    connect: Connect,
    pub connected: bool,
    answer: [u8; Answer::BYTES],
    bytes: usize,
    pub until: Instant,
}

impl Connecting {
    /// Nothing if the system does not let us; whoever wants it is told.
    pub(super) fn begin(connect: Connect, now: Instant) -> Option<Connecting> {
        match sockets::dialing(connect.from, connect.to) {
            Ok(socket) => Some(Connecting {
                socket,
                until: now + connect.timeout,
                connect,
                connected: false,
                answer: [0; Answer::BYTES],
                bytes: 0,
            }),
            Err(error) => {
                not_connected(&connect, error);
                None
            }
        }
    }

    /// What became of it; it comes back as long as that is not known.
    pub(super) fn answered(mut self, came: bool, now: Instant) -> Option<Connecting> {
        if !came {
            if now < self.until {
                return Some(self);
            }
            // Its port can be had once more at once.
            sockets::give_up(&self.socket);
            match self.connect.whom.upgrade() {
                // A process that is held up is there: its kernel connects.
                Some(whom) if self.connected && self.connect.is_probe() => whom.probe_answered(),
                _ => not_connected(&self.connect, Errno::TIMEDOUT),
            }
            return None;
        }
        let outcome = if self.connected { self.read_answer() } else { self.send_hello(now) };
        match outcome {
            Err(error) => not_connected(&self.connect, error),
            Ok(None) => return Some(self),
            Ok(Some(answer)) => {
                let whom = self.connect.whom.upgrade()?;
                if self.connect.is_probe() {
                    whom.probe_answered();
                    return None;
                }
                match answer {
                    Answer::Accepted => whom.connected(&self.connect.hello, self.socket),
                    Answer::Gone => whom.gone(),
                    Answer::Delivered(_) => not_connected(&self.connect, Errno::PROTO),
                }
            }
        }
        None
    }

    fn send_hello(&mut self, now: Instant) -> rustix::io::Result<Option<Answer>> {
        sockopt::socket_error(&self.socket)??;
        // Where nobody listens at a port of this host, a socket that has that port itself connects to itself.
        if sockets::local(&self.socket) == Some(self.connect.to) {
            return Err(Errno::CONNREFUSED);
        }
        self.connected = true;
        self.until = now + CONNECT_TIMEOUT;
        let hello = self.connect.hello.encoded();
        match sockets::send(&self.socket, &[IoSlice::new(&hello)])? {
            Some(Hello::BYTES) => Ok(None),
            // A new connection's buffer takes them.
            _ => Err(Errno::NOBUFS),
        }
    }

    fn read_answer(&mut self) -> rustix::io::Result<Option<Answer>> {
        let rest = &mut self.answer[self.bytes..];
        match sockets::receive(&self.socket, &mut [IoSliceMut::new(rest)])? {
            Some(0) => return Err(Errno::CONNRESET),
            Some(bytes) => self.bytes += bytes,
            None => {}
        }
        if self.bytes < Answer::BYTES {
            return Ok(None);
        }
        Answer::decoded(&self.answer).map(Some).ok_or(Errno::PROTO)
    }
}

fn not_connected(connect: &Connect, error: Errno) {
    let Some(whom) = connect.whom.upgrade() else { return };
    if connect.is_probe() {
        whom.probe_unanswered(error);
    } else {
        whom.not_connected(connect.hello.path, error);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{IpAddr, Ipv4Addr},
        sync::Weak,
    };

    use super::*;
    use crate::multipath::sender;

    #[test]
    fn a_socket_that_is_connected_to_itself_is_no_path() {
        let to_itself = || {
            let (listener, to) = sockets::listening(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
            drop(listener);
            let hello = Hello { secret: [0; 16], listener: 1, path: 0, paths: 1, epoch: 0 };
            let whom: Weak<sender::Connection> = Weak::new();
            let timeout = CONNECT_TIMEOUT;
            let connect = Connect { whom, from: Some(to), to, hello, timeout };
            Connecting::begin(connect, Instant::now())
        };
        // Somebody else may have taken the port meanwhile.
        let connecting = (0..20).find_map(|_| to_itself()).unwrap();
        sockopt::socket_error(&connecting.socket).unwrap().unwrap();
        assert_eq!(sockets::local(&connecting.socket), Some(connecting.connect.to));
        assert!(connecting.answered(true, Instant::now()).is_none());
    }
}
