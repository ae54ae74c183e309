//! One line of the file as a rule: for which calls, and what NCCL is to take.
//! Not its text (`reading`), and not which line counts (`choices`).

use std::fmt;

use crate::words::{Algorithm, Collective, Protocol};

/// The most channels of a communicator (MAXCHANNELS in src/include/device.h of NCCL 2.30.7).
pub const MOST_CHANNELS: u8 = 64;

/// What a tuner is asked at a call: what all ranks of a communicator know alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The collective.
    pub collective: Collective,
    /// Bytes, as NCCL counts them for a tuner: of the larger of a rank's two buffers.
    pub bytes: u64,
    /// Operations that NCCL runs as one (numPipeOps), at least 1.
    pub pipe_ops: u32,
    /// Ranks of the communicator.
    pub ranks: u64,
    /// Nodes of the communicator.
    pub nodes: u64,
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// For this collective.
    pub collective: Collective,
    /// From so many bytes on.
    pub least_bytes: u64,
    /// To so many bytes, these included.
    pub most_bytes: u64,
    /// The algorithm that NCCL is to take.
    pub algorithm: Algorithm,
    /// The protocol that NCCL is to take.
    pub protocol: Protocol,
    /// Channels, 1 to [`MOST_CHANNELS`]; `None` leaves them to NCCL.
    pub channels: Option<u8>,
    /// For communicators of so many nodes; `None` for all.
    pub nodes: Option<u32>,
    /// For communicators of so many ranks; `None` for all.
    pub ranks: Option<u32>,
    /// For so many operations in one; `None` for all.
    pub pipe_ops: Option<u32>,
}

impl Entry {
    /// Whether the line is for this call.
    #[must_use]
    pub fn matches(&self, call: &Call) -> bool {
        self.collective == call.collective
            && (self.least_bytes..=self.most_bytes).contains(&call.bytes)
            && self.fits(call.ranks, call.nodes)
            && self.pipe_ops.is_none_or(|wanted| wanted == call.pipe_ops)
    }

    /// Whether the line is for communicators of so many ranks and nodes.
    #[must_use]
    pub fn fits(&self, ranks: u64, nodes: u64) -> bool {
        self.ranks.is_none_or(|wanted| u64::from(wanted) == ranks)
            && self.nodes.is_none_or(|wanted| u64::from(wanted) == nodes)
    }
}

/// The line as the file has it, without its end. Channels that NCCL chooses are 0, not -1: of -1 NCCL's example makes
/// one channel, since it writes 1 before it looks for a line (plugin.c), and 0 is what means NCCL's own (enqueue.cc).
impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = |wanted: Option<u32>| wanted.map_or(-1, i64::from);
        write!(
            out,
            "{},{},{},{},{},{},{},{}",
            self.collective,
            self.least_bytes,
            self.most_bytes,
            self.algorithm,
            self.protocol,
            self.channels.unwrap_or(0),
            any(self.nodes),
            any(self.ranks)
        )?;
        self.pipe_ops.map_or(Ok(()), |wanted| write!(out, ",{wanted}"))
    }
}
