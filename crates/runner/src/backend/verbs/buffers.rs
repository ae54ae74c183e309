//! A rank's registered memory: what it sends from and where it receives.
//! Not the messages.

use std::sync::Arc;

use busbw_verbs::{Device, Region, VerbsError};

use crate::backend::Side;

/// Bytes in front of what is received: datagrams come with a header of 40 bytes, and data stays aligned.
pub(super) const HEADROOM: usize = 64;

/// The two buffers.
pub(super) struct Buffers {
    pub(super) send: Arc<Region>,
    pub(super) recv: Arc<Region>,
}

impl Buffers {
    /// Buffers of so many bytes each.
    pub(super) fn new(device: &Arc<Device>, bytes: usize) -> Result<Buffers, VerbsError> {
        Ok(Buffers {
            send: Region::new(device, bytes)?,
            recv: Region::new(device, HEADROOM + bytes)?,
        })
    }

    /// The memory of a side, and where its data begins.
    pub(super) fn of(&self, side: Side) -> (&Arc<Region>, usize) {
        match side {
            Side::Send => (&self.send, 0),
            Side::Recv => (&self.recv, HEADROOM),
        }
    }
}
