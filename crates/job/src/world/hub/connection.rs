//! One rank's connection: frames are sent in pieces, without blocking.
//! Not what they mean (`state`).

use std::{
    collections::VecDeque,
    io::{self, Write},
    net::TcpStream,
    sync::Arc,
    time::Instant,
};

use crate::frame::{FrameReader, Peer};

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// Its rank, once it has joined.
    pub(super) rank: Option<usize>,
    /// Whether it has announced that it leaves.
    pub(super) done: bool,
    /// When it was accepted.
    pub(super) since: Instant,
    pub(super) reader: FrameReader,
    /// Frames to send, and how much of the first one the kernel has taken.
    unsent: VecDeque<Arc<[u8]>>,
    sent: usize,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let (reader, unsent, since) = (FrameReader::default(), VecDeque::new(), Instant::now());
        Ok(Connection { stream, rank: None, done: false, since, reader, unsent, sent: 0 })
    }

    /// Whose frames arrive: a rank that has joined has shown the token.
    pub(super) fn peer(&self) -> Peer {
        if self.rank.is_some() { Peer::Authenticated } else { Peer::Unauthenticated }
    }

    /// Queues a frame and sends what the kernel takes; true if something is left. A broken connection shows when it
    /// is read.
    pub(super) fn send(&mut self, frame: Arc<[u8]>) -> bool {
        self.unsent.push_back(frame);
        self.flush()
    }

    /// Sends what the kernel takes; true if something is left.
    pub(super) fn flush(&mut self) -> bool {
        while let Some(frame) = self.unsent.front() {
            match self.stream.write(&frame[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                Err(_) => {
                    self.unsent.clear();
                    self.sent = 0;
                    return false;
                }
            }
            if self.unsent.front().is_some_and(|frame| self.sent == frame.len()) {
                self.unsent.pop_front();
                self.sent = 0;
            }
        }
        false
    }
}
