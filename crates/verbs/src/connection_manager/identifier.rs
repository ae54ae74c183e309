//! One end of a connection: what it asks of the connection manager, and the states of its queue pair.
//! Not what happens to it (`ConnectionManager::next`).

use super::{Identifier, Key, RESOLVE_TIMEOUT, abi, checked, milliseconds};
use crate::{
    Link, QueuePair, VerbsError,
    abi::{QueuePairAttributes, access, mask, state},
    device::mtu_code,
};

/// Bytes that a request to connect may say, of those of RDMA_PS_TCP (rdma_connect(3)).
const MOST_SAID: usize = 56;

impl Identifier {
    /// What tells it from others.
    #[must_use]
    pub fn key(&self) -> Key {
        Key(self.id.addr())
    }

    /// Begins to find the route to an address that was found.
    ///
    /// # Errors
    /// The library refuses it.
    pub fn find_route(&self) -> Result<(), VerbsError> {
        let resolve = self.manager.calls.resolve_route;
        let resolve = resolve.ok_or(VerbsError::Absent("rdma_resolve_route"))?;
        // SAFETY: the identifier exists.
        let status = unsafe { resolve(self.id, milliseconds(RESOLVE_TIMEOUT)) };
        checked("rdma_resolve_route", "the other end", status)
    }

    /// Asks the other end to connect this queue pair, and says something, 56 bytes at most.
    ///
    /// # Errors
    /// The library refuses it.
    pub fn connect(&self, pair: &QueuePair, link: &Link, said: &[u8]) -> Result<(), VerbsError> {
        let connect = self.manager.calls.connect.ok_or(VerbsError::Absent("rdma_connect"))?;
        let mut parameters = parameters(pair, link, &said[..said.len().min(MOST_SAID)]);
        // SAFETY: the identifier exists; the structure is complete, and what it names outlives the call.
        checked("rdma_connect", "the other end", unsafe { connect(self.id, &raw mut parameters) })
    }

    /// Accepts what was requested, by a queue pair that is [prepared](Identifier::prepare).
    ///
    /// # Errors
    /// The library refuses it.
    pub fn accept(&self, pair: &QueuePair, link: &Link) -> Result<(), VerbsError> {
        let accept = self.manager.calls.accept.ok_or(VerbsError::Absent("rdma_accept"))?;
        let mut parameters = parameters(pair, link, &[]);
        // SAFETY: as in `connect`.
        checked("rdma_accept", "the other end", unsafe { accept(self.id, &raw mut parameters) })
    }

    /// Tells the other end, which has accepted, that the queue pair is [prepared](Identifier::prepare).
    ///
    /// # Errors
    /// The library refuses it.
    pub fn establish(&self) -> Result<(), VerbsError> {
        let establish = self.manager.calls.establish.ok_or(VerbsError::Absent("rdma_establish"))?;
        // SAFETY: the identifier exists.
        checked("rdma_establish", "the other end", unsafe { establish(self.id) })
    }

    /// Brings a queue pair to where it receives and sends, over the route that was found. What the link says of MTU, timeouts, reads
    /// and traffic class holds; its addresses do not. Returns the index of the address that was chosen.
    ///
    /// # Errors
    /// The device that the address belongs to is another one, or refuses a step.
    pub fn prepare(&self, pair: &mut QueuePair, link: &Link) -> Result<u8, VerbsError> {
        let mut gid_index = 0;
        let ask = self.manager.calls.init_qp_attr;
        let ask = ask.ok_or(VerbsError::Absent("rdma_init_qp_attr"))?;
        for next in [state::INIT, state::READY_TO_RECEIVE, state::READY_TO_SEND] {
            let mut attributes = QueuePairAttributes { state: next, ..Default::default() };
            let mut which = 0;
            // SAFETY: the identifier exists, and the structure has room for any version's.
            let status = unsafe { ask(self.id, &raw mut attributes, &raw mut which) };
            checked("rdma_init_qp_attr", pair.device.name(), status)?;
            match next {
                state::INIT => {
                    which |= mask::ACCESS;
                    attributes.access =
                        access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ;
                }
                state::READY_TO_RECEIVE => {
                    pair.other = attributes.other_number;
                    gid_index = attributes.address.own_gid_index;
                    attributes.mtu = attributes.mtu.min(mtu_code(link.mtu));
                    attributes.address.traffic_class = link.traffic_class;
                    attributes.most_answered_reads = link.reads;
                    attributes.receiver_not_ready_timer = 1;
                }
                _ => {
                    attributes.timeout = link.timeout;
                    attributes.retries = link.retries;
                    attributes.receiver_not_ready_retries = 7;
                    attributes.most_reads = link.reads;
                }
            }
            pair.modify(&mut attributes, which)?;
        }
        Ok(gid_index)
    }
}

impl Drop for Identifier {
    fn drop(&mut self) {
        if let Some(destroy) = self.manager.calls.destroy_id {
            // SAFETY: once; all of its events were acknowledged as they were read.
            unsafe { destroy(self.id) };
        }
    }
}

fn parameters(pair: &QueuePair, link: &Link, said: &[u8]) -> abi::Parameters {
    abi::Parameters {
        said: if said.is_empty() { std::ptr::null() } else { said.as_ptr().cast() },
        // 56 at most.
        said_bytes: said.len() as u8,
        answered_reads: link.reads,
        open_reads: link.reads,
        flow_control: 0,
        retries: link.retries,
        receiver_not_ready_retries: 7,
        shared: 0,
        number: pair.number(),
    }
}
