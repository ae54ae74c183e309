//! One path of a sender: what is in flight on it, and what is known of it while it is up or down.
//! Not which chunks it takes (`schedule`), nor when it is late or lost (`recovery`).

use std::{collections::VecDeque, time::Duration};

use super::{
    Chunk, Loss, Port,
    congestion::Window,
    schedule::{Load, Pace},
};
use crate::{
    Capabilities, Error, SETTLED_WINDOW, SMALL, Source, Time,
    frame::{Frame, Header},
};

/// A path that a connection is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathConfig {
    /// Which pair of addresses it joins: the same number, the same pair.
    pub addresses: usize,
    /// What it can do.
    pub capabilities: Capabilities,
}

/// A path, up or down.
pub(super) struct Path<M> {
    pub(super) link: Link<M>,
    pub(super) capabilities: Capabilities,
    /// Of an unreliable path.
    pub(super) window: Option<Window>,
    chunk: u32,
    pub(super) pace: Pace,
    /// How often it was connected.
    pub(super) epoch: u32,
    pub(super) counts: Counts,
}

/// What a path has done, since ever.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of chunks whose first acknowledgement came by this path.
    pub bytes: u64,
    /// Bytes of long messages, and the nanoseconds in which they were in flight.
    pub timed: (u64, u64),
    /// Chunks that were hedged over other paths, since this one was late.
    pub hedged: u64,
    /// Chunks that were requeued when it was lost.
    pub requeued: u64,
    /// How often it was lost.
    pub lost: u64,
}

pub(super) enum Link<M> {
    Up(Up<M>),
    Down(Down),
}

/// A path that is up.
pub(super) struct Up<M> {
    /// What was handed out, the oldest first.
    pub(super) flights: VecDeque<Flight<M>>,
    /// Number of the first of these, on this path.
    pub(super) first: u64,
    /// Bytes of that.
    pub(super) in_flight: usize,
    since: Time,
    /// When the last acknowledgement arrived.
    pub(super) heard: Time,
    /// When the receiver was last asked to acknowledge, if it has not answered since.
    asked: Option<Time>,
    /// Whether what is in flight was hedged over other paths.
    pub(super) is_suspected: bool,
}

/// A chunk that was handed out.
pub(super) struct Flight<M> {
    pub(super) chunk: Chunk<M>,
    pub(super) sent: Time,
    /// Whether another path has it as well.
    pub(super) is_hedged: bool,
    /// On an unreliable path: whether it was acknowledged, or requeued as lost.
    pub(super) is_over: bool,
}

/// A path that is not up.
pub(super) struct Down {
    /// When it was lost, or last tried in vain.
    pub(super) since: Time,
    /// Whether it is being connected.
    pub(super) is_connecting: bool,
    /// Since when the peer has refused it.
    pub(super) refused: Option<Time>,
    /// The source port to come back from.
    pub(super) kept: Option<Kept>,
    /// Why it was lost, until it is known that the peer has not just closed the connection.
    pub(super) loss: Option<String>,
    /// Whether it was reported that it does not come up.
    pub(super) is_reported: bool,
}

/// The source port of a path that fell silent: its link may come back, and which link it is follows from the ports.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) port: Port,
    pub(super) lost: Time,
    /// How long it may take to connect from there.
    pub(super) timeout: Duration,
}

impl Down {
    pub(super) fn since(since: Time) -> Down {
        Down {
            since,
            is_connecting: false,
            refused: None,
            kept: None,
            loss: None,
            is_reported: false,
        }
    }
}

/// The window of an unreliable path.
fn window(capabilities: Capabilities, chunk: u32) -> Window {
    if capabilities.is_placed { Window::of_device(chunk) } else { Window::new(chunk) }
}

impl<M: Source> Path<M> {
    /// One that is down, for chunks of so many bytes.
    pub(super) fn new(capabilities: Capabilities, chunk: u32, now: Time) -> Path<M> {
        let link = Link::Down(Down::since(now));
        let (pace, counts) = (Pace::default(), Counts::default());
        let window = (!capabilities.is_reliable).then(|| window(capabilities, chunk));
        Path { link, capabilities, window, chunk, pace, epoch: 0, counts }
    }

