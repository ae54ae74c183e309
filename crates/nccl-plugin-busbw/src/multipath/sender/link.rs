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

/// A message of so many bytes is copied behind its header, which costs less than to tell the kernel of two places.
pub(super) const TINY: usize = 256;
/// So many of such messages leave together, at most: each call to the kernel costs more than they do.
pub(super) const TOGETHER: usize = 16;
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
    /// What that is of: one piece, several tiny ones, or none for what is no chunk.
    pieces: Vec<Piece>,
    /// Its headers, and tiny messages behind theirs.
    front: Vec<u8>,
    said: [u8; Answer::BYTES],
    said_bytes: usize,
    came: Instant,
    /// When the other end was last heard of.
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

/// What the kernel has not taken completely yet: `Live::front`, and behind that the last piece's bytes unless they are
/// in there.
struct Writing {
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
            pieces: Vec::new(),
            front: Vec::new(),
            said: [0; Answer::BYTES],
            said_bytes: 0,
            came: now,
            heard: now,
            asked: None,
            doubted: false,
        }
    }

    /// When it came up, if nothing was heard since.
    pub(super) fn unproved(&self) -> Option<Instant> {
        (self.heard == self.came).then_some(self.came)
    }

    /// Whether the other end's kernel has anything of the chunks that are on their way; nothing where none is, or where
    /// ours does not say.
    pub(super) fn passes(&self) -> Option<bool> {
        self.since()?;
        let flying = self.flying.iter().map(|flying| Header::BYTES + flying.piece.length());
        let given =
            flying.sum::<usize>() + self.writing.as_ref().map_or(0, |writing| writing.written);
        Some(sockets::unacknowledged(&self.socket)? < given)
    }

    /// Whether it was asked, and has not been heard of since.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
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

    /// Sends what `fill(whether there is room, pieces)` gives, until the kernel takes no more (then false) or there is
    /// nothing (then true).
    pub(super) fn write(
        &mut self,
        load: &Load,
        mut fill: impl FnMut(bool, &mut Vec<Piece>),
    ) -> Io<bool> {
        loop {
            if self.writing.is_none() {
                fill(self.bytes < load.window(), &mut self.pieces);
                if self.pieces.is_empty() {
                    return Ok(true);
                }
                self.front.clear();
                for piece in &self.pieces {
                    self.bytes += piece.length();
                    self.front.extend_from_slice(&Header::Chunk(piece.chunk).encoded());
                    if piece.length() <= TINY {
                        // SAFETY: as in `go_on`.
                        self.front.extend_from_slice(unsafe { piece.slice() });
                    }
                }
                self.begin();
                load.set_queued(self.bytes);
            }
            if !self.go_on()? {
                return Ok(false);
            }
        }
    }

    fn begin(&mut self) {
        self.writing = Some(Writing { written: 0, begun: Instant::now(), doubled: false });
    }

    /// Writes on. Whether everything is written.
    fn go_on(&mut self) -> Io<bool> {
        while let Some(writing) = &mut self.writing {
            let last = self.pieces.last().filter(|piece| piece.length() > TINY);
            // SAFETY: the message is not done: this piece has not come, or it is a copy (`double`).
            let data = last.map_or(&[][..], |piece| unsafe { piece.slice() });
            let front = self.front.len();
            while writing.written < front + data.len() {
                let from = writing.written;
                let sent = if from >= front {
                    sockets::send(&self.socket, &[IoSlice::new(&data[from - front..])])?
                } else if data.is_empty() {
                    sockets::send(&self.socket, &[IoSlice::new(&self.front[from..])])?
                } else {
                    let parts = [IoSlice::new(&self.front[from..]), IoSlice::new(data)];
                    sockets::send(&self.socket, &parts)?
                };
                match sent {
                    Some(bytes) => writing.written += bytes,
                    None => return Ok(false),
                }
            }
            let Writing { begun: sent, doubled, .. } = *writing;
            let flying = self.pieces.drain(..).map(|piece| Flying { piece, sent, doubled });
            self.flying.extend(flying);
            self.writing = None;
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
            self.front.clear();
            self.front.extend_from_slice(&Header::Ping.encoded());
            self.begin();
            self.go_on()?;
        }
        Ok(true)
    }

    /// Reads acknowledgements, to the end if there is one, and tells which chunks have come. Whether the other end has
    /// said anything.
    ///
    /// # Errors
    /// When the path has ended, or says what cannot be.
    pub(super) fn read(
        &mut self,
        load: &Load,
        ended: bool,
        mut came: impl FnMut(&Chunk),
    ) -> Io<bool> {
        let mut delivered = None;
        let outcome = self.listen(ended, &mut delivered);
        // What was acknowledged before the end has come.
        if let Some(count) = delivered {
            self.delivered(count, load, &mut came)?;
        }
        outcome.map(|()| delivered.is_some())
    }

    /// Reads until nothing is there, and counts what was delivered.
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
                self.said[self.said_bytes] = byte;
                self.said_bytes += 1;
                if self.said_bytes < Answer::BYTES {
                    continue;
                }
                self.said_bytes = 0;
                match Answer::decoded(&self.said) {
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

    fn delivered(&mut self, count: u32, load: &Load, came: &mut impl FnMut(&Chunk)) -> Io<()> {
        let now = Instant::now();
        // Bytes of long messages, and since when: small ones are acknowledged late, and the caller asks for them late.
        let (mut long, mut from) = (0, None);
        for _ in 0..count {
            let flying = self.flying.pop_front().ok_or(Errno::PROTO)?;
            let bytes = flying.piece.length();
            self.bytes -= bytes;
            if flying.piece.chunk.total > super::SMALL as u64 {
                from.get_or_insert(flying.sent.max(self.heard));
                long += bytes;
            }
            came(&flying.piece.chunk);
        }
        load.set_queued(self.bytes);
        if long >= super::SMALL
            && let Some(from) = from
        {
            let took = now.saturating_duration_since(from).as_nanos();
            load.measured(long, u64::try_from(took).unwrap_or(u64::MAX));
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
        if let Some(writing) = self.writing.as_mut().filter(|writing| !writing.doubled) {
            for piece in &mut self.pieces {
                // SAFETY: as above.
                *piece = unsafe { piece.copied() };
                copies.push(piece.clone());
            }
            writing.doubled = true;
        }
        copies
    }

    /// Everything on its way that no other path has: this one is lost. And its socket, to be closed.
    pub(super) fn lost(self) -> (Vec<Piece>, OwnedFd) {
        sockets::give_up(&self.socket);
        let flying = self.flying.into_iter().filter(|flying| !flying.doubled);
        let mut pieces: Vec<Piece> = flying.map(|flying| flying.piece).collect();
        if self.writing.is_some_and(|writing| !writing.doubled) {
            pieces.extend(self.pieces);
        }
        (pieces, self.socket)
    }

    /// Nothing is to be sent any more, and nothing read from NCCL's memory: the socket, if the other end can still be
    /// told so; nothing in the middle of a chunk, where the connection is reset.
    pub(super) fn ended(self) -> Option<OwnedFd> {
        if self.writing.is_some() {
            sockets::give_up(&self.socket);
            return None;
        }
        Some(self.socket)
    }
}
