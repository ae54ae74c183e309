//! What travels over links: TCP's segments and datagrams.
//! Not what sends them.

use crate::Content;

/// A packet, or several that travel together (segmentation offload).
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    /// Number of its flow.
    pub flow: usize,
    /// Whether it goes to the end that was connected to.
    pub forward: bool,
    /// Which stage of its route is next.
    pub stage: usize,
    /// With all headers.
    pub bytes: u32,
    /// The longest of the packets, without the Ethernet header.
    pub longest: u32,
    pub body: Body,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
    Segment(Segment),
    Datagram(Content),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Syn,
    SynAck,
    Data,
    Reset,
}

/// Ranges of bytes that have arrived out of order, the newest first, as a TCP header holds them.
pub(crate) type Sacks = [(u64, u64); 3];

/// A segment of TCP.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub kind: Kind,
    pub seq: u64,
    /// Bytes of the stream; its end counts as one.
    pub bytes: u32,
    pub has_end: bool,
    /// Whether it only asks for an acknowledgement.
    pub asks: bool,
    /// Everything before this has arrived.
    pub ack: u64,
    /// Bytes behind `ack` that may be sent.
    pub window: u64,
    pub sacks: Sacks,
}
