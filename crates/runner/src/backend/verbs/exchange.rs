//! Bandwidth: a stream of messages, as many in flight as the queue pairs take, as perftest sends them (run_iter_bw,
//! run_iter_bw_server in perftest_resources.c).
//! Not latency (`ping_pong`), and not what the times mean.

use std::{ops::Range, time::Instant};

use busbw_core::plan::{Verb, VerbsOptions};
use busbw_verbs::{Request, VerbsError, Work};

use super::{
    buffers::HEADROOM,
    pair::Pair,
    signals::Signal,
    wait::{POLLS_PER_EVENT_CHECK, SETTLED, Waits},
};
use crate::backend::BackendError;

/// Bits of a completion's number that count messages; above them is the queue pair.
const COUNT_BITS: u32 = 48;

/// What one end of a stream does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stream {
    /// Messages that it sends, writes or reads.
    pub(super) out: u64,
    /// Of these, the first that are not timed: all of them complete before the next one is posted.
    pub(super) untimed: u64,
    /// Messages that it must post receives for.
    pub(super) back: u64,
    /// Messages that the other end writes here and nobody acknowledges (UC): the last one of each queue pair completes a receive.
    pub(super) written: u64,
    /// Bytes of a message.
    pub(super) bytes: usize,
    /// Messages with a part of the buffers of their own.
    pub(super) apart: usize,
    /// Messages after each of which the time is taken.
    pub(super) window: u64,
}

/// How messages are spread over queue pairs: lists of `listed` in turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spread {
    ways: u64,
    listed: u64,
}

impl Spread {
    /// The queue pair of message `index`.
    fn way(self, index: u64) -> usize {
        (index / self.listed % self.ways) as usize
    }

    /// How many of the first `messages` go to queue pair `way`.
    fn share(self, messages: u64, way: usize) -> u64 {
        let round = self.listed * self.ways;
        let rest = messages % round;
        let before = way as u64 * self.listed;
        messages / round * self.listed + rest.saturating_sub(before).min(self.listed)
    }

    /// The message that is number `place` of queue pair `way`.
    fn index(self, way: usize, place: u64) -> u64 {
        (place / self.listed * self.ways + way as u64) * self.listed + place % self.listed
    }
}

impl Stream {
    fn part(&self, index: u64) -> usize {
        if self.apart == 1 { 0 } else { (index % self.apart as u64) as usize * self.bytes }
    }

    fn range(&self, index: u64, base: usize) -> Range<usize> {
        let from = base + self.part(index);
        from..from + self.bytes
    }
}

impl Pair {
    /// Opens the first receives of a stream, before the other end may send.
    pub(super) fn open_receives(
        &mut self,
        stream: &Stream,
        options: &VerbsOptions,
    ) -> Result<(), VerbsError> {
        let spread = self.spread(options);
        for way in 0..self.ways.len() {
            let first = spread.share(stream.back, way).min(u64::from(options.receive_depth));
            self.open(stream, spread, way, first)?;
        }
        Ok(())
    }

    /// Opens a receive for the last message that each queue pair of the other end writes, if nothing else says that it has arrived.
    pub(super) fn open_notices(
        &mut self,
        stream: &Stream,
        options: &VerbsOptions,
    ) -> Result<(), VerbsError> {
        let (spread, memory) = (self.spread(options), self.recv_memory);
        for (at, way) in self.ways.iter_mut().enumerate() {
            if spread.share(stream.written, at) > 0 {
                way.pair.post_receives(memory, at as u64, &(0..0), 1)?;
            }
        }
        Ok(())
    }

    /// Waits for these, once the other end has said that it has written everything: over another queue pair, which may have
    /// overtaken what it wrote.
    pub(super) fn await_notices(
        &self,
        stream: &Stream,
        options: &VerbsOptions,
        waits: &Waits<'_>,
    ) -> Result<(), BackendError> {
        let spread = self.spread(options);
        let used = (0..self.ways.len()).filter(|at| spread.share(stream.written, *at) > 0);
        let (expected, mut come) = (used.count(), 0);
        let (mut patience, mut since) = (waits.patience(), Instant::now());
        while come < expected {
            let new = self.came.poll(|_| {}).map_err(|error| waits.failed(error))?;
            come += new;
            if new > 0 {
                since = Instant::now();
                continue;
            }
            if since.elapsed() > SETTLED {
                return Err(self.lost(stream, stream.written - (expected - come) as u64, waits));
            }
            patience.rest(|| vec![self.peer])?;
        }
        Ok(())
    }