    /// It is up.
    pub(super) fn connected(&mut self, now: Time) {
        self.pace.forget();
        if let Some(old) = &mut self.window {
            *old = window(self.capabilities, self.chunk);
        }
        self.link = Link::Up(Up::new(now));
    }

    /// Chunks are handed out.
    pub(super) fn send(&mut self, chunks: &[Chunk<M>], now: Time) {
        let is_hedged = self.is_silent();
        if let Some(window) = &mut self.window {
            window.sent(now);
        }
        if let Link::Up(up) = &mut self.link {
            chunks.iter().for_each(|chunk| up.send(chunk.clone(), is_hedged, now));
        }
    }

    /// Whether it reads the caller's memory until a chunk is acknowledged, or the path lost.
    pub(super) fn holds(&self) -> bool {
        self.capabilities.is_zero_copy && self.capabilities.is_reliable
    }

    /// Whether the last that happened on an unreliable path was a retransmission timeout, after which another one may have the
    /// same chunk as well.
    pub(super) fn is_silent(&self) -> bool {
        !self.capabilities.is_placed
            && self.window.as_ref().is_some_and(|window| window.timeouts > 0)
    }

    pub(super) fn up(&mut self) -> Option<&mut Up<M>> {
        match &mut self.link {
            Link::Up(up) => Some(up),
            Link::Down(_) => None,
        }
    }

    pub(super) fn down(&mut self) -> Option<&mut Down> {
        match &mut self.link {
            Link::Up(_) => None,
            Link::Down(down) => Some(down),
        }
    }

    /// As the schedule sees it.
    pub(super) fn load(&self) -> Load {
        match &self.link {
            Link::Up(up) => {
                Load { pace: self.pace, in_flight: up.in_flight, is_open: !up.is_suspected }
            }
            Link::Down(_) => Load { pace: self.pace, in_flight: 0, is_open: false },
        }
    }

    /// Whether another chunk may be in flight.
    pub(super) fn has_window(&self) -> bool {
        let Link::Up(up) = &self.link else { return false };
        let is_open = !up.is_suspected;
        match &self.window {
            None => is_open && up.in_flight < self.pace.window(),
            Some(window) => {
                let has_number = !self.capabilities.is_placed || up.flights.len() < SETTLED_WINDOW;
                is_open && has_number && window.has_room(up.in_flight)
            }
        }
    }

    /// Bytes of a whole chunk.
    pub(super) fn chunk_bytes(&self) -> usize {
        self.chunk as usize
    }

    /// Whether it may leave now.
    pub(super) fn is_spaced(&self, now: Time) -> bool {
        self.window.as_ref().is_none_or(|window| now >= window.next_send(now))
    }

    /// Nanoseconds until everything in flight is delivered; 0 while unknown.
    pub(super) fn expected(&self) -> u64 {
        match &self.link {
            Link::Up(up) => self.pace.expected(up.in_flight),
            Link::Down(_) => 0,
        }
    }

    /// The receiver acknowledges so many more chunks, in the order in which they were handed out; `unwritten`
    /// of the last ones
    /// are not written completely. Calls `first(chunk)` for each, which says whether that is its first acknowledgement.
    pub(super) fn acknowledged(
        &mut self,
        count: u32,
        unwritten: usize,
        now: Time,
        mut first: impl FnMut(&Header) -> bool,
    ) -> Result<(), Error> {
        let Link::Up(up) = &mut self.link else { return Ok(()) };
        let written = up.flights.len().saturating_sub(unwritten);
        if count as usize > written {
            let text = format!("a path acknowledges {count} chunks, and {written} were sent");
            return Err(Error::Protocol(text));
        }
        // Bytes of long messages, and since when: small ones are acknowledged late, and the caller asks for them late.
        let (mut long, mut from) = (0, None);
        up.first += u64::from(count);
        for Flight { chunk: Chunk { header, .. }, sent, .. } in up.flights.drain(..count as usize) {
            let bytes = header.bytes();
            up.in_flight -= bytes;
            if header.total > SMALL as u64 {
                from.get_or_insert(sent.max(up.heard));
                long += bytes;
            }
            if first(&header) {
                self.counts.bytes += bytes as u64;
            }
        }
        if long >= SMALL
            && let Some(from) = from
        {
            self.pace.measured(long, now.since(from));
        }
        up.answered(now);
        Ok(())
    }
}

