//! Clear to send: where the receiver wants each message, written by it into a table at the sender; and that table, in which
//! acknowledgements have their place, too.
//! Not when it is written or looked for (`receiver`, `sender`).
//!
//! As NCCL's own IB transport has it (src/transport/net_ib/p2p.cc, its "FIFO"): the receiver writes a word for each receive that
//! is posted, and the sender begins a message when it finds the word. A word may be written again, which changes nothing.

use std::sync::Arc;

use busbw_multipath::{MAX_PATHS, frame::take};
use busbw_verbs::{PcieOrdering, Place, Region, Registration, RemoteMemory, VerbsError};

use super::{MAX_PORTS, acknowledgement::Acknowledgement, ports::OpenPort};

/// Words of a table: four times as many as receives may be open, so that one that is written late, by a path that
/// was held up, meets no other message's.
const SLOTS: u64 = 4 * crate::network::REQUESTS as u64;
/// Bytes of a word: a line of the processor's cache, so that it is written at once.
pub(super) const BYTES: usize = 64;
/// Behind the words of clear-to-send: the place of pings, and of an acknowledgement for each path.
const PING: u64 = SLOTS;
const ACKNOWLEDGEMENTS: u64 = SLOTS + 1;

/// Where a message is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Grant {
    /// Number of the message in the connection.
    pub message: u64,
    /// The receiver's memory, and its bytes.
    pub address: u64,
    pub bytes: u64,
    /// The memory's key on each of the receiver's ports.
    pub keys: [u32; MAX_PORTS],
}

impl Grant {
    fn encoded(&self) -> [u8; BYTES] {
        let mut word = [0; BYTES];
        word[..8].copy_from_slice(&self.mark().to_le_bytes());
        word[8..16].copy_from_slice(&self.address.to_le_bytes());
        word[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        for (place, key) in word[24..56].chunks_exact_mut(4).zip(self.keys) {
            place.copy_from_slice(&key.to_le_bytes());
        }
        const { assert!(24 + 4 * MAX_PORTS <= 56) };
        // Last, so that whoever finds both has what is between.
        word[56..].copy_from_slice(&(!self.mark()).to_le_bytes());
        word
    }

    /// Not 0, as an empty table has it.
    fn mark(&self) -> u64 {
        self.message + 1
    }

    fn decoded(word: &[u8; BYTES]) -> Option<Grant> {
        let mark = u64::from_le_bytes(take(word, 0));
        let is_whole = mark > 0 && u64::from_le_bytes(take(word, 56)) == !mark;
        is_whole.then(|| Grant {
            message: mark - 1,
            address: u64::from_le_bytes(take(word, 8)),
            bytes: u64::from_le_bytes(take(word, 16)),
            keys: std::array::from_fn(|port| u32::from_le_bytes(take(word, 24 + 4 * port))),
        })
    }
}

/// Memory with a word for each message, and for each path an acknowledgement, which all ports of an end know. The sender's is
/// written by the receiver; the receiver's is what it writes from.
pub(super) struct Table {
    // Before the memory that they are of.
    others: Vec<Registration>,
    region: Arc<Region>,
}

impl Table {
    /// # Errors
    /// There is no memory, or it cannot be locked.
    pub(super) fn new(ports: &[Arc<OpenPort>]) -> Result<Table, VerbsError> {
        let bytes = (ACKNOWLEDGEMENTS as usize + MAX_PATHS) * BYTES;
        // Whoever polls a word takes its last bytes for the sign that all of it is there.
        let ordering = PcieOrdering::Strict;
        let region = Region::new(&ports[0].device, bytes, ordering)?;
        let address = region.remote().address as *mut u8;
        let others = ports[1..].iter().map(|port| {
            // SAFETY: the region's memory, which is dropped after this; bytes are only copied in and out of it.
            unsafe { Registration::of_memory(&port.device, address, bytes, ordering) }
        });
        Ok(Table { others: others.collect::<Result<_, _>>()?, region })
    }

