//! Signals between the two ends of a pair, over a reliable queue pair of their own: ready, done, and one byte.
//! Not measured, and no data.

use std::{collections::VecDeque, sync::Arc};

use busbw_verbs::{
    CompletionQueue, Device, Endpoint, Link, QueuePair, Region, Request, Service, Sizes,
    VerbsError, Work,
};

/// Receives that are posted at once. Each end sends two or three in a batch, and waits for as many.
const POSTED: u32 = 16;

/// What a signal says. Its number is what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// The last byte of the messages that this end will send.
    LastByte(u8),
    /// This end can be sent to.
    Ready,
    /// This end has sent everything, and all of it was acknowledged where it is.
    Done,
}

impl Signal {
    fn number(self) -> u32 {
        match self {
            Signal::Ready => 1,
            Signal::Done => 2,
            Signal::LastByte(byte) => 0x100 | u32::from(byte),
        }
    }

    fn of(number: u32) -> Option<Signal> {
        match number {
            1 => Some(Signal::Ready),
            2 => Some(Signal::Done),
            byte if byte & !0xff == 0x100 => Some(Signal::LastByte(byte as u8)),
            _ => None,
        }
    }
}

/// One end.
pub(super) struct Signals {
    pub(super) pair: QueuePair,
    sent: Arc<CompletionQueue>,
    came: Arc<CompletionQueue>,
    memory: usize,
    waiting: VecDeque<Signal>,
}

impl Signals {
    /// An end that is not connected.
    pub(super) fn new(device: &Arc<Device>, region: &Arc<Region>) -> Result<Signals, VerbsError> {
        let sent = CompletionQueue::new(device, POSTED)?;
        let came = CompletionQueue::new(device, POSTED)?;
        let sizes = Sizes { send: POSTED, receive: POSTED, inline_bytes: 0 };
        let mut pair = QueuePair::new(Service::Reliable, sizes, [&sent, &came])?;
        let memory = pair.add(region);
        Ok(Signals { pair, sent, came, memory, waiting: VecDeque::new() })
    }

    pub(super) fn number(&self) -> u32 {
        self.pair.number()
    }

    /// Connects it, and posts its receives.
    pub(super) fn connect(
        &mut self,
        link: &Link,
        sequence: u32,
        other: &Endpoint,
    ) -> Result<(), VerbsError> {
        self.pair.connect(link, sequence, other)?;
        self.post_receives()
    }

    /// Posts its receives; once.
    pub(super) fn post_receives(&mut self) -> Result<(), VerbsError> {
        self.pair.post_receives(self.memory, 0, &(0..0), POSTED)
    }

    /// Sends one.
    pub(super) fn send(&mut self, signal: Signal) -> Result<(), VerbsError> {
        // Those before it have long completed: the other end has answered them.
        self.sent.poll(|_| {})?;
        let work = Work::Signal(signal.number());
        self.pair.post(self.memory, [Request { id: 0, work, range: 0..0, signaled: true }])
    }

    /// Looks for signals. Returns the oldest that was not taken.
    pub(super) fn look(&mut self) -> Result<Option<Signal>, VerbsError> {
        let (waiting, mut came) = (&mut self.waiting, 0);
        self.came.poll(|completed| {
            came += 1;
            waiting.extend(Signal::of(completed.immediate));
        })?;
        if came > 0 {
            self.pair.post_receives(self.memory, 0, &(0..0), came)?;
        }
        // Where the other end is lost, what was sent completes with an error.
        self.sent.poll(|_| {})?;
        Ok(self.waiting.front().copied())
    }

    /// Takes the oldest signal.
    pub(super) fn take(&mut self) -> Option<Signal> {
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let bytes = (0..=255).map(Signal::LastByte);
        for signal in [Signal::Ready, Signal::Done].into_iter().chain(bytes) {
            assert_eq!(Signal::of(signal.number()), Some(signal));
        }
        assert_eq!([0, 3, 0x1ff + 1].map(Signal::of), [None; 3]);
    }
}
