//! A flow-level simulator: bytes that share links by max-min fairness, event driven and deterministic.
//! Not packets, queues or congestion control: a flow has its fair rate at once. What a link is, the caller knows.
//!
//! Model: SimGrid's and ATLAHS' fluid networks (Casanova et al., JPDC 74(10), 2014, section 4.1; arXiv 2505.08936,
//! section 3): rates change only when a flow starts or ends, or a link or a path changes. Units: bytes, microseconds, bytes
//! per microsecond.

mod classes;
mod fair;
mod file;
mod last;
mod simulate;

pub use classes::{Classes, classes};
pub use file::{BadFlowFile, FlowFile, Packet, parse};
pub use last::{Bounds, End, last};
pub use simulate::{Change, Changed, Flow, Outcome, simulate, simulate_changing};

/// Bytes per microsecond of 1 GB/s.
pub const BYTES_PER_US: f64 = 1e3;

/// What a flow takes of a link for each byte that it sends: 1 where all of it crosses, 0.25 where a quarter does, and
/// 3 where the flow stands for three that cross.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Index of the link.
    pub link: u32,
    /// Bytes of the link per byte of the flow; above 0.
    pub weight: f64,
}

impl Share {
    /// All of a flow crosses a link.
    pub const fn whole(link: u32) -> Share {
        Share { link, weight: 1.0 }
    }
}

/// Adds up the shares of links that a path names several times, in the order of links.
pub fn merge(path: &mut Vec<Share>) {
    path.sort_by_key(|share| share.link);
    path.dedup_by(|next, kept| {
        let same = next.link == kept.link;
        if same {
            kept.weight += next.weight;
        }
        same
    });
}

#[cfg(test)]
mod properties;
