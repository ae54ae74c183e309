//! Both directions between this rank and another: what is to be sent and received, in order, with as many
//! requests open as a connection takes.
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
struct Way<End> {
    end: End,
    /// Not begun yet.
    queue: VecDeque<Piece>,
    /// Begun, the oldest first, and how long each is.
    open: VecDeque<(Ticket, usize)>,
    /// Bytes of a piece at most.
    most: usize,
    /// Pieces that are through, since the beginning.
    done: u64,
}

/// What both kinds of ends do.
trait Ends {
    fn begin(&mut self, piece: &Piece) -> Result<Option<Ticket>, NetError>;
    /// Whether a request for so many bytes is through.
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
                text: format!("a message of {bytes} bytes came as one of {came}"),
            }),
        }
    }
}

impl<End: Ends> Way<End> {
    fn new(end: End, most: usize) -> Way<End> {
        let open = VecDeque::with_capacity(MAX_REQUESTS);
        Way { end, queue: VecDeque::new(), open, most, done: 0 }
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

    /// Begins what can be begun, and asks for the oldest request, as NCCL does; whether anything moved.
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

/// All connections of a rank, by the other's world rank.
#[derive(Default)]
pub(super) struct Links {
    out: BTreeMap<usize, Way<Sender>>,
    back: BTreeMap<usize, Way<Receiver>>,
}

impl Links {
    /// Adds one that sends, at most `most` bytes at once.
    pub(super) fn add_sender(&mut self, to: usize, sender: Sender, most: usize) {
        self.out.insert(to, Way::new(sender, most));
    }

    /// Adds one that receives.
    pub(super) fn add_receiver(&mut self, from: usize, receiver: Receiver, most: usize) {
        self.back.insert(from, Way::new(receiver, most));
    }

    /// Queues a message.
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

    /// Queues the place for one.
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

    /// Moves what was queued for, and from, one rank; whether anything moved.
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

    /// Moves everything that was queued.
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

    /// Pieces that went to a rank, since the beginning.
    pub(super) fn sent(&self, to: usize) -> u64 {
        self.out.get(&to).map_or(0, |way| way.done)
    }

    /// Pieces that came from one.
    pub(super) fn received(&self, from: usize) -> u64 {
        self.back.get(&from).map_or(0, |way| way.done)
    }

    /// Ranks that something is under way to, or from.
    pub(super) fn busy(&self) -> Vec<usize> {
        let out = self.out.iter().filter(|(_, way)| !way.is_idle()).map(|(rank, _)| *rank);
        let back = self.back.iter().filter(|(_, way)| !way.is_idle()).map(|(rank, _)| *rank);
        let mut all: Vec<usize> = out.chain(back).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether nothing is.
    #[inline]
    pub(super) fn are_idle(&self, to: usize, from: usize) -> bool {
        self.out.get(&to).is_none_or(Way::is_idle) && self.back.get(&from).is_none_or(Way::is_idle)
    }

    /// Whether nothing at all is.
    pub(super) fn is_everything_through(&self) -> bool {
        self.out.values().all(Way::is_idle) && self.back.values().all(Way::is_idle)
    }

    /// Ends all of them.
    ///
    /// # Errors
    /// The first that the plugin refuses.
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