    fn spread(&self, options: &VerbsOptions) -> Spread {
        Spread { ways: self.ways.len() as u64, listed: u64::from(options.listed) }
    }

    /// Posts `count` receives of queue pair `way`.
    fn open(
        &mut self,
        stream: &Stream,
        spread: Spread,
        way: usize,
        count: u64,
    ) -> Result<(), VerbsError> {
        let memory = self.recv_memory;
        let Some(this) = self.ways.get_mut(way) else { return Ok(()) };
        for _ in 0..count {
            let range = stream.range(spread.index(way, this.opened), HEADROOM);
            this.pair.post_receives(memory, way as u64, &range, 1)?;
            this.opened += 1;
        }
        Ok(())
    }

    /// Runs the stream. Returns the time of each window that was timed.
    pub(super) fn stream(
        &mut self,
        stream: &Stream,
        options: &VerbsOptions,
        waits: &Waits<'_>,
    ) -> Result<Vec<Instant>, BackendError> {
        let spread = self.spread(options);
        let mut marks = Vec::new();
        let (mut sent, mut done, mut received) = (0, 0, 0);
        let mut limit = stream.untimed;
        if limit == 0 {
            marks.push(Instant::now());
            limit = stream.out;
        }
        let mut patience = waits.patience();
        let (mut idle, mut silent_since): (u32, Option<Instant>) = (0, None);
        while done < stream.out || received < stream.back {
            let before = (sent, done, received);
            let wrong = |error| waits.failed(error);
            sent = self.fill_queues(stream, options, spread, sent, limit).map_err(wrong)?;
            if done < stream.out {
                done = self.collect_sent(done).map_err(wrong)?;
                if limit < stream.out && done >= limit {
                    marks.push(Instant::now());
                    limit = stream.out;
                } else if limit == stream.out {
                    mark(&mut marks, stream, done);
                }
            }
            if received < stream.back {
                received =
                    self.collect_received(stream, options, spread, received).map_err(wrong)?;
            }
            if (sent, done, received) != before {
                patience.renew();
                silent_since = None;
                continue;
            }
            patience.rest(|| vec![self.peer])?;
            idle = idle.wrapping_add(1);
            if idle.is_multiple_of(POLLS_PER_EVENT_CHECK) {
                waits.device.events().map_err(wrong)?;
            }
            if self.connection.is_lossy() && received < stream.back && done == stream.out {
                let other_is_done = self.signals.look().map_err(wrong)? == Some(Signal::Done);
                let since = *silent_since.get_or_insert_with(Instant::now);
                if other_is_done && since.elapsed() > SETTLED {
                    return Err(self.lost(stream, received, waits));
                }
            }
        }
        Ok(marks)
    }

    fn lost(&self, stream: &Stream, received: u64, waits: &Waits<'_>) -> BackendError {
        let (all, peer) = (stream.back.max(stream.written), self.peer);
        let (lost, kind) = (all - received, self.connection.name());
        waits.refused(match stream.written {
            0 => format!(
                "{lost} of {all} messages from rank {peer} were lost: {kind} sends nothing again, and drops what finds no receive; \
                 more of those (--rx-depth), fewer messages at once (--tx-depth), or --connection RC"
            ),
            _ => format!(
                "{lost} of {all} messages from rank {peer} at least were lost: {kind} sends nothing again; fewer messages at once \
                 (--tx-depth), or --connection RC"
            ),
        })
    }

    /// Posts what the queues take, up to message `limit`. Returns how many are posted.
    #[inline]
    fn fill_queues(
        &mut self,
        stream: &Stream,
        options: &VerbsOptions,
        spread: Spread,
        mut sent: u64,
        limit: u64,
    ) -> Result<u64, VerbsError> {
        let depth = u64::from(options.send_depth);
        // A window's time ends with a completion of its own.
        let share = stream.window / spread.ways;
        let every = u64::from(options.signal_every).min(depth).min(share).max(1);
        let (verb, remote, (memory, base)) = (self.verb, self.remote, self.own_memory());
        let notifies = verb == Verb::Write && self.connection.is_lossy();
        while sent < limit {
            let at = spread.way(sent);
            // A device may have shorter queues than were asked for: a list is posted in parts then.
            let count = (spread.listed - sent % spread.listed).min(limit - sent).min(depth);
            let Some(way) = self.ways.get_mut(at) else { break };
            if way.posted + count - way.done > depth {
                break;
            }
            let (posted, last) = (way.posted, spread.share(limit, at));
            let last_of_all = spread.share(stream.out, at);
            let requests = (0..count).map(|place| {
                let (index, number) = (sent + place, posted + place + 1);
                let work = match remote.work(verb, stream.part(index)) {
                    Work::Write(to, offset) if notifies && number == last_of_all => {
                        Work::WriteAndNotify(to, offset)
                    }
                    work => work,
                };
                Request {
                    id: (at as u64) << COUNT_BITS | number,
                    work,
                    range: stream.range(index, base),
                    signaled: number.is_multiple_of(every) || number == last,
                }
            });
            way.pair.post(memory, requests)?;
            way.posted += count;
            sent += count;
        }
        Ok(sent)
    }

