//! The connection with one other rank: queue pairs for data, one for signals, and the other end's memory.
//! Not the loops over it (`exchange`, `ping_pong`).

use std::sync::Arc;

use busbw_core::plan::{Connection, Verb, VerbsOptions};
use busbw_verbs::{
    CompletionQueue, Device, QueuePair, RemoteMemory, Service, Sizes, VerbsError, Work,
};

use super::{
    buffers::{Buffers, HEADROOM},
    signals::{Signal, Signals},
    wait::Waits,
};
use crate::backend::BackendError;

/// One queue pair for data.
pub(super) struct Way {
    pub(super) pair: QueuePair,
    /// Messages of this batch that were posted, and that are known to have completed.
    pub(super) posted: u64,
    pub(super) done: u64,
    /// Receives of this batch that were posted, and those that completed.
    pub(super) opened: u64,
    pub(super) received: u64,
}

/// One end of the connection.
pub(super) struct Pair {
    /// World rank of the other end.
    pub(super) peer: usize,
    pub(super) verb: Verb,
    /// Whether a written message is seen to arrive by a receive that completes: nobody polls its last byte.
    pub(super) notifies: bool,
    pub(super) connection: Connection,
    pub(super) ways: Vec<Way>,
    pub(super) signals: Signals,
    pub(super) sent: Arc<CompletionQueue>,
    pub(super) came: Arc<CompletionQueue>,
    /// Numbers of our memory in its queue pairs.
    pub(super) send_memory: usize,
    pub(super) recv_memory: usize,
    /// The other end's buffers.
    pub(super) remote: Remote,
}

/// The other end's buffers: what it sends from, and where it receives.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Remote {
    pub(super) send: RemoteMemory,
    pub(super) recv: RemoteMemory,
    /// The latter, for writes whose last byte is polled.
    pub(super) polled: RemoteMemory,
}

impl Remote {
    /// What moves a message whose part of the buffers begins at `offset`.
    #[inline]
    pub(super) fn work(self, verb: Verb, offset: usize) -> Work {
        match verb {
            Verb::Write => Work::Write(self.recv, HEADROOM + offset),
            Verb::Read => Work::Read(self.send, offset),
            Verb::Send => Work::Send,
        }
    }
}

/// The service of a kind of connection.
pub(super) fn service(connection: Connection) -> Service {
    match connection {
        Connection::Rc => Service::Reliable,
        Connection::Uc => Service::Unreliable,
        Connection::Ud => Service::Datagram,
    }
}

impl Pair {
    /// An end that is not connected.
    pub(super) fn new(
        device: &Arc<Device>,
        buffers: &Buffers,
        options: &VerbsOptions,
        (peer, notifies): (usize, bool),
        inline_bytes: u32,
    ) -> Result<Pair, VerbsError> {
        let all = u32::from(options.queue_pairs);
        let is_received = options.verb == Verb::Send || notifies;
        let receives = if is_received { options.receive_depth } else { 1 };
        let sent = CompletionQueue::new(device, all * options.send_depth)?;
        let came = CompletionQueue::new(device, all * receives)?;
        let sizes = Sizes { send: options.send_depth, receive: receives, inline_bytes };
        let (mut send_memory, mut recv_memory) = (0, 0);
        let mut ways = Vec::new();
        for _ in 0..options.queue_pairs {
            let mut pair = QueuePair::new(service(options.connection), sizes, [&sent, &came])?;
            send_memory = pair.add(&buffers.send);
            recv_memory = pair.add(&buffers.recv);
            ways.push(Way { pair, posted: 0, done: 0, opened: 0, received: 0 });
        }
        Ok(Pair {
            peer,
            verb: options.verb,
            notifies,
            connection: options.connection,
            ways,
            signals: Signals::new(device, &buffers.recv)?,
            sent,
            came,
            send_memory,
            recv_memory,
            remote: Remote::default(),
        })
    }

    /// The queue pair of this number: 0 is that of signals, and those of messages follow.
    pub(super) fn queue_pair(&self, number: usize) -> &QueuePair {
        match number {
            0 => &self.signals.pair,
            way => &self.ways[way - 1].pair,
        }
    }

    /// As [`Pair::queue_pair`].
    pub(super) fn queue_pair_mut(&mut self, number: usize) -> &mut QueuePair {
        match number {
            0 => &mut self.signals.pair,
            way => &mut self.ways[way - 1].pair,
        }
    }

    /// Bytes up to which a message is copied when it is posted.
    pub(super) fn inline_bytes(&self) -> u32 {
        self.ways.first().map_or(0, |way| way.pair.sizes().inline_bytes)
    }

    /// Which of our memory messages use, and where it begins.
    pub(super) fn own_memory(&self) -> (usize, usize) {
        match self.verb {
            Verb::Read => (self.recv_memory, HEADROOM),
            Verb::Write | Verb::Send => (self.send_memory, 0),
        }
    }

    /// Forgets the counts of the last batch.
    pub(super) fn begin(&mut self) {
        for way in &mut self.ways {
            (way.posted, way.done, way.opened, way.received) = (0, 0, 0, 0);
        }
    }

    /// Sends a signal.
    pub(super) fn signal(&mut self, signal: Signal, waits: &Waits<'_>) -> Result<(), BackendError> {
        self.signals.send(signal).map_err(|error| waits.failed(error))
    }

    /// Waits for the other end's next signal.
    pub(super) fn next_signal(&mut self, waits: &Waits<'_>) -> Result<Signal, BackendError> {
        waits.until(self.peer, || Ok(self.signals.look()?.is_some()))?;
        self.signals.take().ok_or_else(|| waits.failed(VerbsError::Misuse("a signal that is gone")))
    }

    /// Waits for the other end to be done, asleep: this one takes no part.
    pub(super) fn expect_done_asleep(&mut self, waits: &Waits<'_>) -> Result<(), BackendError> {
        waits.asleep_until(self.peer, || Ok(self.signals.look()?.is_some()))?;
        self.expect(Signal::Done, waits)
    }

    /// Waits for one signal, which must be the next.
    pub(super) fn expect(&mut self, signal: Signal, waits: &Waits<'_>) -> Result<(), BackendError> {
        match self.next_signal(waits)? {
            next if next == signal => Ok(()),
            _ => Err(waits.failed(VerbsError::Misuse("the other end runs another batch"))),
        }
    }
}
