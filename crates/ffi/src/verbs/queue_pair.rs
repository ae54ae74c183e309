//! A queue pair: made, connected with another, and given work.
//! Not what completes (`queue`), and not how the two ends exchange their addresses.

use std::{fmt, io, mem, ops::Range, ptr, rc::Rc};

use super::{
    CompletionQueue, Device, Region, RemoteMemory, VerbsError, abi,
    abi::{access, mask, opcode, state},
    device::mtu_code,
    error::refused,
};

/// The key of datagrams: both ends of a run use the same.
const DATAGRAM_KEY: u32 = 0x1111_1111;
/// In front of a received datagram: the global routing header, or room for it.
const ROUTING_HEADER: usize = 40;

/// Requests that one call posts.
pub const MOST_LISTED: usize = 64;

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
    pub const fn header(self) -> usize {
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

/// The address of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Address {
    /// GID, in network byte order; `None` on InfiniBand without a router.
    pub gid: Option<[u8; 16]>,
    /// LID; 0 on Ethernet.
    pub lid: u16,
}

/// One end of a connection, as the other needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Number of the queue pair.
    pub number: u32,
    /// The first packet's number, 24 bits.
    pub sequence: u32,
    /// The port's address.
    pub address: Address,
}

/// How packets go from one end to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Our port, from 1.
    pub port: u8,
    /// Index of our address.
    pub gid_index: u8,
    /// Largest payload of a packet, in bytes: 256 to 4096.
    pub mtu: u32,
    /// Traffic class: its upper six bits are the DSCP of RoCE v2.
    pub traffic_class: u8,
    /// Service level, 0 to 15.
    pub service_level: u8,
    /// Time of one retransmission: 4.096 us × 2^this; 0 = for ever.
    pub timeout: u8,
    /// Retransmissions before the queue pair fails, 0 to 7.
    pub retries: u8,
    /// RDMA reads that are open at once.
    pub reads: u8,
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

