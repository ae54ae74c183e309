//! The end of a connection that sends: messages in chunks over many paths.
//! Not writing them, nor connecting paths: it says what is to be written and connected.

mod actions;
mod congestion;
mod datagram;
mod messages;
mod path;
mod reconnect;
mod recovery;
mod schedule;
mod settled;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use self::{
    actions::{Action, ConnectError, End, Health, Loss, Notice, Port, State},
    path::{Counts, PathConfig},
};
use self::{
    messages::Messages,
    path::{Link, Path},
    recovery::Probes,
};
use crate::{Capabilities, Error, Request, Source, Time, frame::Header};

/// A message of so many bytes leaves together with others.
const TINY: usize = 256;
/// So many of such messages leave together, at most: each call to the kernel costs more than they do.
const TINY_TOGETHER: usize = 16;

/// A part of a message, to be sent by one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk<M> {
    /// Where it belongs.
    pub header: Header,
    /// Its bytes.
    pub memory: M,
}

/// The sending end of a connection.
///
/// Whoever drives it writes what [`next`](Sender::next) gives to a path, reports what happens to paths, and calls
/// [`check_late`](Sender::check_late) and [`check_paths`](Sender::check_paths) as time passes.
pub struct Sender<M> {
    messages: Messages<M>,
    paths: Box<[Path<M>]>,
    /// Paths that are up.
    up: usize,
    /// Since when none is.
    down_since: Time,
    end: Option<End>,
    began: Time,
    /// When the last acknowledgement arrived on any path.
    heard: Time,
    /// When a path was lost that had delivered nothing of a chunk, if none has delivered since.
    blackholed: Option<Time>,
    probes: Probes,
    /// Bytes of a chunk of a long message.
    chunk: u32,
}

impl<M: Source> Sender<M> {
    /// A connection over TCP of as many paths as `groups` has entries, all down. Paths with the same number
    /// there join the same two
    /// addresses. Chunks have `chunk` bytes.
    #[must_use]
    pub fn new(groups: Vec<usize>, chunk: u32, now: Time) -> Sender<M> {
        let stream = |addresses| PathConfig { addresses, capabilities: Capabilities::STREAM };
        Sender::over(groups.into_iter().map(stream).collect(), chunk, now)
    }

    /// A connection over these paths, all down. Chunks have `chunk` bytes, or as many as every path takes.
    #[must_use]
    pub fn over(paths: Vec<PathConfig>, chunk: u32, now: Time) -> Sender<M> {
        let most = paths.iter().map(|path| path.capabilities.max_chunk).min();
        let chunk = most.map_or(chunk, |most| chunk.min(most)).max(1);
        let groups = paths.iter().map(|path| path.addresses).collect();
        Sender {
            messages: Messages::default(),
            paths: paths.iter().map(|path| Path::new(path.capabilities, chunk, now)).collect(),
            up: 0,
            down_since: now,
            end: None,
            began: now,
            heard: now,
            blackholed: None,
            probes: Probes::new(groups),
            chunk,
        }
    }

    // What the caller begins, and what becomes of it.