    /// The table as the other end knows it by one of our ports.
    pub(super) fn remote(&self, port: usize) -> RemoteMemory {
        let RemoteMemory { address, key } = self.region.remote();
        let others = port.checked_sub(1).and_then(|port| self.others.get(port));
        RemoteMemory { address, key: others.map_or(key, Registration::remote_key) }
    }

    /// Where pings go to, in a table that the other end knows by this.
    pub(super) fn ping(table: RemoteMemory) -> RemoteMemory {
        RemoteMemory { address: table.address.wrapping_add(PING * BYTES as u64), ..table }
    }

    /// And where they come from, over one of our ports.
    pub(super) fn ping_from(&self, port: usize) -> Place {
        let address = self.region.remote().address + PING * BYTES as u64;
        Place { address, bytes: 8, key: self.own_key(port) }
    }

    fn own_key(&self, port: usize) -> u32 {
        let others = port.checked_sub(1).and_then(|port| self.others.get(port));
        others.map_or_else(|| self.region.local_key(), Registration::local_key)
    }

    fn at(message: u64) -> usize {
        (message % SLOTS) as usize * BYTES
    }

    /// The word of a message, if it is there.
    pub(super) fn find(&self, message: u64) -> Option<Grant> {
        let mut word = [0; BYTES];
        self.region.read(Table::at(message), &mut word).ok()?;
        Grant::decoded(&word).filter(|grant| grant.message == message)
    }

    /// Writes a word here: what of our memory is to be written to the other end's table, over one of our ports, and where there.
    pub(super) fn put(
        &self,
        grant: &Grant,
        port: usize,
        there: RemoteMemory,
    ) -> Result<(Place, RemoteMemory), VerbsError> {
        self.put_at(Table::at(grant.message), &grant.encoded(), port, there)
    }

    /// The same of a path's acknowledgement.
    pub(super) fn put_acknowledgement(
        &self,
        path: usize,
        acknowledgement: &Acknowledgement,
        port: usize,
        there: RemoteMemory,
    ) -> Result<(Place, RemoteMemory), VerbsError> {
        self.put_at(Table::of_path(path), &acknowledgement.encoded(), port, there)
    }

    fn put_at(
        &self,
        at: usize,
        word: &[u8; BYTES],
        port: usize,
        there: RemoteMemory,
    ) -> Result<(Place, RemoteMemory), VerbsError> {
        self.region.write(at, word)?;
        let address = self.region.remote().address + at as u64;
        let place = Place { address, bytes: BYTES as u32, key: self.own_key(port) };
        let there = RemoteMemory { address: there.address.wrapping_add(at as u64), ..there };
        Ok((place, there))
    }

    /// The newest acknowledgement of a path, if there is one.
    pub(super) fn acknowledgement(&self, path: usize) -> Option<Acknowledgement> {
        let mut word = [0; BYTES];
        self.region.read(Table::of_path(path), &mut word).ok()?;
        Acknowledgement::decoded(&word)
    }

    fn of_path(path: usize) -> usize {
        (ACKNOWLEDGEMENTS as usize + path) * BYTES
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_come_back(message in 0..u64::MAX, address: u64, bytes: u64, keys: [u32; MAX_PORTS]) {
            let grant = Grant { message, address, bytes, keys };
            prop_assert_eq!(Grant::decoded(&grant.encoded()), Some(grant));
        }

        #[test]
        fn half_a_word_is_none(message in 0..u64::MAX, before in 0..u64::MAX, cut in 1..BYTES) {
            let [new, old] = [message, before].map(|message| Grant { message, ..Grant::default() }.encoded());
            let mixed: Vec<u8> = [&new[..cut], &old[cut..]].concat();
            let found = Grant::decoded(&mixed.try_into().unwrap());
            prop_assert!(message == before || found.is_none_or(|found| cut > 56 || found.message != message));
        }
    }

    #[test]
    fn an_empty_table_has_no_word() {
        assert_eq!(Grant::decoded(&[0; BYTES]), None);
    }
}