/// A queue pair. It holds on to its queues and to the memory that it was told of.
pub struct QueuePair {
    device: Rc<Device>,
    pair: *mut abi::QueuePair,
    address: *mut abi::Opaque,
    other: u32,
    service: Service,
    sizes: Sizes,
    _queues: [Rc<CompletionQueue>; 2],
    regions: Vec<Rc<Region>>,
    /// Room for a list of requests, and for what they name.
    list: Vec<abi::SendRequest>,
    pieces: Vec<abi::Piece>,
}

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
        queues: [&Rc<CompletionQueue>; 2],
    ) -> Result<QueuePair, VerbsError> {
        let [send, receive] = queues.map(Rc::clone);
        let device = Rc::clone(&send.device);
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
    pub fn add(&mut self, region: &Rc<Region>) -> usize {
        self.regions.push(Rc::clone(region));
        self.regions.len() - 1
    }

    /// Connects it with the other end. Packets begin with `sequence`.
    ///
    /// # Errors
    /// The kernel or the device refuses a step: wrong addresses, most likely.
    pub fn connect(
        &mut self,
        link: &Link,
        sequence: u32,
        other: &Endpoint,
    ) -> Result<(), VerbsError> {
        self.other = other.number;
        self.initialise(link)?;
        match self.service {
            Service::Datagram => self.connect_datagrams(link, sequence, other),
            Service::Reliable | Service::Unreliable => self.connect_to(link, sequence, other),
        }
    }

    fn initialise(&self, link: &Link) -> Result<(), VerbsError> {
        let mut attributes = abi::QueuePairAttributes { state: state::INIT, ..Default::default() };
        attributes.port = link.port;
        let mut which = mask::STATE | mask::PKEY | mask::PORT;
        match self.service {
            Service::Datagram => {
                attributes.qkey = DATAGRAM_KEY;
                which |= mask::QKEY;
            }
            Service::Unreliable => {
                attributes.access = access::LOCAL_WRITE | access::REMOTE_WRITE;
                which |= mask::ACCESS;
            }
            Service::Reliable => {
                attributes.access =
                    access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ;
                which |= mask::ACCESS;
            }
        }
        self.modify(&mut attributes, which)
    }

    fn connect_to(&self, link: &Link, sequence: u32, other: &Endpoint) -> Result<(), VerbsError> {
        let reliable = self.service == Service::Reliable;
        let mut attributes = abi::QueuePairAttributes {
            state: state::READY_TO_RECEIVE,
            mtu: mtu_code(link.mtu),
            other_number: other.number,
            receive_sequence: other.sequence,
            address: address(link, other.address),
            most_answered_reads: link.reads,
            // 0.01 ms, as perftest's write and read tests have; senders ask again until a receive is there.
            receiver_not_ready_timer: 1,
            ..Default::default()
        };
        let mut which =
            mask::STATE | mask::MTU | mask::OTHER_NUMBER | mask::RECEIVE_SEQUENCE | mask::ADDRESS;
        if reliable {
            which |= mask::MOST_ANSWERED_READS | mask::RNR_TIMER;
        }
        self.modify(&mut attributes, which)?;
        let mut attributes = abi::QueuePairAttributes {
            state: state::READY_TO_SEND,
            send_sequence: sequence,
            timeout: link.timeout,
            retries: link.retries,
            receiver_not_ready_retries: 7,
            most_reads: link.reads,
            ..Default::default()
        };
        let mut which = mask::STATE | mask::SEND_SEQUENCE;
        if reliable {
            which |= mask::TIMEOUT | mask::RETRIES | mask::RNR_RETRIES | mask::MOST_READS;
        }
        self.modify(&mut attributes, which)
    }

    fn connect_datagrams(
        &mut self,
        link: &Link,
        sequence: u32,
        other: &Endpoint,
    ) -> Result<(), VerbsError> {
        let mut attributes =
            abi::QueuePairAttributes { state: state::READY_TO_RECEIVE, ..Default::default() };
        self.modify(&mut attributes, mask::STATE)?;
        let mut attributes = abi::QueuePairAttributes {
            state: state::READY_TO_SEND,
            send_sequence: sequence,
            ..Default::default()
        };
        self.modify(&mut attributes, mask::STATE | mask::SEND_SEQUENCE)?;
        let create =
            self.device.verbs.calls.create_ah.ok_or(VerbsError::Absent("ibv_create_ah"))?;
        let mut attributes = address(link, other.address);
        // SAFETY: the domain is open, and the structure is complete.
        self.address = unsafe { create(self.device.domain, &raw mut attributes) };
        match self.address.is_null() {
            true => Err(refused("ibv_create_ah", self.device.name(), &io::Error::last_os_error())),
            false => Ok(()),
        }
    }

    fn modify(
        &self,
        attributes: &mut abi::QueuePairAttributes,
        which: i32,
    ) -> Result<(), VerbsError> {
        let modify = self.device.verbs.calls.modify_qp;
        let modify = modify.ok_or(VerbsError::Absent("ibv_modify_qp"))?;
        // SAFETY: the queue pair exists; the mask names fields that are set.
        let status = unsafe { modify(self.pair, attributes, which) };
        self.device.checked("ibv_modify_qp", status)
    }

    /// Posts requests that use memory number `memory` ([`QueuePair::add`]), as one list of 1 to [`MOST_LISTED`].
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
                    Work::Read(..) => opcode::READ,
                },
                flags: self.flags(&request),
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
            Work::Write(memory, offset) | Work::Read(memory, offset) => {
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

    fn flags(&self, request: &Request) -> u32 {
        let signaled = if request.signaled { abi::SIGNALED } else { 0 };
        let copied = !matches!(request.work, Work::Read(..))
            && request.range.len() <= self.sizes.inline_bytes as usize;
        signaled | if copied { abi::INLINE } else { 0 }
    }

    /// Posts `count` receives into the same bytes of memory number `memory`, whose first bytes take the header of datagrams
    /// ([`Service::header`]).
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
            let mut bad = ptr::null_mut();
            // SAFETY: as in `post`.
            let status = unsafe {
                let post = (*(*self.pair).context).ops.post_recv;
                post.ok_or(VerbsError::Absent("post_recv"))?(
                    self.pair,
                    &raw mut request,
                    &raw mut bad,
                )
            };
            self.device.checked("ibv_post_recv", status)?;
        }
        Ok(())
    }
}

/// The way to the other end's port.
fn address(link: &Link, other: Address) -> abi::AddressAttributes {
    abi::AddressAttributes {
        gid: abi::Gid(other.gid.unwrap_or_default()),
        own_gid_index: link.gid_index,
        hop_limit: if other.gid.is_some() { 64 } else { 0 },
        traffic_class: link.traffic_class,
        lid: other.lid,
        service_level: link.service_level,
        is_global: u8::from(other.gid.is_some()),
        port: link.port,
        ..Default::default()
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