    /// Takes completions of what was sent. Returns how many messages have completed.
    #[inline]
    fn collect_sent(&mut self, done: u64) -> Result<u64, VerbsError> {
        let (ways, mut done) = (&mut self.ways, done);
        self.sent.poll(|completed| {
            let count = completed.id & ((1 << COUNT_BITS) - 1);
            if let Some(way) = ways.get_mut((completed.id >> COUNT_BITS) as usize) {
                done += count - way.done;
                way.done = count;
            }
        })?;
        Ok(done)
    }

    /// Takes completions of receives, and opens as many again where more are to come. Returns how many have come.
    #[inline]
    fn collect_received(
        &mut self,
        stream: &Stream,
        options: &VerbsOptions,
        spread: Spread,
        received: u64,
    ) -> Result<u64, VerbsError> {
        let (ways, mut now) = (&mut self.ways, received);
        self.came.poll(|completed| {
            now += 1;
            if let Some(way) = ways.get_mut(completed.id as usize) {
                way.received += 1;
            }
        })?;
        if now > received {
            for way in 0..self.ways.len() {
                let Some(this) = self.ways.get(way) else { continue };
                let open = this.opened - this.received;
                let wanted = spread.share(stream.back, way) - this.opened;
                let count = u64::from(options.receive_depth).saturating_sub(open).min(wanted);
                self.open(stream, spread, way, count)?;
            }
        }
        Ok(now)
    }
}

/// Takes the time of every window that has completed.
#[inline]
fn mark(marks: &mut Vec<Instant>, stream: &Stream, done: u64) {
    while (done - stream.untimed) >= marks.len() as u64 * stream.window.max(1)
        && (marks.len() as u64) <= (stream.out - stream.untimed) / stream.window.max(1)
    {
        marks.push(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_take_turns() {
        let spread = Spread { ways: 2, listed: 3 };
        let ways: Vec<usize> = (0..8).map(|index| spread.way(index)).collect();
        assert_eq!(ways, [0, 0, 0, 1, 1, 1, 0, 0]);
        assert_eq!([spread.share(8, 0), spread.share(8, 1)], [5, 3]);
        assert_eq!([spread.index(0, 3), spread.index(1, 2)], [6, 5]);
    }

    proptest! {
        /// Every message has one queue pair and one place there.
        #[test]
        fn messages_are_spread(ways in 1_u64..9, listed in 1_u64..9, messages in 0_u64..500) {
            let spread = Spread { ways, listed };
            let all: u64 = (0..ways).map(|way| spread.share(messages, way as usize)).sum();
            prop_assert_eq!(all, messages);
            let mut seen = vec![0; ways as usize];
            for index in 0..messages {
                let way = spread.way(index);
                prop_assert_eq!(spread.index(way, seen[way]), index);
                seen[way] += 1;
                prop_assert_eq!(spread.share(index + 1, way), seen[way]);
            }
        }

        /// Every window is marked once, whatever completes together.
        #[test]
        fn windows_are_marked(window in 1_u64..20, windows in 1_u64..20, untimed in 0_u64..30, steps in prop::collection::vec(1_u64..40, 1..200)) {
            let out = untimed + window * windows;
            let stream = Stream { out, untimed, back: 0, written: 0, bytes: 1, apart: 1, window };
            let mut marks = vec![Instant::now()];
            let mut done = untimed;
            for step in steps {
                done = (done + step).min(out);
                mark(&mut marks, &stream, done);
                prop_assert_eq!(marks.len() as u64 - 1, (done - untimed) / window);
            }
        }
    }
}
