//! The sending end of one path: pieces go out, acknowledgements come back, in the same order.
//! Not which pieces (`choice`), nor what becomes of those that are lost (`sender`).

use std::{
    collections::VecDeque,
    io::{IoSlice, IoSliceMut},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::io::Errno;

use super::{choice::Load, queue::Piece};
use crate::multipath::{
    frame::{Answer, Chunk, Header},
    sockets,
};

/// Between two questions for acknowledgements.
const ASK_AGAIN: Duration = Duration::from_secs(1);

type Io<T> = rustix::io::Result<T>;

/// A path that is up.
pub(super) struct Live {
    pub(super) socket: OwnedFd,
    flying: VecDeque<Flying>,
    /// Bytes in `flying` and in `writing`.
    bytes: usize,
    writing: Option<Writing>,
    said: [u8; Answer::BYTES],
    said_bytes: usize,
    /// When the last acknowledgement came.
    heard: Instant,
    asked: Option<Instant>,
    /// Whether what is on its way was given to other paths as well.
    pub(super) doubted: bool,
}

/// A piece of which the kernel has everything.
struct Flying {
    piece: Piece,
    sent: Instant,
    /// Whether another path has it as well.
    doubled: bool,
}

/// What the kernel has not taken completely yet.
struct Writing {
    header: [u8; Header::BYTES],
    piece: Option<Piece>,
    written: usize,
    begun: Instant,
    doubled: bool,
}

impl Live {
    pub(super) fn new(socket: OwnedFd, now: Instant) -> Live {
        Live {
            socket,
            flying: VecDeque::new(),
            bytes: 0,
            writing: None,
            said: [0; Answer::BYTES],
            said_bytes: 0,
            heard: now,
            asked: None,
            doubted: false,
        }
    }

    /// Whether the kernel waits for the rest of something.
    pub(super) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// When the oldest piece on its way left, and when the last acknowledgement came.
    pub(super) fn since(&self) -> Option<(Instant, Instant)> {
        let oldest = self.flying.front().map(|flying| flying.sent);
        oldest
            .or(self.writing.as_ref().map(|writing| writing.begun))
            .map(|oldest| (oldest, self.heard))
    }

    /// Sends what `next(whether there is room for more than what is urgent)` gives, until the kernel takes no
    /// more (then false) or there is nothing (then true).
    pub(super) fn write(
        &mut self,
        load: &Load,
        mut next: impl FnMut(bool) -> Option<Piece>,
    ) -> Io<bool> {
        loop {
            if self.writing.is_none() {
                let Some(piece) = next(self.bytes < load.window()) else {
                    return Ok(true);
                };
                self.bytes += piece.length();
                load.set_queued(self.bytes);
                self.begin(Header::Chunk(piece.chunk), Some(piece));
            }
            if !self.go_on()? {
                return Ok(false);
            }
        }
    }

    fn begin(&mut self, header: Header, piece: Option<Piece>) {
        let header = header.encoded();
        let begun = Instant::now();
        self.writing = Some(Writing { header, piece, written: 0, begun, doubled: false });
    }

    /// Writes on. Whether everything is written.
    fn go_on(&mut self) -> Io<bool> {
        while let Some(writing) = &mut self.writing {
            // SAFETY: the message is not done: this piece has not come, or it is a copy (`double`).
            let data = writing.piece.as_ref().map_or(&[][..], |piece| unsafe { piece.slice() });
            let all = Header::BYTES + data.len();
            while writing.written < all {
                let from = writing.written;
                let sent = if from < Header::BYTES {
                    let parts = [IoSlice::new(&writing.header[from..]), IoSlice::new(data)];
                    sockets::send(&self.socket, &parts)?
                } else {
                    sockets::send(&self.socket, &[IoSlice::new(&data[from - Header::BYTES..])])?
                };
                match sent {
                    Some(bytes) => writing.written += bytes,
                    None => return Ok(false),
                }
            }
            let Writing { piece, begun, doubled, .. } = self.writing.take().ok_or(Errno::INVAL)?;
            if let Some(piece) = piece {
                self.flying.push_back(Flying { piece, sent: begun, doubled });
            }
        }
        Ok(true)
    }

    /// Asks for acknowledgements, every so often until one comes. Whether it was time to.
    pub(super) fn ask(&mut self, now: Instant) -> Io<bool> {
        if self.asked.is_some_and(|asked| now.saturating_duration_since(asked) < ASK_AGAIN) {
            return Ok(false);
        }
        self.asked = Some(now);
        if self.writing.is_none() {
            self.begin(Header::Ping, None);
            self.go_on()?;
        }
        Ok(true)
    }

    /// Reads acknowledgements, and tells which chunks have come. Whether any has.
    ///
    /// # Errors
    /// When the path has ended, or says what cannot be.
    pub(super) fn read(&mut self, load: &Load, mut came: impl FnMut(&Chunk)) -> Io<bool> {
        let mut delivered = 0;
        let outcome = self.listen(&mut delivered);
        // What was acknowledged before the end has come.
        if delivered > 0 {
            self.delivered(delivered, load, &mut came)?;
        }
        outcome.map(|()| delivered > 0)
    }

    /// Reads until nothing is there, and counts what was delivered.
    fn listen(&mut self, delivered: &mut u32) -> Io<()> {
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
                self.said[self.said_bytes] = byte;
                self.said_bytes += 1;
                if self.said_bytes < Answer::BYTES {
                    continue;
                }
                self.said_bytes = 0;
                match Answer::decoded(&self.said) {
                    Some(Answer::Delivered(count)) => *delivered = delivered.saturating_add(count),
                    _ => return Err(Errno::PROTO),
                }
            }
        }
    }

    fn delivered(&mut self, count: u32, load: &Load, came: &mut impl FnMut(&Chunk)) -> Io<()> {
        let now = Instant::now();
        let mut bytes = 0;
        let mut from = None;
        for _ in 0..count {
            let flying = self.flying.pop_front().ok_or(Errno::PROTO)?;
            from.get_or_insert(flying.sent.max(self.heard));
            bytes += flying.piece.length();
            came(&flying.piece.chunk);
        }
        self.bytes -= bytes;
        load.set_queued(self.bytes);
        // Small ones are acknowledged late.
        if bytes >= super::SMALL
            && let Some(from) = from
        {
            let took = now.saturating_duration_since(from).as_nanos();
            load.measured(bytes, u64::try_from(took).unwrap_or(u64::MAX));
        }
        self.heard = now;
        self.asked = None;
        self.doubted = false;
        Ok(())
    }

    /// Copies of everything on its way, for other paths; what this one still has to read is a copy then, too.
    pub(super) fn double(&mut self) -> Vec<Piece> {
        self.doubted = true;
        let mut copies = Vec::new();
        for flying in self.flying.iter_mut().filter(|flying| !flying.doubled) {
            // SAFETY: it has not come, so its message is not done.
            copies.push(unsafe { flying.piece.copied() });
            flying.doubled = true;
        }
        if let Some(writing) = &mut self.writing
            && let Some(piece) = &mut writing.piece
            && !writing.doubled
        {
            // SAFETY: as above.
            *piece = unsafe { piece.copied() };
            copies.push(piece.clone());
            writing.doubled = true;
        }
        copies
    }

    /// Everything on its way that no other path has: this one is lost.
    pub(super) fn lost(self) -> Vec<Piece> {
        sockets::reset_at_close(&self.socket);
        let writing = self.writing.filter(|writing| !writing.doubled);
        let flying = self.flying.into_iter().filter(|flying| !flying.doubled);
        flying.map(|flying| flying.piece).chain(writing.and_then(|writing| writing.piece)).collect()
    }

    /// Nothing is to be sent any more, and nothing read from NCCL's memory: the socket, if the other end can still be
    /// told so; nothing in the middle of a chunk, where the connection is reset.
    pub(super) fn ended(self) -> Option<OwnedFd> {
        if self.writing.is_some() {
            sockets::reset_at_close(&self.socket);
            return None;
        }
        Some(self.socket)
    }
}
