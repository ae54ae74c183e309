//! Batches of messages: which loop each end runs, and what the two ends tell each other before and after it.
//! Not the loops (`exchange`, `ping_pong`).

use std::time::{Duration, Instant};

use busbw_core::{
    exit::Exit,
    messages::Messages,
    pattern::{self, Content, Mismatch, Pattern},
    plan::{Arrival, Connection, Verb},
};
use busbw_verbs::VerbsError;

use super::{Pair, Verbs, exchange::Stream, ping_pong::PingPong, signals::Signal, wait::Waits};
use crate::backend::{BackendError, Batch, Channel, Part, Reason};

impl Verbs<'_> {
    fn waits(&self) -> Waits<'_> {
        let (plan, device, stopped) = (self.plan, &*self.device, self.stopped.as_ref());
        Waits { plan, device, stopped, rank: self.world_rank, polls: self.polls }
    }

    fn run(&mut self, batch: &Batch) -> Result<Vec<Duration>, BackendError> {
        let Verbs { plan, options, world_rank, pairs, buffers, device, stopped, polls, .. } = self;
        let (plan, rank, stopped, polls) = (*plan, *world_rank, stopped.as_ref(), *polls);
        let waits = Waits { plan, device, stopped, rank, polls };
        let misuse = |text| waits.failed(VerbsError::Misuse(text));
        let pair = pairs.get_mut(&batch.peer);
        let pair = pair.ok_or_else(|| misuse("no connection was made to that rank"))?;
        pair.begin();
        let mut written = None;
        let times = if batch.test.is_latency() {
            let trips = u64::from(batch.warmup) + u64::from(batch.iterations);
            let untimed = u64::from(batch.warmup);
            let trips = PingPong { begins: batch.begins, bytes: batch.bytes, trips, untimed };
            pair.ping_pong(&trips, buffers, options, &waits)?
        } else {
            let stream = stream(batch, pair);
            let opened = match pair.verb {
                Verb::Send => pair.open_receives(&stream, options),
                Verb::Write | Verb::Read => pair.open_notices(&stream, options),
            };
            opened.map_err(|error| waits.failed(error))?;
            pair.signal(Signal::Ready, &waits)?;
            pair.expect(Signal::Ready, &waits)?;
            let marks = pair.stream(&stream, options, &waits)?;
            if batch.test == Messages::BiBandwidth {
                let times = both_ways(pair, batch, marks, &waits)?;
                pair.await_notices(&stream, options, &waits)?;
                return Ok(times);
            }
            written = Some(stream);
            durations(&marks)
        };
        // What the other end wrote or sent has come where this one says so: everything was acknowledged.
        pair.signal(Signal::Done, &waits)?;
        match takes_no_part(batch, pair.verb) {
            true => pair.expect_done_asleep(&waits)?,
            false => pair.expect(Signal::Done, &waits)?,
        }
        if let Some(stream) = written {
            pair.await_notices(&stream, options, &waits)?;
        }
        Ok(if batch.begins { times } else { Vec::new() })
    }

    fn refused(&self, why: String) -> BackendError {
        self.waits().refused(why)
    }
}

/// Whether this end only lets the other read its memory, or write to it.
fn takes_no_part(batch: &Batch, verb: Verb) -> bool {
    let answers = batch.test == Messages::BiBandwidth || verb == Verb::Send;
    let sees_writes = batch.test.is_latency() && verb == Verb::Write;
    !batch.begins && !answers && !sees_writes
}

/// What this end of a batch does.
fn stream(batch: &Batch, pair: &Pair) -> Stream {
    let window = u64::from(batch.window);
    let all = window * (u64::from(batch.warmup) + u64::from(batch.iterations));
    let both = batch.test == Messages::BiBandwidth;
    let sends = batch.begins || both;
    let is_sent_to = !batch.begins || both;
    let receives = pair.verb == Verb::Send && is_sent_to;
    let is_written_to = pair.verb == Verb::Write && pair.connection.is_lossy() && is_sent_to;
    Stream {
        out: if sends { all } else { 0 },
        untimed: if sends { window * u64::from(batch.warmup) } else { 0 },
        back: if receives { all } else { 0 },
        written: if is_written_to { all } else { 0 },
        bytes: batch.bytes,
        apart: batch.apart.max(1),
        window,
    }
}