    /// Whether a small message of so many bytes may be sent now; what is not acknowledged is bounded.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.messages.has_room(bytes)
    }

    /// A small message whose bytes are a copy: it is done for the caller.
    pub fn push_copy(&mut self, copy: M, bytes: usize) {
        self.messages.push_copy(copy, bytes, self.chunk);
    }

    /// A longer message: its memory stays until it is done.
    pub fn push(&mut self, memory: M, bytes: usize, request: Request) {
        self.messages.push(memory, bytes, self.chunk, request);
    }

    /// Whether everything is acknowledged.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.messages.is_empty()
    }

    /// Small messages that are not acknowledged.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.messages.copies()
    }

    /// Whether a message that is not done is read from memory at these addresses.
    #[must_use]
    pub fn reads(&self, addresses: &Range<usize>) -> bool {
        self.messages.reads(addresses)
    }

    /// Why the connection has ended, if it has.
    #[must_use]
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// The caller does not want the connection any more. Nothing of its memory is handed out again.
    pub fn abort(&mut self) {
        self.finish(End::Closed);
        self.messages = Messages::default();
    }

    /// The peer has no such connection any more.
    pub fn gone(&mut self) {
        self.finish(End::ClosedByPeer);
    }

    fn finish(&mut self, end: End) {
        if matches!(end, End::Closed | End::ClosedByPeer) {
            self.forget_losses();
        }
        self.end.get_or_insert(end);
    }

    // Paths.

    /// Number of paths, up or down.
    #[must_use]
    pub fn paths(&self) -> usize {
        self.paths.len()
    }

    /// Paths that are up.
    #[must_use]
    pub fn paths_up(&self) -> usize {
        self.up
    }

    /// Whether anything waits for a path; and whether that must leave before everything else.
    #[must_use]
    pub fn work(&self) -> (bool, bool) {
        (self.messages.has_work(), self.messages.is_urgent())
    }

    /// Whether another chunk may be in flight on a path.
    #[must_use]
    pub fn has_window(&self, path: usize) -> bool {
        self.paths[path].has_window() && self.may_begin(path)
    }

    /// Appends what a path is to write next: one chunk, or tiny messages that leave together. Nothing where
    /// it has no room or
    /// nothing is left for it. Everything that it was given before is written.
    pub fn next(&mut self, path: usize, now: Time, chunks: &mut Vec<Chunk<M>>) {
        let has_room = self.has_window(path) && self.paths[path].is_spaced(now);
        let Sender { messages, paths, .. } = self;
        if !matches!(&paths[path].link, Link::Up(up) if !up.is_suspected) {
            return;
        }
        if !has_room && !paths[path].capabilities.is_reliable {
            return;
        }
        let first = messages.take_urgent(usize::MAX).or_else(|| {
            if !has_room {
                return None;
            }
            messages.take(|bytes, waiting| {
                schedule::skipped(paths.iter().map(Path::load), path, bytes, waiting)
            })
        });
        let Some(first) = first else { return };
        let begin = chunks.len();
        let is_tiny = first.header.bytes() <= TINY;
        chunks.push(first);
        while is_tiny
            && paths[path].capabilities.is_reliable
            && chunks.len() - begin < TINY_TOGETHER
            && let Some(chunk) = messages.take_urgent(TINY)
        {
            chunks.push(chunk);
        }
        if paths[path].holds() {
            chunks[begin..].iter().for_each(|chunk| messages.hold(&chunk.header));
        }
        if paths[path].is_silent() {
            // It only shows whether the path is back: another one has the chunk as well.
            messages.requeue(chunks[begin..].iter().cloned());
        }
        paths[path].send(&chunks[begin..], now);
    }

    /// The receiver acknowledges so many more chunks of a path, in the order in which they were handed out.
    /// The last `unwritten` of these are not
    /// written completely. Calls `done(request, bytes)` for each message that is complete so.
    ///
    /// # Errors
    /// When it acknowledges what was not sent: the path is to be given up.
    pub fn acknowledged(
        &mut self,
        path: usize,
        count: u32,
        unwritten: usize,
        now: Time,
        mut done: impl FnMut(Request, usize),
    ) -> Result<(), Error> {
        let Sender { messages, paths, .. } = self;
        let is_held = paths[path].holds();
        paths[path].acknowledged(count, unwritten, now, |chunk| {
            let is_first = messages.acknowledged(chunk, &mut done);
            if is_held {
                messages.release(chunk, &mut done);
            }
            is_first
        })?;
        if count > 0 {
            self.blackholed = None;
        }
        self.probes.answered();
        self.heard = now;
        Ok(())
    }

    // What paths have done.

    /// Counters of a path.
    #[must_use]
    pub fn counts(&self, path: usize) -> Counts {
        let Path { counts, pace, link, .. } = &self.paths[path];
        let is_lost =
            matches!(link, Link::Down(down) if down.loss.is_some() && down.refused.is_none());
        Counts { timed: pace.all_measured(), lost: counts.lost + u64::from(is_lost), ..*counts }
    }

    /// The state of a path.
    #[must_use]
    pub fn state(&self, path: usize) -> State {
        match &self.paths[path].link {
            Link::Up(up) if up.is_suspected => State::Suspected,
            Link::Up(_) => State::Up,
            Link::Down(_) => State::Down,
        }
    }

    /// Bytes in flight on a path.
    #[must_use]
    pub fn in_flight(&self, path: usize) -> usize {
        match &self.paths[path].link {
            Link::Up(up) => up.in_flight,
            Link::Down(_) => 0,
        }
    }
}
