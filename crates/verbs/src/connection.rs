//! How a queue pair is connected with another: the states that it goes through, and the addresses that it needs.
//! Not how the two ends exchange these addresses, and not work (`queue_pair`).

use std::io;

use super::{
    QueuePair, Service, VerbsError, abi,
    abi::{access, mask, state},
    device::mtu_code,
    error::refused,
    queue_pair::DATAGRAM_KEY,
};

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

impl QueuePair {
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

    /// Ends all that is under way, of either end: when this returns, the device reads and writes nothing for it any more,
    /// and what was posted completes as flushed.
    ///
    /// # Errors
    /// The device is gone.
    pub fn stop(&self) -> Result<(), VerbsError> {
        let mut attributes =
            abi::QueuePairAttributes { state: state::FAILED, ..Default::default() };
        self.modify(&mut attributes, mask::STATE)
    }

    pub(super) fn modify(
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
