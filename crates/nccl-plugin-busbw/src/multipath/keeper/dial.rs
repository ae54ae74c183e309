//! A path that is being connected, until the other side has let it in.
//! Not which paths are (`sender`).

use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{io::Errno, net::sockopt};

use super::Order;
use crate::multipath::{
    frame::{Answer, Hello},
    sockets,
};

/// A path that does not come up in so long is tried again.
pub(in crate::multipath) const PATIENCE: Duration = Duration::from_secs(1);

/// A connection that is on its way.
pub(super) struct Dial {
    pub socket: OwnedFd,
    order: Order,
    pub connected: bool,
    said: [u8; Answer::BYTES],
    bytes: usize,
    pub until: Instant,
}

impl Dial {
    /// Nothing if the system does not let us; who has ordered it is told.
    pub(super) fn begin(order: Order) -> Option<Dial> {
        match sockets::dialing(order.from, order.to) {
            Ok(socket) => Some(Dial {
                socket,
                until: Instant::now() + order.patience,
                order,
                connected: false,
                said: [0; Answer::BYTES],
                bytes: 0,
            }),
            Err(error) => {
                not_reached(&order, error);
                None
            }
        }
    }

    /// What came of a dial; it comes back as long as that is not known.
    pub(super) fn answered(mut self, came: bool, now: Instant) -> Option<Dial> {
        if !came {
            if now < self.until {
                return Some(self);
            }
            // Its port can be had once more at once.
            sockets::give_up(&self.socket);
            match self.order.whom.upgrade() {
                // A process that is held up is there: its kernel connects.
                Some(whom) if self.connected && self.order.is_knock() => whom.answered(),
                _ => not_reached(&self.order, Errno::TIMEDOUT),
            }
            return None;
        }
        let outcome = if self.connected { self.listen() } else { self.greet() };
        match outcome {
            Err(error) => not_reached(&self.order, error),
            Ok(None) => return Some(self),
            Ok(Some(answer)) => {
                let whom = self.order.whom.upgrade()?;
                if self.order.is_knock() {
                    whom.answered();
                    return None;
                }
                match answer {
                    Answer::Welcome => whom.arrived(&self.order.hello, self.socket),
                    Answer::Gone => whom.gone(),
                    Answer::Delivered(_) => not_reached(&self.order, Errno::PROTO),
                }
            }
        }
        None
    }

    fn greet(&mut self) -> rustix::io::Result<Option<Answer>> {
        sockopt::socket_error(&self.socket)??;
        // Where nobody listens at a port of this host, a socket that has that port itself connects to itself.
        if sockets::local(&self.socket) == Some(self.order.to) {
            return Err(Errno::CONNREFUSED);
        }
        self.connected = true;
        self.until = Instant::now() + PATIENCE;
        let hello = self.order.hello.encoded();
        match sockets::send(&self.socket, &[IoSlice::new(&hello)])? {
            Some(Hello::BYTES) => Ok(None),
            // A new connection's buffer takes them.
            _ => Err(Errno::NOBUFS),
        }
    }

    fn listen(&mut self) -> rustix::io::Result<Option<Answer>> {
        let rest = &mut self.said[self.bytes..];
        match sockets::receive(&self.socket, &mut [IoSliceMut::new(rest)])? {
            Some(0) => return Err(Errno::CONNRESET),
            Some(bytes) => self.bytes += bytes,
            None => {}
        }
        if self.bytes < Answer::BYTES {
            return Ok(None);
        }
        Answer::decoded(&self.said).map(Some).ok_or(Errno::PROTO)
    }
}

fn not_reached(order: &Order, error: Errno) {
    let Some(whom) = order.whom.upgrade() else { return };
    if order.is_knock() {
        whom.unanswered(error);
    } else {
        whom.not_reached(order.hello.path, order.to, error);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{IpAddr, Ipv4Addr},
        sync::Weak,
    };

    use super::*;

    #[test]
    fn a_socket_that_is_connected_to_itself_is_no_path() {
        let to_itself = || {
            let (door, to) = sockets::listening(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
            drop(door);
            let hello = Hello { secret: [0; 16], listener: 1, path: 0, paths: 1, epoch: 0 };
            let whom = Weak::new();
            Dial::begin(Order { whom, from: Some(to), to, hello, patience: PATIENCE })
        };
        // Somebody else may have taken the port meanwhile.
        let dial = (0..20).find_map(|_| to_itself()).unwrap();
        sockopt::socket_error(&dial.socket).unwrap().unwrap();
        assert_eq!(sockets::local(&dial.socket), Some(dial.order.to));
        assert!(dial.answered(true, Instant::now()).is_none());
    }
}
