//! One rank's connection: frames come and go in pieces, and nobody waits for them.
//! Not what they mean (`desk`).

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Instant,
};

use crate::world::wire::{self, Kind};

/// Largest payload before a rank has shown that it is one: what it tells of itself stays far below.
const LARGEST_OF_STRANGERS: usize = 1 << 20;
/// A buffer that grew beyond this is given back once it is empty.
const KEPT: usize = 1 << 14;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// Whose it is, once it has said so.
    pub(super) rank: Option<usize>,
    /// Whether it leaves on purpose.
    pub(super) done: bool,
    /// Since when it is there.
    pub(super) since: Instant,
    /// What came of a frame that is not whole yet.
    heard: Vec<u8>,
    /// Frames that the kernel had no room for, and how much of the first one it took.
    unsent: VecDeque<Arc<[u8]>>,
    sent: usize,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let (heard, unsent, since) = (Vec::new(), VecDeque::new(), Instant::now());
        Ok(Connection { stream, rank: None, done: false, since, heard, unsent, sent: 0 })
    }

    /// Reads once what has come, through `space`.
    ///
    /// # Errors
    /// The connection's end, or its failure.
    pub(super) fn hear(&mut self, space: &mut [u8]) -> io::Result<()> {
        match self.stream.read(space) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.heard.extend_from_slice(&space[..read]);
                Ok(())
            }
            Err(e)
                if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
            {
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    /// The next frame that has come as a whole.
    ///
    /// # Errors
    /// What is none.
    pub(super) fn next(&mut self) -> io::Result<Option<(Kind, Vec<u8>)>> {
        let largest = if self.rank.is_some() { wire::LARGEST } else { LARGEST_OF_STRANGERS };
        let next = wire::take(&mut self.heard, largest)?;
        if self.heard.is_empty() && self.heard.capacity() > KEPT {
            self.heard = Vec::new();
        }
        Ok(next)
    }

    /// Sends a frame after those that wait already; whether some of them still do. A broken connection
    /// shows when it is read.
    pub(super) fn send(&mut self, frame: Arc<[u8]>) -> bool {
        self.unsent.push_back(frame);
        self.flush()
    }

    /// Sends what waits, as far as the kernel has room; whether some of it still waits.
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
