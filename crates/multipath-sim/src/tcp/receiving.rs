//! One direction of a connection at the end that receives: what has arrived, what is acknowledged when, and the window.
//! Not the bytes themselves (`content`).

use std::time::Duration;

use busbw_multipath::Time;

use super::Settings;
use crate::packet::{Sacks, Segment};

/// A delayed acknowledgement waits so long (Linux: 40 ms at least).
const DELAY: Duration = Duration::from_millis(40);
/// Segments that are acknowledged at once at first (TCP_MAX_QUICKACKS).
const QUICK: u32 = 16;

#[derive(Debug)]
pub(super) struct Receiving {
    segment: u64,
    /// Everything before this has arrived, and was read.
    pub(super) next: u64,
    pub(super) read: u64,
    /// Where the stream ends, once that is known.
    pub(super) end: Option<u64>,
    /// What has arrived behind a gap, in order.
    early: Vec<(u64, u64)>,
    /// The newest of these, which are reported first.
    newest: Sacks,
    /// Bytes that may wait to be read; grows while they are read soon.
    capacity: u64,
    most: u64,
    read_lately: u64,
    /// What the peer was told it may send up to.
    promised: u64,
    unacknowledged: u64,
    quick: u32,
    pub(super) is_due: bool,
    pub(super) due_at: Option<Time>,
}

impl Receiving {
    pub(super) fn new(settings: &Settings) -> Receiving {
        let (first, most) = settings.receive_buffer;
        Receiving {
            segment: (settings.mtu - super::HEADERS).into(),
            next: 0,
            read: 0,
            end: None,
            early: Vec::new(),
            newest: [(0, 0); 3],
            capacity: first,
            most,
            read_lately: 0,
            promised: first,
            unacknowledged: 0,
            quick: QUICK,
            is_due: false,
            due_at: None,
        }
    }

    /// Bytes that may be read.
    pub(super) fn readable(&self) -> u64 {
        self.end.map_or(self.next, |end| self.next.min(end)) - self.read
    }

    /// Whether everything up to the end of the stream has been read.
    pub(super) fn is_at_end(&self) -> bool {
        self.end.is_some_and(|end| self.read >= end)
    }

    /// A segment with bytes. Whether there is more to read.
    pub(super) fn arrived(&mut self, segment: &Segment, now: Time) -> bool {
        let (from, to) = (segment.seq, segment.seq + u64::from(segment.bytes));
        if segment.has_end {
            self.end = Some(to - 1);
        }
        // What is there already, or finds no room, is answered at once.
        if to <= self.next || to > self.promised + 1 {
            self.is_due = true;
            return false;
        }
        if from > self.next {
            self.keep(from, to);
            self.is_due = true;
            return false;
        }
        let had_gap = !self.early.is_empty();
        let segments = (to - self.next).div_ceil(self.segment);
        self.next = to;
        while let Some(&(first, last)) = self.early.first()
            && first <= self.next
        {
            self.next = self.next.max(last);
            self.early.remove(0);
        }
        let next = self.next;
        for sack in self.newest.iter_mut().filter(|(_, to)| *to <= next) {
            *sack = (0, 0);
        }
        self.unacknowledged += segments;
        self.quick = self.quick.saturating_sub(1);
        if had_gap || self.unacknowledged >= 2 || self.quick > 0 || self.end.is_some() {
            self.is_due = true;
        } else if self.due_at.is_none() {
            self.due_at = Some(now + DELAY);
        }
        true
    }

    fn keep(&mut self, mut from: u64, mut to: u64) {
        let begin = self.early.partition_point(|(_, last)| *last < from);
        let end = self.early.partition_point(|(first, _)| *first <= to);
        for (first, last) in self.early.drain(begin..end.max(begin)) {
            from = from.min(first);
            to = to.max(last);
        }
        self.early.insert(begin, (from, to));
        let older = self
            .newest
            .into_iter()
            .filter(|(first, last)| first < last && (*last < from || *first > to));
        let mut newest = [(0, 0); 3];
        for (place, sack) in newest.iter_mut().zip(std::iter::once((from, to)).chain(older)) {
            *place = sack;
        }
        self.newest = newest;
    }

    /// So many bytes were read.
    pub(super) fn was_read(&mut self, bytes: u64) {
        self.read += bytes;
        self.read_lately += bytes;
        if self.read_lately >= self.capacity / 2 {
            self.read_lately = 0;
            self.capacity = (2 * self.capacity).min(self.most.max(self.capacity));
        }
        // Whoever has read everything tells so at once; so does one whose window was small.
        let is_empty = self.readable() == 0 && self.unacknowledged > 0;
        let opens = self.window_end() >= self.promised + (self.capacity / 2).min(2 * self.segment);
        let was_closed = self.promised < self.next + self.capacity / 4;
        self.is_due |= is_empty || opens && was_closed;
    }

    fn window_end(&self) -> u64 {
        let waiting = self.next - self.read;
        let room = self.capacity.saturating_sub(waiting);
        // Not a few bytes only.
        let room = if room < self.segment.min(self.capacity / 2) { 0 } else { room };
        self.next + room
    }

    /// What an acknowledgement says now: up to where, the window, and what has arrived behind a gap.
    pub(super) fn acknowledgement(&mut self) -> (u64, u64, Sacks) {
        self.promised = self.promised.max(self.window_end());
        self.unacknowledged = 0;
        (self.is_due, self.due_at) = (false, None);
        (self.next, self.promised.saturating_sub(self.next), self.newest)
    }

    /// A delayed acknowledgement that is due.
    pub(super) fn timers(&mut self, now: Time) {
        if self.due_at.is_some_and(|at| at <= now) {
            self.is_due = true;
            self.due_at = None;
        }
    }
}
