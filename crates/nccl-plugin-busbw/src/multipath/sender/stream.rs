//! The sending end of one path over TCP: chunks are written, acknowledgements are read.
//! Not which chunks, nor what becomes of those that are lost (`busbw_multipath::Sender`).

use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::OwnedFd,
    time::Duration,
};

use busbw_multipath::{
    Chunk, Health, Loss, Port, Time,
    frame::{Answer, Frame},
};
use rustix::io::Errno;

use crate::multipath::{memory::Outgoing, sockets};

/// A message of so many bytes is copied behind its header, which costs less than to tell the kernel of two places.
const INLINE: usize = 256;

type Io<T> = rustix::io::Result<T>;

/// A path that is up.
pub(super) struct Stream {
    pub(super) socket: OwnedFd,
    /// Bytes of `front` and of the last chunk that the kernel has taken, while it has not taken all.
    written: Option<usize>,
    /// What is being written: one chunk, several tiny ones, or none for what is no chunk.
    chunks: Vec<Chunk<Outgoing>>,
    /// Its headers, and tiny messages behind theirs.
    front: Vec<u8>,
    answer: [u8; Answer::BYTES],
    answer_bytes: usize,
}

impl Stream {
    pub(super) fn new(socket: OwnedFd) -> Stream {
        Stream {
            socket,
            written: None,
            chunks: Vec::new(),
            front: Vec::new(),
            answer: [0; Answer::BYTES],
            answer_bytes: 0,
        }
    }

    /// Whether the kernel waits for the rest of something.
    pub(super) fn is_writing(&self) -> bool {
        self.written.is_some()
    }

    /// Chunks that are not written completely.
    pub(super) fn writing(&mut self) -> &mut [Chunk<Outgoing>] {
        &mut self.chunks
    }

    /// How many of the last chunks are not written completely.
    pub(super) fn unwritten(&self) -> usize {
        let Some(written) = self.written else { return 0 };
        let mut end = 0;
        let complete = self.chunks.iter().take_while(|chunk| {
            end += Frame::BYTES + chunk.header.bytes();
            end <= written
        });
        self.chunks.len() - complete.count()
    }

    /// Writes what `next(now, chunks)` gives, until the kernel takes no more (then false) or there is nothing (then true).
    pub(super) fn write(
        &mut self,
        clock: impl Fn() -> Time,
        mut next: impl FnMut(Time, &mut Vec<Chunk<Outgoing>>),
    ) -> Io<bool> {
        let mut now = clock();
        loop {
            if self.written.is_none() {
                next(now, &mut self.chunks);
                if self.chunks.is_empty() {
                    return Ok(true);
                }
                self.front.clear();
                for Chunk { header, memory } in &self.chunks {
                    self.front.extend_from_slice(&Frame::Chunk(*header).encoded());
                    if header.bytes() <= INLINE {
                        // SAFETY: as in `go_on`.
                        self.front.extend_from_slice(unsafe { memory.bytes() });
                    }
                }
                self.written = Some(0);
            }
            let is_long = self.chunks.iter().any(|chunk| chunk.header.bytes() > INLINE);
            if !self.go_on()? {
                return Ok(false);
            }
            if is_long {
                // Tiny messages take less time than to look what time it is.
                now = clock();
            }
        }
    }

    /// Writes on. Whether everything is written.
    fn go_on(&mut self) -> Io<bool> {
        let Some(written) = &mut self.written else { return Ok(true) };
        let last = self.chunks.last().filter(|chunk| chunk.header.bytes() > INLINE);
        // SAFETY: what is not written completely is not acknowledged, so its message is not done; or it is a copy (`hedge`).
        let data = last.map_or(&[][..], |chunk| unsafe { chunk.memory.bytes() });
        let front = self.front.len();
        while *written < front + data.len() {
            let from = *written;
            let sent = if from >= front {
                sockets::send(&self.socket, &[IoSlice::new(&data[from - front..])])?
            } else if data.is_empty() {
                sockets::send(&self.socket, &[IoSlice::new(&self.front[from..])])?
            } else {
                let parts = [IoSlice::new(&self.front[from..]), IoSlice::new(data)];
                sockets::send(&self.socket, &parts)?
            };
            match sent {
                Some(bytes) => *written += bytes,
                None => return Ok(false),
            }
        }
        self.chunks.clear();
        self.written = None;
        Ok(true)
    }

    /// Asks the receiver to acknowledge, unless that waits behind a chunk that is being written anyway.
    pub(super) fn ping(&mut self) -> Io<()> {
        if self.written.is_none() {
            self.front.clear();
            self.front.extend_from_slice(&Frame::Ping.encoded());
            self.written = Some(0);
            self.go_on()?;
        }
        Ok(())
    }

    /// Reads acknowledgements, to the end of the connection where it has `ended`: how many chunks they
    /// acknowledge, if any arrived, and
    /// whether the path is still there. What was acknowledged before the end has arrived.
    pub(super) fn read(&mut self, ended: bool) -> (Option<u32>, Io<()>) {
        let mut delivered = None;
        let outcome = self.listen(ended, &mut delivered);
        (delivered, outcome)
    }

    fn listen(&mut self, ended: bool, delivered: &mut Option<u32>) -> Io<()> {
        loop {
            let mut answers = [0; 16 * Answer::BYTES];
            let Some(bytes) = sockets::receive(&self.socket, &mut [IoSliceMut::new(&mut answers)])?
            else {
                return Ok(());
            };
            if bytes == 0 {
                return Err(Errno::PIPE);
            }
            for &byte in &answers[..bytes] {
                self.answer[self.answer_bytes] = byte;
                self.answer_bytes += 1;
                if self.answer_bytes < Answer::BYTES {
                    continue;
                }
                self.answer_bytes = 0;
                match Answer::decoded(&self.answer) {
                    Some(Answer::Delivered(count)) => {
                        *delivered = Some(delivered.unwrap_or(0).saturating_add(count));
                    }
                    _ => return Err(Errno::PROTO),
                }
            }
            // Less than there was room for: nothing is left, unless it is the end.
            if bytes < answers.len() && !ended {
                return Ok(());
            }
        }
    }

    /// What the kernel knows of the connection.
    pub(super) fn health(&self) -> Health {
        let kernel = sockets::health(&self.socket).unwrap_or_default();
        let last = self.chunks.last().filter(|chunk| chunk.header.bytes() > INLINE);
        let all = self.front.len() + last.map_or(0, |chunk| chunk.header.bytes());
        let unwritten = self.written.map_or(0, |written| all - written);
        Health {
            is_in_flight: kernel.unacknowledged > 0,
            timeouts: kernel.timeouts,
            silence: kernel.silence,
            undelivered: sockets::unacknowledged(&self.socket).map(|bytes| bytes + unwritten),
            port: sockets::local(&self.socket).map(|at| Port(at.port())),
            round_trip: Duration::from_micros(kernel.rtt.into()),
        }
    }

    /// Nothing is to be sent any more, and nothing read from NCCL's memory: the socket, if the other end can still be
    /// told so; nothing in the middle of a chunk, where the connection is reset.
    pub(super) fn ended(self) -> Option<OwnedFd> {
        if self.written.is_some() {
            sockets::give_up(&self.socket);
            return None;
        }
        Some(self.socket)
    }
}

/// A path ends with this error.
pub(super) fn ended_by(error: Errno) -> Loss {
    Loss::Ended { why: error.to_string(), timed_out: error == Errno::TIMEDOUT }
}
