//! A path's queue pair, made on a port and connected, and what its requests are numbered.
//! Not what is written when (`sender`, `receiver`).

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use busbw_verbs::{
    CompletionQueue, Endpoint, Link, QueuePair, RemoteMemory, Service, Sizes, VerbsError,
};

use super::{MAX_PORTS, PATHS, exchange::End, ports::OpenPort, retired::Retiring};
use crate::log;

/// Requests of a queue pair: chunks in flight are fewer, and each request of NCCL's is one message at least.
pub(super) const SENDS: u32 = 128;
/// Receives that wait for numbers; as many as may arrive before anybody looks, else the sender's device asks again.
pub(super) const RECEIVES: u32 = 256;
/// A word of clear-to-send is copied into its request where the device can.
const INLINE: u32 = 64;
/// Paths of a connection at most, of which the other end may put all over one of our ports.
const MOST_PATHS: u32 = if PATHS > MAX_PORTS { PATHS as u32 } else { MAX_PORTS as u32 };
/// Entries of a completion queue that all paths over a port share.
const ENTRIES: u32 = (SENDS + RECEIVES) * MOST_PATHS;

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A chunk is written.
    Chunk,
    /// A few bytes are written to see whether the path delivers.
    Ping,
    /// A word of clear-to-send is written.
    Grant,
    /// A chunk has arrived.
    Arrival,
    /// An acknowledgement is written.
    Acknowledgement,
    /// A GPU's memory was read back.
    Flush,
}

/// A request's number: what it is, and of which path and epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag {
    pub kind: Kind,
    pub path: usize,
    pub epoch: u32,
}

impl Tag {
    pub(super) fn number(self) -> u64 {
        let kind = match self.kind {
            Kind::Chunk => 0,
            Kind::Ping => 1,
            Kind::Grant => 2,
            Kind::Arrival => 3,
            Kind::Flush => 4,
            Kind::Acknowledgement => 5,
        };
        kind << 48 | (self.path as u64) << 32 | u64::from(self.epoch)
    }

    pub(super) fn of(number: u64) -> Option<Tag> {
        let kind = match number >> 48 {
            0 => Kind::Chunk,
            1 => Kind::Ping,
            2 => Kind::Grant,
            3 => Kind::Arrival,
            4 => Kind::Flush,
            5 => Kind::Acknowledgement,
            _ => return None,
        };
        // 16 and 32 bits.
        Some(Tag { kind, path: (number >> 32 & 0xffff) as usize, epoch: number as u32 })
    }
}

/// A completion queue for all paths over a port.
///
/// # Errors
/// The device has no room.
pub(super) fn queue(port: &OpenPort) -> Result<Arc<CompletionQueue>, VerbsError> {
    CompletionQueue::new(&port.device, ENTRIES)
}

/// Whether the device of a port has unreliable queue pairs (UC), which is tried once; where it has not, it is said.
pub(super) fn has_unreliable(port: &OpenPort, queue: &Arc<CompletionQueue>) -> bool {
    *port.has_unreliable.get_or_init(|| {
        let lacking = Made::new(queue, false).err();
        if let Some(why) = &lacking {
            log::info(&format!(
                "NET/busbw: {} has reliable queue pairs alone, which are used (RC): {why}",
                port.name()
            ));
        }
        lacking.is_none()
    })
}

/// Queue pairs that this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A queue pair that is not connected yet, and the number of its first packet.
pub(super) struct Made {
    pub pair: Retiring,
    pub sequence: u32,
    is_reliable: bool,
}

impl Made {
    /// # Errors
    /// The device has no room, or no such queue pairs.
    pub(super) fn new(queue: &Arc<CompletionQueue>, is_reliable: bool) -> Result<Made, VerbsError> {
        let service = if is_reliable { Service::Reliable } else { Service::Unreliable };
        let sizes = |inline_bytes| Sizes { send: SENDS, receive: RECEIVES, inline_bytes };
        let pair = QueuePair::new(service, sizes(INLINE), [queue, queue])
            .or_else(|_| QueuePair::new(service, sizes(0), [queue, queue]))?;
        // Not that of an earlier queue pair of this number, whose late packets are not taken for its own then.
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let sequence = (pair.number() ^ made.rotate_left(12)).wrapping_mul(0x9e37_79b9) >> 8;
        Ok(Made { pair: Retiring::new(pair), sequence, is_reliable })
    }

    /// What the other end is told.
    pub(super) fn end(&self, port: &OpenPort, which: usize, memory: RemoteMemory) -> End {
        End {
            endpoint: Endpoint {
                number: self.pair.number(),
                sequence: self.sequence,
                address: port.address,
            },
            mtu: port.mtu,
            is_ethernet: port.port.is_ethernet,
            is_reliable: self.is_reliable,
            // There are at most MAX_PORTS.
            port: which as u8,
            memory,
        }
    }

    /// Connects it.
    ///
    /// # Errors
    /// The ports are of two kinds, or their addresses do not belong together.
    pub(super) fn connect(mut self, port: &OpenPort, other: &End) -> Result<Retiring, String> {
        if port.port.is_ethernet != other.is_ethernet {
            let name = |is_ethernet| if is_ethernet { "Ethernet" } else { "InfiniBand" };
            return Err(format!(
                "{}:{} is {}, the other end's port is {}: name ports that belong together with NCCL_IB_HCA",
                port.port.device,
                port.port.number,
                name(port.port.is_ethernet),
                name(other.is_ethernet)
            ));
        }
        let link = Link { mtu: port.mtu.min(other.mtu), ..port.link };
        self.pair
            .connect(&link, self.sequence, &other.endpoint)
            .map_err(|error| error.to_string())?;
        Ok(self.pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let kinds = [
            Kind::Chunk,
            Kind::Ping,
            Kind::Grant,
            Kind::Arrival,
            Kind::Flush,
            Kind::Acknowledgement,
        ];
        for kind in kinds {
            let tag = Tag { kind, path: 15, epoch: u32::MAX - 3 };
            assert_eq!(Tag::of(tag.number()), Some(tag));
        }
        assert_eq!(Tag::of(u64::MAX), None);
    }
}
