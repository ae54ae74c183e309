//! Options of the `verbs` backend alone: which verb moves messages, over which kind of queue pair, how many at once.
//! Not the device (a resource of the run), and not the tests' loops (`busbw-runner`).

use serde::{Deserialize, Serialize};

/// What moves a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// RDMA write: the other end takes no part.
    #[default]
    Write,
    /// RDMA read: the end that begins fetches; a round trip is the time of one message.
    Read,
    /// Send, to a receive that the other end has posted.
    Send,
}

/// The kind of queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connection {
    /// Reliable, connected.
    #[default]
    Rc,
    /// Unreliable, connected.
    Uc,
    /// Datagrams.
    Ud,
}

impl Verb {
    /// Every verb, as options name it.
    pub const ALL: [(Verb, &'static str, &'static str); 3] = [
        (Verb::Write, "write", "RDMA write"),
        (Verb::Read, "read", "RDMA read"),
        (Verb::Send, "send", "Send and receive"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Verb::ALL.iter().find(|(verb, ..)| *verb == self).map_or("", |(_, name, _)| name)
    }

    /// Whether queue pairs of this kind have it (InfiniBand specification, table 46).
    pub fn is_of(self, connection: Connection) -> bool {
        match connection {
            Connection::Rc => true,
            Connection::Uc => self != Verb::Read,
            Connection::Ud => self == Verb::Send,
        }
    }
}

impl Connection {
    /// Every kind, as perftest's `-c` names it.
    pub const ALL: [(Connection, &'static str, &'static str); 3] = [
        (Connection::Rc, "RC", "Reliable, connected"),
        (Connection::Uc, "UC", "Unreliable, connected"),
        (Connection::Ud, "UD", "Datagrams"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Connection::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, name, _)| name)
    }

    /// Whether what was sent may be lost.
    pub fn is_lossy(self) -> bool {
        self != Connection::Rc
    }
}

/// How messages go over RDMA. The defaults are perftest's (perftest_parameters.h of 6.29: DEF_TX_BW, DEF_RX_SEND,
/// DEF_CQ_MOD, DEF_QP_TIME).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbsOptions {
    /// What moves a message.
    pub verb: Verb,
    /// The kind of queue pairs.
    pub connection: Connection,
    /// Queue pairs between two ranks, which messages take in turns.
    pub queue_pairs: u16,
    /// Messages of one queue pair in flight at once.
    pub send_depth: u32,
    /// Receives of one queue pair that are posted at once.
    pub receive_depth: u32,
    /// One of so many messages reports its completion.
    pub signal_every: u32,
    /// Requests that are posted with one call.
    pub listed: u32,
    /// Bytes up to which a message is copied when it is posted; by default as many as perftest has where latency is measured, else 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline_bytes: Option<u32>,
    /// Largest payload of a packet, in bytes; by default the smaller of the two ports'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Port of the device, from 1; by default the first that is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u8>,
    /// Index of the port's address; by default RoCE v2 for IPv4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid_index: Option<u8>,
    /// RDMA reads of one queue pair that are open at once; by default the device's most, up to 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_reads: Option<u8>,
    /// Whether the kernel's connection manager connects the queue pairs, and chooses their addresses and routes.
    #[serde(default)]
    pub connection_manager: bool,
    /// Traffic class: its upper six bits are RoCE v2's DSCP.
    pub traffic_class: u8,
    /// Service level, 0 to 15.
    pub service_level: u8,
    /// Time until a packet is sent again: 4.096 us × 2^this.
    pub timeout: u8,
    /// Whether the device keeps the order of packets in its writes over PCIe, where it need not.
    #[serde(default = "strict_before")]
    pub strict_ordering: bool,
    /// The GPU whose memory is used, by its number; by default the nearest to the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u16>,
    /// Whether a GPU's memory is given to the device as a dma-buf only.
    #[serde(default)]
    pub only_dma_buf: bool,
}

/// Plans of before there was a choice.
const fn strict_before() -> bool {
    true
}

impl Default for VerbsOptions {
    fn default() -> VerbsOptions {
        VerbsOptions {
            verb: Verb::default(),
            connection: Connection::default(),
            queue_pairs: 1,
            send_depth: 128,
            receive_depth: 512,
            signal_every: 100,
            listed: 1,
            inline_bytes: None,
            mtu: None,
            port: None,
            gid_index: None,
            open_reads: None,
            connection_manager: false,
            traffic_class: 0,
            service_level: 0,
            timeout: 14,
            strict_ordering: false,
            gpu: None,
            only_dma_buf: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_specifications_verbs() {
        let all = |connection| Verb::ALL.map(|(verb, ..)| verb.is_of(connection));
        assert_eq!(all(Connection::Rc), [true; 3]);
        assert_eq!(all(Connection::Uc), [true, false, true]);
        assert_eq!(all(Connection::Ud), [false, false, true]);
    }
}
