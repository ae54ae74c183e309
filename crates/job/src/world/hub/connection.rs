//! One rank's connection: frames are read and written in pieces, without blocking.
//! Not what they mean (`state`).

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Instant,
};

use crate::world::wire::{self, Kind};

/// Largest payload of an unauthenticated connection: a join request stays far below.
const MAX_UNAUTHENTICATED_FRAME_BYTES: usize = 1 << 20;
/// A buffer that grew beyond this is freed when it is empty.
const MAX_IDLE_BUFFER_BYTES: usize = 1 << 14;

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
    /// The received part of an incomplete frame.
    buffer: Vec<u8>,
    /// Frames to send, and how much of the first one the kernel has taken.
    unsent: VecDeque<Arc<[u8]>>,
    sent: usize,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let (buffer, unsent, since) = (Vec::new(), VecDeque::new(), Instant::now());
        Ok(Connection { stream, rank: None, done: false, since, buffer, unsent, sent: 0 })
    }

    /// Reads once what has arrived, through the scratch space `bytes`.
    ///
    /// # Errors
    /// The end of the stream, or an error of the socket.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        match self.stream.read(bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.buffer.extend_from_slice(&bytes[..read]);
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

    /// The next complete frame.
    ///
    /// # Errors
    /// Bytes that are no frame, and frames that are too long.
    pub(super) fn next(&mut self) -> io::Result<Option<(Kind, Vec<u8>)>> {
        let max_bytes = if self.rank.is_some() {
            wire::MAX_FRAME_BYTES
        } else {
            MAX_UNAUTHENTICATED_FRAME_BYTES
        };
        let next = wire::take(&mut self.buffer, max_bytes)?;
        if self.buffer.is_empty() && self.buffer.capacity() > MAX_IDLE_BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        Ok(next)
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
