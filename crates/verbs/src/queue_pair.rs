//! A queue pair: made, and given work.
//! Not its connection (`connection`), and not what completes (`queue`).

use std::{fmt, io, mem, ops::Range, ptr, sync::Arc};

use super::{
    CompletionQueue, Device, Region, RemoteMemory, VerbsError, abi, abi::opcode, error::refused,
};

/// In front of a received datagram: the global routing header, or room for it.
const ROUTING_HEADER: usize = 40;

/// The key of datagrams: both ends of a run use the same.
pub(super) const DATAGRAM_KEY: u32 = 0x1111_1111;

/// Requests that one call posts.
const MOST_LISTED: usize = 64;

/// The service of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// RC: reliable, connected.
    Reliable,
    /// UC: unreliable, connected.
    Unreliable,
    /// UD: datagrams.
    Datagram,
}

impl Service {
    const fn code(self) -> i32 {
        match self {
            Service::Reliable => 2,
            Service::Unreliable => 3,
            Service::Datagram => 4,
        }
    }

    /// Bytes that each receive gets in front of its message.
    const fn header(self) -> usize {
        match self {
            Service::Datagram => ROUTING_HEADER,
            Service::Reliable | Service::Unreliable => 0,
        }
    }
}

/// What a queue pair is asked to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Open requests that send, write or read.
    pub send: u32,
    /// Open receives.
    pub receive: u32,
    /// Bytes that are copied into a request when it is posted.
    pub inline_bytes: u32,
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Sends to a receive of the other end.
    Send,
    /// Sends nothing but a number to a receive of the other end.
    Signal(u32),
    /// Writes to the other end's memory, from this offset on.
    Write(RemoteMemory, usize),
    /// The same, and a receive of the other end completes once it is there.
    WriteAndNotify(RemoteMemory, usize),
    /// Reads the other end's memory, from this offset on.
    Read(RemoteMemory, usize),
}

/// A request to post.
#[derive(Debug, Clone)]
pub struct Request {
    /// What completes with it.
    pub id: u64,
    /// What it does.
    pub work: Work,
    /// The bytes of our memory.
    pub range: Range<usize>,
    /// Whether its completion is reported.
    pub signaled: bool,
}

/// Memory as a request names it: where it begins, its bytes, and the key of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its first byte.
    pub address: u64,
    /// Its bytes.
    pub bytes: u32,
    /// The key.
    pub key: u32,
}

/// A queue pair. It holds on to its queues and to the memory that it was told of.
pub struct QueuePair {
    pub(super) device: Arc<Device>,
    pub(super) pair: *mut abi::QueuePair,
    pub(super) address: *mut abi::Opaque,
    pub(super) other: u32,
    pub(super) service: Service,
    sizes: Sizes,
    _queues: [Arc<CompletionQueue>; 2],
    regions: Vec<Arc<Region>>,
    /// Room for a list of requests, and for what they name.
    list: Vec<abi::SendRequest>,
    pieces: Vec<abi::Piece>,
}

// SAFETY: a pointer to what the library guards by itself, and lists that only `&mut self` reaches.
unsafe impl Send for QueuePair {}

impl fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePair").field("service", &self.service).finish_non_exhaustive()
    }
}

impl QueuePair {
    /// A new queue pair whose requests complete in `queues`, of those that send and of those that receive.
    ///
    /// # Errors
    /// The device has no such service, or no room.
    pub fn new(
        service: Service,
        sizes: Sizes,
        queues: [&Arc<CompletionQueue>; 2],
    ) -> Result<QueuePair, VerbsError> {
        let [send, receive] = queues.map(Arc::clone);
        let device = Arc::clone(&send.device);
        let create = device.verbs.calls.create_qp.ok_or(VerbsError::Absent("ibv_create_qp"))?;
        let mut attributes = abi::NewQueuePair {
            user: ptr::null_mut(),
            send: send.queue,
            receive: receive.queue,
            shared: ptr::null_mut(),
            capacity: abi::Capacity {
                send_requests: sizes.send,
                receive_requests: sizes.receive,
                send_pieces: 1,
                receive_pieces: 1 + u32::from(service.header() > 0),
                inline_bytes: sizes.inline_bytes,
            },
            kind: service.code(),
            all_signaled: 0,
        };
        // SAFETY: domain and queues are of one open device, and the structure is complete.
        let pair = unsafe { create(device.domain, &raw mut attributes) };
        if pair.is_null() {
            return Err(refused("ibv_create_qp", device.name(), &io::Error::last_os_error()));
        }
        let given = attributes.capacity;
        Ok(QueuePair {
            device,
            pair,
            address: ptr::null_mut(),
            other: 0,
            service,
            sizes: Sizes {
                send: given.send_requests,
                receive: given.receive_requests,
                inline_bytes: given.inline_bytes,
            },
            _queues: [send, receive],
            regions: Vec::new(),
            list: Vec::with_capacity(MOST_LISTED),
            pieces: Vec::with_capacity(MOST_LISTED),
        })
    }

