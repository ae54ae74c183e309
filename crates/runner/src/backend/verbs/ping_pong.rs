//! Latency: one message back and forth, as perftest does it (run_iter_lat_write, run_iter_lat_send, run_iter_lat in
//! perftest_resources.c); an RDMA read fetches, and nobody answers.
//! Not bandwidth (`exchange`).

use std::time::{Duration, Instant};

use busbw_core::plan::{Verb, VerbsOptions};
use busbw_verbs::{Request, VerbsError, Work};

use super::{
    buffers::{Buffers, HEADROOM},
    pair::Pair,
    signals::Signal,
    wait::Waits,
};
use crate::backend::BackendError;

/// What one end does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PingPong {
    /// Whether this end begins.
    pub(super) begins: bool,
    /// Bytes of a message.
    pub(super) bytes: usize,
    /// Round trips, of which the first `untimed` are not timed.
    pub(super) trips: u64,
    pub(super) untimed: u64,
}

/// The times of round trips, with one look at the clock each, as in perftest.
struct Laps {
    last: Instant,
    untimed: usize,
    times: Vec<Duration>,
}

impl Laps {
    fn new(trips: &PingPong) -> Laps {
        let times = Vec::with_capacity(if trips.begins { trips.trips as usize } else { 0 });
        Laps { times, untimed: trips.untimed as usize, last: Instant::now() }
    }

    #[inline]
    fn lap(&mut self) {
        let now = Instant::now();
        self.times.push(now.duration_since(self.last));
        self.last = now;
    }

    fn timed(mut self) -> Vec<Duration> {
        self.times.drain(..self.untimed.min(self.times.len()));
        self.times
    }
}

impl Pair {
    /// Runs it. Returns the time of each timed round trip at the end that begins.
    pub(super) fn ping_pong(
        &mut self,
        trips: &PingPong,
        buffers: &Buffers,
        options: &VerbsOptions,
        waits: &Waits<'_>,
    ) -> Result<Vec<Duration>, BackendError> {
        match self.verb {
            Verb::Write if !self.notifies => self.write_trips(trips, buffers, waits),
            Verb::Write | Verb::Send => self.received_trips(trips, options, waits),
            Verb::Read if trips.begins => self.reads(trips, waits),
            Verb::Read => Ok(Vec::new()),
        }
    }

    /// The last byte of each message counts, so that whoever waits for it sees it come: the bytes of a message arrive in
    /// order. The last message ends with the byte that its content has, so that the whole content can be compared.
    fn write_trips(
        &mut self,
        trips: &PingPong,
        buffers: &Buffers,
        waits: &Waits<'_>,
    ) -> Result<Vec<Duration>, BackendError> {
        let at = trips.bytes - 1;
        let own = buffers.send.byte(at);
        self.signal(Signal::LastByte(own), waits)?;
        let Signal::LastByte(theirs) = self.next_signal(waits)? else {
            return Err(waits.failed(VerbsError::Misuse("the other end runs another batch")));
        };
        buffers.recv.set_byte(HEADROOM + at, counted(theirs, trips.trips, 0).wrapping_sub(1));
        self.signal(Signal::Ready, waits)?;
        self.expect(Signal::Ready, waits)?;
        let mut laps = Laps::new(trips);
        for trip in 0..trips.trips {
            let expected = counted(theirs, trips.trips, trip);
            if !trips.begins {
                self.await_byte(buffers, HEADROOM + at, expected, waits)?;
            }
            buffers.send.set_byte(at, counted(own, trips.trips, trip));
            self.post_one(trips.bytes, waits)?;
            if trips.begins {
                self.await_byte(buffers, HEADROOM + at, expected, waits)?;
                laps.lap();
            }
        }
        Ok(laps.timed())
    }

    #[inline]
    fn await_byte(
        &self,
        buffers: &Buffers,
        at: usize,
        byte: u8,
        waits: &Waits<'_>,
    ) -> Result<(), BackendError> {
        let came = || Ok(buffers.recv.byte(at) == byte);
        match self.connection.is_lossy() {
            true => waits.until_or_lost(self.peer, came),
            false => waits.until(self.peer, came),
        }
    }

    /// Each message completes a receive of the other end: sent to it, or written and told of.
    fn received_trips(
        &mut self,
        trips: &PingPong,
        options: &VerbsOptions,
        waits: &Waits<'_>,
    ) -> Result<Vec<Duration>, BackendError> {
        let first = trips.trips.min(u64::from(options.receive_depth));
        self.post_receives(trips.bytes, first).map_err(|error| waits.failed(error))?;
        self.signal(Signal::Ready, waits)?;
        self.expect(Signal::Ready, waits)?;
        let mut laps = Laps::new(trips);
        let mut opened = first;
        for _ in 0..trips.trips {
            if trips.begins {
                self.post_one(trips.bytes, waits)?;
            }
            self.await_message(waits)?;
            if trips.begins {
                laps.lap();
            }
            if opened < trips.trips {
                self.post_receives(trips.bytes, 1).map_err(|error| waits.failed(error))?;
                opened += 1;
            }
            if !trips.begins {
                self.post_one(trips.bytes, waits)?;
            }
        }
        Ok(laps.timed())
    }

    #[inline]
    fn await_message(&self, waits: &Waits<'_>) -> Result<(), BackendError> {
        let came = || Ok(self.came.poll(|_| {})? > 0);
        match self.connection.is_lossy() {
            true => waits.until_or_lost(self.peer, came),
            false => waits.until(self.peer, came),
        }
    }

    fn post_receives(&mut self, bytes: usize, count: u64) -> Result<(), VerbsError> {
        let memory = self.recv_memory;
        // What is written needs no room in a receive.
        let bytes = if self.notifies { 0 } else { bytes };
        let way = self.ways.first_mut().ok_or(VerbsError::Misuse("no queue pair"))?;
        way.pair.post_receives(memory, 0, &(HEADROOM..HEADROOM + bytes), count as u32)
    }

    fn reads(
        &mut self,
        trips: &PingPong,
        waits: &Waits<'_>,
    ) -> Result<Vec<Duration>, BackendError> {
        let mut laps = Laps::new(trips);
        for _ in 0..trips.trips {
            self.post_one(trips.bytes, waits)?;
            laps.lap();
        }
        Ok(laps.timed())
    }

    /// Posts a message on the first queue pair and waits until it has completed.
    #[inline]
    fn post_one(&mut self, bytes: usize, waits: &Waits<'_>) -> Result<(), BackendError> {
        let work = match self.verb {
            Verb::Write if self.notifies => Work::WriteAndNotify(self.remote.recv, HEADROOM),
            Verb::Write => Work::Write(self.remote.polled, HEADROOM),
            verb => self.remote.work(verb, 0),
        };
        let (memory, base) = self.own_memory();
        let request = Request { id: 0, work, range: base..base + bytes, signaled: true };
        let posted = match self.ways.first_mut() {
            Some(way) => way.pair.post(memory, [request]),
            None => Err(VerbsError::Misuse("no queue pair")),
        };
        posted.map_err(|error| waits.failed(error))?;
        waits.until(self.peer, || Ok(self.sent.poll(|_| {})? > 0))
    }
}

/// The last byte of message `trip` of `trips`, the last of which ends with `last`.
fn counted(last: u8, trips: u64, trip: u64) -> u8 {
    last.wrapping_sub((trips - 1 - trip) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        for trips in [1, 2, 256, 1000] {
            assert_eq!(counted(77, trips, trips - 1), 77);
            let all: Vec<u8> = (0..trips).map(|trip| counted(77, trips, trip)).collect();
            assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
        }
    }
}
