//! Reading back what was received into a GPU's memory, so that all writes before have reached it: a queue pair of each port,
//! connected to itself, since each adapter has writes of its own under way.
//! Not for host memory, which needs none; when it is needed is NCCL's to say (`iflush`).
//!
//! As NCCL's own IB transport does (`gpuFlush` of src/transport/net_ib/connect.cc and p2p.cc).

use std::sync::Arc;

use busbw_verbs::{CompletionQueue, PcieOrdering, Place, Region, RemoteMemory, VerbsError};

use super::{
    ports::OpenPort,
    queue_pairs::{Kind, Made, Tag},
    retired::Retiring,
};
use crate::network::Request;

/// The queue pair, and the byte that is read into.
pub(super) struct Flush {
    // Before what it reads into.
    pair: Retiring,
    into: Arc<Region>,
}

impl Flush {
    /// # Errors
    /// The device has no room, or does not reach itself.
    pub(super) fn new(port: &OpenPort, queue: &Arc<CompletionQueue>) -> Result<Flush, String> {
        let told = |error: VerbsError| error.to_string();
        let into = Region::new(&port.device, 1, PcieOrdering::Strict).map_err(told)?;
        let made = Made::new(queue, true).map_err(told)?;
        let itself = made.end(port, 0, into.remote());
        Ok(Flush { pair: made.connect(port, &itself)?, into })
    }

    /// Reads the first byte there; its completion says that what was written before is there.
    pub(super) fn read(&mut self, from: u64, key: u32, request: Request) -> Result<(), VerbsError> {
        let tag = Tag { kind: Kind::Flush, path: request, epoch: 0 };
        let into = self.into.remote();
        let place = Place { address: into.address, bytes: 1, key: self.into.local_key() };
        // SAFETY: the byte is there for as long as the queue pair.
        unsafe { self.pair.read(tag.number(), place, RemoteMemory { address: from, key }) }
    }
}