    /// What it holds: at least what was asked for.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        // SAFETY: it exists for as long as this.
        unsafe { (*self.pair).number }
    }

    /// Adds memory that requests may name, by its place among those added.
    pub fn add(&mut self, region: &Arc<Region>) -> usize {
        self.regions.push(Arc::clone(region));
        self.regions.len() - 1
    }

    /// Posts requests that use memory number `memory` ([`QueuePair::add`]), as one list of 1 to 64.
    ///
    /// # Errors
    /// The queue is full, or the bytes do not lie within the memory.
    #[inline]
    pub fn post(
        &mut self,
        memory: usize,
        requests: impl IntoIterator<Item = Request>,
    ) -> Result<(), VerbsError> {
        let region = self.regions.get(memory).ok_or(VerbsError::Misuse("no such memory"))?;
        let (mut list, mut pieces) = (mem::take(&mut self.list), mem::take(&mut self.pieces));
        list.clear();
        pieces.clear();
        for request in requests {
            pieces.push(region.piece(&request.range)?);
            list.push(abi::SendRequest {
                id: request.id,
                piece_count: i32::from(!request.range.is_empty()),
                opcode: match request.work {
                    Work::Send => opcode::SEND,
                    Work::Signal(_) => opcode::SEND_WITH_IMMEDIATE,
                    Work::Write(..) => opcode::WRITE,
                    Work::WriteAndNotify(..) => opcode::WRITE_WITH_IMMEDIATE,
                    Work::Read(..) => opcode::READ,
                },
                flags: self.flags(&request, region.is_readable()),
                immediate: match request.work {
                    Work::Signal(number) => number.to_be(),
                    _ => 0,
                },
                target: self.target(request.work),
                ..abi::SendRequest::EMPTY
            });
        }
        if list.is_empty() || list.len() > MOST_LISTED {
            return Err(VerbsError::Misuse("a list has 1 to 64 requests"));
        }
        let last = list.len() - 1;
        let first = list.as_mut_ptr();
        for (place, (request, piece)) in list.iter_mut().zip(&mut pieces).enumerate() {
            request.pieces = &raw mut *piece;
            if place < last {
                request.next = first.wrapping_add(place + 1);
            }
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair and its context exist; the list is complete and the library copies it. The memory that
        // it names is held by this queue pair.
        let status = unsafe {
            let post = (*(*self.pair).context).ops.post_send;
            post.ok_or(VerbsError::Absent("post_send"))?(self.pair, first, &raw mut bad)
        };
        (self.list, self.pieces) = (list, pieces);
        self.device.checked("ibv_post_send", status)
    }

    fn target(&self, work: Work) -> abi::Target {
        match work {
            Work::Write(memory, offset)
            | Work::WriteAndNotify(memory, offset)
            | Work::Read(memory, offset) => {
                let address = memory.address.wrapping_add(offset as u64);
                abi::Target { remote: abi::Remote { address, rkey: memory.key } }
            }
            Work::Send | Work::Signal(_) if self.service == Service::Datagram => {
                let (address, number) = (self.address, self.other);
                abi::Target { datagram: abi::Datagram { address, number, key: DATAGRAM_KEY } }
            }
            Work::Send | Work::Signal(_) => abi::SendRequest::EMPTY.target,
        }
    }

    fn flags(&self, request: &Request, is_readable: bool) -> u32 {
        let signaled = if request.signaled { abi::SIGNALED } else { 0 };
        let copied = is_readable
            && !matches!(request.work, Work::Read(..))
            && request.range.len() <= self.sizes.inline_bytes as usize;
        signaled | if copied { abi::INLINE } else { 0 }
    }

    /// Posts a write of memory of ours to the other end's, of as many bytes, with a number that a receive of it takes, or
    /// without. It completes with `id`. With `copied` what fits is copied now, which host memory alone can be.
    ///
    /// # Safety
    /// Our memory is registered, and stays until the write has completed or the queue pair is gone.
    ///
    /// # Errors
    /// The queue is full, or the queue pair has failed.
    #[inline]
    pub unsafe fn write(
        &mut self,
        id: u64,
        from: Place,
        to: RemoteMemory,
        immediate: Option<u32>,
        copied: bool,
    ) -> Result<(), VerbsError> {
        let opcode = match immediate {
            Some(_) => opcode::WRITE_WITH_IMMEDIATE,
            None => opcode::WRITE,
        };
        let is_copied = copied && from.bytes <= self.sizes.inline_bytes;
        let flags = abi::SIGNALED | if is_copied { abi::INLINE } else { 0 };
        let remote = abi::Remote { address: to.address, rkey: to.key };
        self.post_one(
            abi::SendRequest {
                id,
                opcode,
                flags,
                immediate: immediate.unwrap_or(0).to_be(),
                target: abi::Target { remote },
                ..abi::SendRequest::EMPTY
            },
            from,
        )
    }

    /// Posts a read of the other end's memory into memory of ours.
    ///
    /// # Safety
    /// As [`QueuePair::write`].
    ///
    /// # Errors
    /// As [`QueuePair::write`].
    pub unsafe fn read(
        &mut self,
        id: u64,
        into: Place,
        from: RemoteMemory,
    ) -> Result<(), VerbsError> {
        let remote = abi::Remote { address: from.address, rkey: from.key };
        self.post_one(
            abi::SendRequest {
                id,
                opcode: opcode::READ,
                flags: abi::SIGNALED,
                target: abi::Target { remote },
                ..abi::SendRequest::EMPTY
            },
            into,
        )
    }

    fn post_one(&mut self, mut request: abi::SendRequest, own: Place) -> Result<(), VerbsError> {
        let mut piece = abi::Piece { address: own.address, length: own.bytes, lkey: own.key };
        request.pieces = &raw mut piece;
        request.piece_count = i32::from(own.bytes > 0);
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair and its context exist; the library copies the request, and the caller vouches for the
        // memory that it names.
        let status = unsafe {
            let post = (*(*self.pair).context).ops.post_send;
            post.ok_or(VerbsError::Absent("post_send"))?(self.pair, &raw mut request, &raw mut bad)
        };
        self.device.checked("ibv_post_send", status)
    }

    /// Posts `count` receives that take a number and no bytes.
    ///
    /// # Errors
    /// The queue is full.
    pub fn post_empty_receives(&mut self, id: u64, count: u32) -> Result<(), VerbsError> {
        let mut request = abi::ReceiveRequest {
            id,
            next: ptr::null_mut(),
            pieces: ptr::null_mut(),
            piece_count: 0,
        };
        for _ in 0..count {
            self.post_receive(&mut request)?;
        }
        Ok(())
    }

    fn post_receive(&self, request: &mut abi::ReceiveRequest) -> Result<(), VerbsError> {
        let mut bad = ptr::null_mut();
        // SAFETY: as in `post`.
        let status = unsafe {
            let post = (*(*self.pair).context).ops.post_recv;
            post.ok_or(VerbsError::Absent("post_recv"))?(self.pair, request, &raw mut bad)
        };
        self.device.checked("ibv_post_recv", status)
    }

    /// Posts `count` receives into the same bytes of memory number `memory`, whose first 40 bytes take the header of datagrams.
    ///
    /// # Errors
    /// The queue is full, or the bytes do not lie within the memory.
    #[inline]
    pub fn post_receives(
        &mut self,
        memory: usize,
        id: u64,
        range: &Range<usize>,
        count: u32,
    ) -> Result<(), VerbsError> {
        let region = self.regions.get(memory).ok_or(VerbsError::Misuse("no such memory"))?;
        let header = self.service.header();
        let mut pieces = [region.piece(&(0..header))?, region.piece(range)?];
        let (from, count_of_pieces) = match (header, range.is_empty()) {
            (0, empty) => (1, i32::from(!empty)),
            (_, empty) => (0, 1 + i32::from(!empty)),
        };
        let mut request = abi::ReceiveRequest {
            id,
            next: ptr::null_mut(),
            pieces: pieces.as_mut_ptr().wrapping_add(from),
            piece_count: count_of_pieces,
        };
        for _ in 0..count {
            self.post_receive(&mut request)?;
        }
        Ok(())
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        if let Some(destroy) =
            self.device.verbs.calls.destroy_ah.filter(|_| !self.address.is_null())
        {
            // SAFETY: ours, once.
            unsafe { destroy(self.address) };
        }
        if let Some(destroy) = self.device.verbs.calls.destroy_qp {
            // SAFETY: ours, once; its memory and queues are dropped after it.
            unsafe { destroy(self.pair) };
        }
    }
}
