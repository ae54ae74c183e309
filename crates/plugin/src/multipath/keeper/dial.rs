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

/// A path that does not come up in so long is tried again; before it is connected, one that has been up before.
const PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE_AGAIN: Duration = Duration::from_millis(250);

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
        let again = order.from.is_some_and(|from| from.port() > 0);
        let patience = if again { PATIENCE_AGAIN } else { PATIENCE };
        match sockets::dialing(order.from, order.to) {
            Ok(socket) => Some(Dial {
                socket,
                order,
                connected: false,
                said: [0; Answer::BYTES],
                bytes: 0,
                until: Instant::now() + patience,
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
            not_reached(&self.order, Errno::TIMEDOUT);
            return None;
        }
        let outcome = if self.connected { self.listen() } else { self.greet() };
        match outcome {
            Err(error) => not_reached(&self.order, error),
            Ok(None) => return Some(self),
            Ok(Some(answer)) => {
                let whom = self.order.whom.upgrade()?;
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
    if let Some(whom) = order.whom.upgrade() {
        whom.not_reached(order.hello.path, order.to, error);
    }
}