/// The end of a batch both ways: the last window lasts until the other end is done, too.
fn both_ways(
    pair: &mut Pair,
    batch: &Batch,
    mut marks: Vec<Instant>,
    waits: &Waits<'_>,
) -> Result<Vec<Duration>, BackendError> {
    pair.signal(Signal::Done, waits)?;
    pair.expect(Signal::Done, waits)?;
    if let Some(last) = marks.last_mut() {
        *last = Instant::now();
    }
    Ok(if batch.begins { durations(&marks) } else { Vec::new() })
}

fn durations(marks: &[Instant]) -> Vec<Duration> {
    marks.windows(2).map(|pair| pair[1].duration_since(pair[0])).collect()
}

/// Messages go in batches only.
fn alone<T>() -> Result<T, BackendError> {
    let text = "a bug of busbw: RDMA's messages go in batches".to_owned();
    Err(BackendError::Refused { text, exit: Exit::Internal })
}

impl Channel for Verbs<'_> {
    fn takes(&self, test: Messages, bytes: usize) -> Result<(), Reason> {
        let (options, mtu) = (&self.options, self.mtu);
        let is_polled = self.plan.arrival_of_writes() == Some(Arrival::Polled);
        let why = match (options.connection, options.verb) {
            (Connection::Ud, _) if bytes > mtu as usize => {
                format!("a datagram has at most {mtu} bytes, the MTU of this link")
            }
            _ if bytes > self.most => {
                format!("a message of this port has at most {} bytes", self.most)
            }
            (_, Verb::Write) if bytes == 0 && test.is_latency() && is_polled => {
                "nobody sees an RDMA write of no bytes arrive".to_owned()
            }
            _ => return Ok(()),
        };
        Err(Reason(why))
    }

    fn batch(&mut self, batch: &Batch) -> Option<Result<Vec<Duration>, BackendError>> {
        Some(self.run(batch))
    }

    fn send(&mut self, _: usize, _: Part) -> Result<(), BackendError> {
        alone()
    }

    fn recv(&mut self, _: usize, _: Part) -> Result<(), BackendError> {
        alone()
    }

    fn start_send(&mut self, _: usize, _: Part) -> Result<(), BackendError> {
        alone()
    }

    fn start_recv(&mut self, _: usize, _: Part) -> Result<(), BackendError> {
        alone()
    }

    fn complete(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    fn fill(
        &mut self,
        part: Part,
        pattern: &Pattern,
        content: Content,
    ) -> Result<(), BackendError> {
        let mut bytes = vec![0; part.bytes];
        pattern::fill(&mut bytes, pattern, content);
        self.buffers.write(part.side, part.offset, &bytes).map_err(|why| self.refused(why))
    }

    fn verify(
        &mut self,
        part: Part,
        pattern: &Pattern,
        content: Content,
    ) -> Result<Mismatch, BackendError> {
        let mut bytes = vec![0; part.bytes];
        let read = self.buffers.read(part.side, part.offset, &mut bytes);
        read.map_err(|why| self.refused(why))?;
        Ok(pattern::verify(&bytes, pattern, content))
    }

    fn corrupt(&mut self, part: Part) -> Result<(), BackendError> {
        let mut byte = [0];
        let read = self.buffers.read(part.side, part.offset, &mut byte);
        let flipped =
            read.and_then(|()| self.buffers.write(part.side, part.offset, &[byte[0] ^ 1]));
        flipped.map_err(|why| self.refused(why))
    }
}
