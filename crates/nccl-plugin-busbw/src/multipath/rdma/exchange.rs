//! What the two ends of a path say to each other over its TCP connection: their queue pairs, and when they have stopped one.
//! Not messages, which queue pairs carry; nor the handshake before it (`busbw_multipath::frame`).
//!
//! All numbers are little endian; every word has 64 bytes. The TCP connection stays as long as the path: it ends when
//! either process does, which no queue pair would tell.

use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::OwnedFd,
};

use busbw_multipath::{Settled, frame::take};
use busbw_verbs::{Address, Endpoint, RemoteMemory};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::multipath::sockets;

/// Bytes of a word.
const BYTES: usize = 64;
/// The first two bytes of each.
const MARK: u16 = 0x7672;

/// An end of a path, as the other one needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// The queue pair, and its port's address.
    pub endpoint: Endpoint,
    /// Bytes of a packet on this port.
    pub mtu: u32,
    /// Whether the port is Ethernet's.
    pub is_ethernet: bool,
    /// Whether the queue pair is reliable (RC), or not (UC).
    pub is_reliable: bool,
    /// Which of the device's ports it is.
    pub port: u8,
    /// Memory that the other end may write to: the table of clear-to-send words, or a place for pings.
    pub memory: RemoteMemory,
}

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// The end that sends has this queue pair.
    Offer(End),
    /// The end that receives is connected to it, with this one.
    Answer(End),
    /// The end that sends is connected, too.
    Ready,
    /// Nothing more is sent in this connection.
    Fin,
    /// The queue pair of this path's epoch is gone at the end that sends.
    Stop(u32),
    /// And at the end that receives: so much has arrived by it. Of a reliable one everything below, and the rest is not said.
    Stopped(Settled),
}

impl Word {
    fn encoded(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..2].copy_from_slice(&MARK.to_le_bytes());
        match self {
            Word::Offer(end) => (bytes[2] = 1, end.write(&mut bytes)).1,
            Word::Answer(end) => (bytes[2] = 2, end.write(&mut bytes)).1,
            Word::Ready => bytes[2] = 3,
            Word::Fin => bytes[2] = 4,
            Word::Stop(epoch) => {
                bytes[2] = 5;
                bytes[8..12].copy_from_slice(&epoch.to_le_bytes());
            }
            Word::Stopped(Settled { below, arrived }) => {
                bytes[2] = 6;
                bytes[8..16].copy_from_slice(&below.to_le_bytes());
                bytes[16..24].copy_from_slice(&arrived.to_le_bytes());
            }
        }
        bytes
    }

    fn decoded(bytes: &[u8; BYTES]) -> Option<Word> {
        if u16::from_le_bytes(take(bytes, 0)) != MARK {
            return None;
        }
        match bytes[2] {
            1 => End::read(bytes).map(Word::Offer),
            2 => End::read(bytes).map(Word::Answer),
            3 => Some(Word::Ready),
            4 => Some(Word::Fin),
            5 => Some(Word::Stop(u32::from_le_bytes(take(bytes, 8)))),
            6 => Some(Word::Stopped(Settled {
                below: u64::from_le_bytes(take(bytes, 8)),
                arrived: u64::from_le_bytes(take(bytes, 16)),
            })),
            _ => None,
        }
    }
}

impl End {
    fn write(&self, bytes: &mut [u8; BYTES]) {
        let Endpoint { number, sequence, address } = self.endpoint;
        let flags = [self.is_ethernet, address.gid.is_some(), !self.is_reliable];
        bytes[3] = (0..).zip(flags).fold(0, |all, (bit, flag)| all | u8::from(flag) << bit);
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..12].copy_from_slice(&sequence.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.mtu.to_le_bytes());
        bytes[16..32].copy_from_slice(&address.gid.unwrap_or_default());
        bytes[32..40].copy_from_slice(&self.memory.address.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.memory.key.to_le_bytes());
        bytes[44..46].copy_from_slice(&address.lid.to_le_bytes());
        bytes[46] = self.port;
    }

    fn read(bytes: &[u8; BYTES]) -> Option<End> {
        let mtu = u32::from_le_bytes(take(bytes, 12));
        let gid = (bytes[3] & 2 != 0).then(|| take::<16>(bytes, 16));
        let address = Address { gid, lid: u16::from_le_bytes(take(bytes, 44)) };
        let end = End {
            endpoint: Endpoint {
                number: u32::from_le_bytes(take(bytes, 4)),
                sequence: u32::from_le_bytes(take(bytes, 8)),
                address,
            },
            mtu,
            is_ethernet: bytes[3] & 1 != 0,
            is_reliable: bytes[3] & 4 == 0,
            port: bytes[46],
            memory: RemoteMemory {
                address: u64::from_le_bytes(take(bytes, 32)),
                key: u32::from_le_bytes(take(bytes, 40)),
            },
        };
        let is_mtu = (256..=4096).contains(&mtu) && mtu.is_power_of_two();
        (is_mtu && usize::from(end.port) < super::MAX_PORTS).then_some(end)
    }
}

