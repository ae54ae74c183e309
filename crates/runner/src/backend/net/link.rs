//! Both directions between this rank and another: messages to send and to receive, in order, with
//! as many requests open as a connection takes.
//! Not waiting (`wait`), and not what the bytes are.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    rc::Rc,
};

use busbw_ffi::net::{Memory, NetError, Receiver, Sender, Ticket};
use nccl_plugin_abi::net::MAX_REQUESTS;

/// A part of some memory.
pub(super) type Piece = (Rc<Memory>, Range<usize>);

/// One direction.
struct OneWay<End> {
    end: End,
    /// Messages without a request yet.
    queue: VecDeque<Piece>,
    /// Open requests, the oldest first, and the length of each.
    open: VecDeque<(Ticket, usize)>,
    /// The largest piece, in bytes.
    most: usize,
    /// Completed pieces, since the beginning.
    done: u64,
}

/// What sending and receiving ends share.
trait Ends {
    fn begin(&mut self, piece: &Piece) -> Result<Option<Ticket>, NetError>;
    /// Whether a request for this number of bytes is complete.
    fn is_through(&mut self, ticket: Ticket, bytes: usize) -> Result<bool, NetError>;
}

impl Ends for Sender {
    fn begin(&mut self, (memory, bytes): &Piece) -> Result<Option<Ticket>, NetError> {
        self.isend(memory, bytes.clone(), 0)
    }

    fn is_through(&mut self, ticket: Ticket, _: usize) -> Result<bool, NetError> {
        self.test(ticket)
    }
}

impl Ends for Receiver {
    fn begin(&mut self, (memory, bytes): &Piece) -> Result<Option<Ticket>, NetError> {
        self.irecv(memory, bytes.clone(), 0)
    }

    fn is_through(&mut self, ticket: Ticket, bytes: usize) -> Result<bool, NetError> {
        match self.test(ticket)? {
            None => Ok(false),
            Some(came) if came == bytes => Ok(true),
            Some(came) => Err(NetError::Wrong {
                call: "test",
                text: format!("a message of {bytes} bytes arrived with {came} bytes"),
            }),
        }
    }
}

impl<End: Ends> OneWay<End> {
    fn new(end: End, most: usize) -> OneWay<End> {
        let open = VecDeque::with_capacity(MAX_REQUESTS);
        OneWay { end, queue: VecDeque::new(), open, most, done: 0 }
    }

    /// A message, in pieces no longer than the plugin takes.
    fn post(&mut self, memory: &Rc<Memory>, bytes: Range<usize>) {
        let mut from = bytes.start;
        loop {
            let to = bytes.end.min(from.saturating_add(self.most));
            self.queue.push_back((Rc::clone(memory), from..to));
            from = to;
            if from >= bytes.end {
                return;
            }
        }
    }

    /// Starts the requests that there is room for, and tests the oldest one, as NCCL does. Returns
    /// whether there was progress.
    #[inline]
    fn advance(&mut self) -> Result<bool, NetError> {
        let mut moved = false;
        while self.open.len() < MAX_REQUESTS
            && let Some(piece) = self.queue.front()
        {
            let Some(ticket) = self.end.begin(piece)? else { break };
            self.open.push_back((ticket, piece.1.len()));
            self.queue.pop_front();
            moved = true;
        }
        while let Some((ticket, bytes)) = self.open.front() {
            if !self.end.is_through(*ticket, *bytes)? {
                break;
            }
            self.open.pop_front();
            self.done += 1;
            moved = true;
        }
        Ok(moved)
    }

    fn is_idle(&self) -> bool {
        self.open.is_empty() && self.queue.is_empty()
    }
}

/// All connections of a rank, by the other end's world rank.
#[derive(Default)]
pub(super) struct Links {
    out: BTreeMap<usize, OneWay<Sender>>,
    back: BTreeMap<usize, OneWay<Receiver>>,
}

impl Links {
    /// Adds a sending connection, for at most `most` bytes a request.
    pub(super) fn add_sender(&mut self, to: usize, sender: Sender, most: usize) {
        self.out.insert(to, OneWay::new(sender, most));
    }

    /// Adds a receiving connection.
    pub(super) fn add_receiver(&mut self, from: usize, receiver: Receiver, most: usize) {
        self.back.insert(from, OneWay::new(receiver, most));
    }

    /// Queues a message to send.
    pub(super) fn send(
        &mut self,
        to: usize,
        memory: &Rc<Memory>,
        bytes: Range<usize>,
    ) -> Result<(), NetError> {
        let way = self.out.get_mut(&to).ok_or(NetError::Misuse(UNCONNECTED))?;
        way.post(memory, bytes);
        Ok(())
    }

    /// Queues the buffer for a message to receive.
    pub(super) fn recv(
        &mut self,
        from: usize,
        memory: &Rc<Memory>,
        bytes: Range<usize>,
    ) -> Result<(), NetError> {
        let way = self.back.get_mut(&from).ok_or(NetError::Misuse(UNCONNECTED))?;
        way.post(memory, bytes);
        Ok(())
    }

    /// Makes progress on the messages to and from one rank. Returns whether there was any.
    #[inline]
    pub(super) fn advance(&mut self, to: usize, from: usize) -> Result<bool, NetError> {
        let mut moved = false;
        if let Some(way) = self.out.get_mut(&to) {
            moved |= way.advance()?;
        }
        if let Some(way) = self.back.get_mut(&from) {
            moved |= way.advance()?;
        }
        Ok(moved)
    }

    /// Makes progress on all messages.
    pub(super) fn advance_all(&mut self) -> Result<bool, NetError> {
        let mut moved = false;
        for way in self.out.values_mut() {
            moved |= way.advance()?;
        }
        for way in self.back.values_mut() {
            moved |= way.advance()?;
        }
        Ok(moved)
    }

    /// Pieces that were sent to a rank, since the beginning.
    pub(super) fn sent(&self, to: usize) -> u64 {
        self.out.get(&to).map_or(0, |way| way.done)
    }

    /// Pieces that were received from a rank, since the beginning.
    pub(super) fn received(&self, from: usize) -> u64 {
        self.back.get(&from).map_or(0, |way| way.done)
    }

    /// Ranks with messages in flight.
    pub(super) fn busy(&self) -> Vec<usize> {
        let out = self.out.iter().filter(|(_, way)| !way.is_idle()).map(|(rank, _)| *rank);
        let back = self.back.iter().filter(|(_, way)| !way.is_idle()).map(|(rank, _)| *rank);
        let mut all: Vec<usize> = out.chain(back).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether no message to or from a rank is in flight.
    #[inline]
    pub(super) fn are_idle(&self, to: usize, from: usize) -> bool {
        self.out.get(&to).is_none_or(OneWay::is_idle)
            && self.back.get(&from).is_none_or(OneWay::is_idle)
    }

    /// Whether no message at all is in flight.
    pub(super) fn is_everything_through(&self) -> bool {
        self.out.values().all(OneWay::is_idle) && self.back.values().all(OneWay::is_idle)
    }

    /// Closes all connections.
    ///
    /// # Errors
    /// The plugin refuses to close one: the first refusal.
    pub(super) fn close(self) -> Result<(), NetError> {
        for way in self.out.into_values() {
            way.end.close()?;
        }
        for way in self.back.into_values() {
            way.end.close()?;
        }
        Ok(())
    }
}

const UNCONNECTED: &str = "no connection was made to that rank";