impl<M: Source> Up<M> {
    pub(super) fn new(now: Time) -> Up<M> {
        Up {
            flights: VecDeque::new(),
            first: 0,
            in_flight: 0,
            since: now,
            heard: now,
            asked: None,
            is_suspected: false,
        }
    }

    /// The receiver was heard of.
    pub(super) fn answered(&mut self, now: Time) {
        self.heard = now;
        self.asked = None;
        self.is_suspected = false;
    }

    /// When it came up, if nothing was heard since.
    pub(super) fn unproven(&self) -> Option<Time> {
        (self.heard == self.since).then_some(self.since)
    }

    /// Chunks at the front that are over need no place any more.
    pub(super) fn let_go(&mut self) {
        while self.flights.pop_front_if(|flight| flight.is_over).is_some() {
            self.first += 1;
        }
    }

    /// A chunk is handed out.
    pub(super) fn send(&mut self, chunk: Chunk<M>, is_hedged: bool, now: Time) {
        self.in_flight += chunk.header.bytes();
        self.flights.push_back(Flight { chunk, sent: now, is_hedged, is_over: false });
    }

    /// Since when the oldest chunk in flight has not been acknowledged, nor anything else on this path.
    pub(super) fn waiting_since(&self) -> Option<Time> {
        self.flights.front().map(|flight| flight.sent.max(self.heard))
    }

    /// Bytes of what is in flight, with headers.
    pub(super) fn framed_bytes(&self) -> usize {
        self.in_flight + self.flights.len() * Frame::BYTES
    }

    /// Whether it was asked, and has not been heard of since.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Whether it is time to ask the receiver to acknowledge what it has.
    pub(super) fn ask(&mut self, now: Time, pause: Duration) -> bool {
        let is_time = self.asked.is_none_or(|asked| now.since(asked) >= pause);
        if is_time {
            self.asked = Some(now);
        }
        is_time
    }

    /// Copies of everything in flight that is not hedged yet, for other paths. What this path has still to write,
    /// `writing`, becomes a copy: its message may be done before it is written.
    pub(super) fn hedge(&mut self, writing: &mut [Chunk<M>]) -> Vec<Chunk<M>> {
        self.is_suspected = true;
        let mut copies = Vec::new();
        for flight in self.flights.iter_mut().filter(|flight| !flight.is_hedged) {
            flight.is_hedged = true;
            flight.chunk.memory = flight.chunk.memory.copied();
            copies.push(flight.chunk.clone());
        }
        for chunk in writing {
            // What was hedged before is a copy already, and copied at no cost.
            chunk.memory = chunk.memory.copied();
        }
        copies
    }

    /// Everything in flight: this path is lost. And of each chunk whether no other path has it.
    pub(super) fn lost(self) -> impl Iterator<Item = (Chunk<M>, bool)> {
        let flights = self.flights.into_iter().filter(|flight| !flight.is_over);
        flights.map(|flight| (flight.chunk, !flight.is_hedged))
    }
}

impl Down {
    /// Why it was lost, if that is to be reported now.
    pub(super) fn reported_loss(&mut self) -> Option<String> {
        let loss = self.loss.take()?;
        self.is_reported = true;
        Some(loss)
    }
}

/// Whether a path that was lost so may find its link again from the port that it had.
pub(super) fn keeps_port(loss: &Loss) -> bool {
    match loss {
        Loss::Silent { .. } | Loss::Unreachable(_) => true,
        Loss::Ended { timed_out, .. } => *timed_out,
    }
}