/// Whatever is taken for a word is the same once it was written and read again, and names a port that there may be.
#[cfg(fuzzing)]
pub(in crate::multipath) fn decode(bytes: &[u8]) {
    let Some((word, _)) = bytes.split_first_chunk::<BYTES>() else { return };
    let Some(word) = Word::decoded(word) else { return };
    assert_eq!(Word::decoded(&word.encoded()), Some(word));
    if let Word::Offer(end) | Word::Answer(end) = word {
        assert!(usize::from(end.port) < super::MAX_PORTS);
    }
}

/// A TCP connection that carries words.
#[derive(Debug)]
pub(super) struct Talk {
    pub socket: OwnedFd,
    bytes: [u8; BYTES],
    read: usize,
}

impl Talk {
    pub(super) fn new(socket: OwnedFd) -> Talk {
        Talk { socket, bytes: [0; BYTES], read: 0 }
    }

    /// Says a word. The kernel's buffer takes the few that a path's life needs.
    ///
    /// # Errors
    /// When the connection has ended.
    pub(super) fn say(&self, word: Word) -> rustix::io::Result<()> {
        match sockets::send(&self.socket, &[IoSlice::new(&word.encoded())])? {
            Some(BYTES) => Ok(()),
            _ => Err(Errno::NOBUFS),
        }
    }

    /// The next word, if one is there.
    ///
    /// # Errors
    /// When the connection has ended, or says what is no word.
    pub(super) fn hear(&mut self) -> rustix::io::Result<Option<Word>> {
        let rest = &mut self.bytes[self.read..];
        match sockets::receive(&self.socket, &mut [IoSliceMut::new(rest)])? {
            Some(0) => return Err(Errno::PIPE),
            Some(bytes) => self.read += bytes,
            None => return Ok(None),
        }
        if self.read < BYTES {
            return Ok(None);
        }
        self.read = 0;
        Word::decoded(&self.bytes).map(Some).ok_or(Errno::PROTO)
    }
}

/// Whether any of these has something to hear: one question to the kernel for all.
pub(super) fn any_says<'a>(talks: impl Iterator<Item = &'a Talk>) -> bool {
    let mut files: Vec<_> = talks.map(|talk| PollFd::new(&talk.socket, PollFlags::IN)).collect();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut files, Some(&at_once)), Ok(1..))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ends_come_back(number: u32, sequence: u32, gid: Option<[u8; 16]>, lid: u16, mtu in 8u32..=12, is_ethernet: bool, is_reliable: bool, port in 0u8..8, address: u64, key: u32) {
            let endpoint = Endpoint { number, sequence, address: Address { gid, lid } };
            let end = End { endpoint, mtu: 1 << mtu, is_ethernet, is_reliable, port, memory: RemoteMemory { address, key } };
            for word in [Word::Offer(end), Word::Answer(end)] {
                prop_assert_eq!(Word::decoded(&word.encoded()), Some(word));
            }
        }

        #[test]
        fn anything_is_refused_or_read(mut bytes in prop::collection::vec(any::<u8>(), BYTES), ours: bool) {
            if ours {
                bytes[..2].copy_from_slice(&MARK.to_le_bytes());
            }
            if let Some(Word::Offer(end) | Word::Answer(end)) = Word::decoded(&bytes.try_into().unwrap()) {
                prop_assert!(usize::from(end.port) < super::super::MAX_PORTS && end.mtu >= 256);
            }
        }
    }

    #[test]
    fn words_come_whole_or_not_at_all() {
        let (one, other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        other.set_nonblocking(true).unwrap();
        let (says, mut hears) = (Talk::new(one.into()), Talk::new(other.into()));
        assert_eq!(hears.hear(), Ok(None));
        let words = [
            Word::Ready,
            Word::Fin,
            Word::Stop(7),
            Word::Stopped(Settled { below: 1 << 40, arrived: 5 }),
        ];
        for word in words {
            says.say(word).unwrap();
        }
        for word in words {
            assert_eq!(hears.hear(), Ok(Some(word)));
        }
        // Half of one.
        sockets::send(&says.socket, &[IoSlice::new(&Word::Ready.encoded()[..20])]).unwrap();
        assert_eq!(hears.hear(), Ok(None));
        sockets::send(&says.socket, &[IoSlice::new(&Word::Ready.encoded()[20..])]).unwrap();
        assert_eq!(hears.hear(), Ok(Some(Word::Ready)));
        sockets::send(&says.socket, &[IoSlice::new(&[1; BYTES])]).unwrap();
        assert_eq!(hears.hear(), Err(Errno::PROTO));
        drop(says);
        assert_eq!(hears.hear(), Err(Errno::PIPE));
    }
}
