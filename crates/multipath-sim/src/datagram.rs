//! Datagrams: sent once, perhaps lost, late or doubled, in any order; as RDMA's unreliable queue pairs (UC, UD) send.
//! Not what makes them reliable.

use std::collections::VecDeque;

use crate::{
    Content, Simulation,
    link::ETHERNET,
    network::Label,
    packet::{Body, Packet},
};

/// One direction between two hosts on which datagrams are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow(pub(crate) usize);

pub(crate) struct State {
    pub(crate) ways: usize,
    pub(crate) forward: bool,
    pub(crate) label: Label,
    /// Bytes of a packet, without the Ethernet header; and of its other headers.
    packet: (u32, u32),
    pub(crate) arrived: VecDeque<Content>,
}

impl Simulation {
    /// A flow over these ways, there or (`forward` false) back. A datagram becomes packets of at most `mtu` bytes with
    /// `headers` bytes of headers in each, which travel together: it arrives completely or not at all.
    pub fn flow(
        &mut self,
        ways: usize,
        forward: bool,
        label: Label,
        mtu: u32,
        headers: u32,
    ) -> Flow {
        assert!(headers < mtu);
        let packet = (mtu, headers);
        self.flows.push(State { ways, forward, label, packet, arrived: VecDeque::new() });
        Flow(self.flows.len() - 1)
    }

    /// Sends a datagram.
    pub fn send(&mut self, flow: Flow, content: Content) {
        let State { forward, packet: (mtu, headers), .. } = self.flows[flow.0];
        let payload = u32::try_from(content.bytes()).unwrap_or(u32::MAX / 2);
        let packets = payload.div_ceil(mtu - headers).max(1);
        self.forward(Packet {
            flow: flow.0,
            forward,
            stage: 0,
            bytes: payload + packets * (headers + ETHERNET),
            longest: payload.min(mtu - headers) + headers,
            body: Body::Datagram(content),
        });
    }

    /// A datagram that has arrived.
    pub fn receive(&mut self, flow: Flow) -> Option<Content> {
        self.flows[flow.0].arrived.pop_front()
    }
}
