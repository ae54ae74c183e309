//! What goes over a path: hello and welcome, chunks and their acknowledgements. Version 1.
//! Not who sends what when.
//!
//! All numbers are little endian. From sender to receiver: one [`Hello`], then [`Header`]s, each of a chunk followed by
//! its bytes. Back: [`Answer`]s. Chunks of one message may take any path, in any order, and come twice.

use crate::network::{Failure, Result};
use nccl_plugin_abi::Status;

/// First bytes of everything.
const MAGIC: u16 = 0x7b62;
/// Of all of this.
pub(super) const VERSION: u8 = 1;
/// Bytes of a secret.
pub(super) const SECRET_BYTES: usize = 16;
/// The least and the most bytes of a chunk, but for a message's last.
pub(super) const CHUNK_BYTES: std::ops::RangeInclusive<u32> = 1 << 14..=1 << 20;
/// Bytes of a message at most.
pub(super) const MESSAGE_BYTES: u64 = 1 << 40;

/// What the end that connects says first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hello {
    /// What was in the handle.
    pub secret: [u8; SECRET_BYTES],
    /// The listener, from the handle.
    pub listener: u64,
    /// Which of the connection's paths.
    pub path: u16,
    /// Paths of the connection.
    pub paths: u16,
    /// How often this path was connected before, [`Hello::OVER`] or [`Hello::KNOCK`].
    pub epoch: u32,
}

impl Hello {
    pub(super) const BYTES: usize = 48;
    /// The connection has ended, in the middle of a message: no path says so.
    pub(super) const OVER: u32 = u32::MAX;
    /// Acknowledgements are late: the receiver may have nobody who reads, and is to look what is there.
    pub(super) const KNOCK: u32 = u32::MAX - 1;

    pub(super) fn encoded(&self) -> [u8; Hello::BYTES] {
        let mut bytes = [0; Hello::BYTES];
        bytes[..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2] = VERSION;
        bytes[8..24].copy_from_slice(&self.secret);
        bytes[24..32].copy_from_slice(&self.listener.to_le_bytes());
        bytes[32..34].copy_from_slice(&self.path.to_le_bytes());
        bytes[34..36].copy_from_slice(&self.paths.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.epoch.to_le_bytes());
        bytes
    }

    /// Nothing if it is none of this version's.
    pub(super) fn decoded(bytes: &[u8; Hello::BYTES]) -> Option<Hello> {
        let hello = Hello {
            secret: take(bytes, 8),
            listener: u64::from_le_bytes(take(bytes, 24)),
            path: u16::from_le_bytes(take(bytes, 32)),
            paths: u16::from_le_bytes(take(bytes, 34)),
            epoch: u32::from_le_bytes(take(bytes, 36)),
        };
        let known = u16::from_le_bytes(take(bytes, 0)) == MAGIC && bytes[2] == VERSION;
        let fits = hello.path < hello.paths && usize::from(hello.paths) <= super::MOST_PATHS;
        (known && fits).then_some(hello)
    }
}

/// What is before bytes, or stands alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    /// A part of a message follows.
    Chunk(Chunk),
    /// The receiver is to acknowledge what it has.
    Ping,
    /// Nothing more comes on this path, nor on any other.
    Bye,
}

/// Where a part of a message belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Number of the message in the connection.
    pub message: u64,
    /// Bytes of the message.
    pub total: u64,
    /// Bytes of every chunk of the message but the last.
    pub chunk: u32,
    /// Which of the chunks.
    pub index: u32,
}

impl Chunk {
    /// Chunks of the message: one if it is empty.
    pub(super) fn count(&self) -> u64 {
        self.total.div_ceil(u64::from(self.chunk)).max(1)
    }

    /// Where in the message it begins, in bytes.
    pub(super) fn offset(&self) -> u64 {
        u64::from(self.index) * u64::from(self.chunk)
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> usize {
        // No chunk is longer than a u32 tells.
        (self.total - self.offset()).min(u64::from(self.chunk)) as usize
    }
}

const CHUNK: u8 = 1;
const PING: u8 = 2;
const BYE: u8 = 3;

impl Header {
    pub(super) const BYTES: usize = 32;

    pub(super) fn encoded(&self) -> [u8; Header::BYTES] {
        let mut bytes = [0; Header::BYTES];
        bytes[..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2] = match self {
            Header::Chunk(_) => CHUNK,
            Header::Ping => PING,
            Header::Bye => BYE,
        };
        if let Header::Chunk(chunk) = self {
            bytes[4..8].copy_from_slice(&chunk.index.to_le_bytes());
            bytes[8..16].copy_from_slice(&chunk.message.to_le_bytes());
            bytes[16..24].copy_from_slice(&chunk.total.to_le_bytes());
            bytes[24..28].copy_from_slice(&chunk.chunk.to_le_bytes());
        }
        bytes
    }

    /// # Errors
    /// When it is none, or its numbers contradict each other.
    pub(super) fn decoded(bytes: &[u8; Header::BYTES]) -> Result<Header> {
        let broken = |text: String| Failure::new(Status::REMOTE, text);
        if u16::from_le_bytes(take(bytes, 0)) != MAGIC {
            return Err(broken(format!(
                "a path carries what is none of ours ({:02x?})",
                &bytes[..4]
            )));
        }
        match bytes[2] {
            PING => return Ok(Header::Ping),
            BYE => return Ok(Header::Bye),
            CHUNK => {}
            other => return Err(broken(format!("a path carries a frame of kind {other}"))),
        }
        let chunk = Chunk {
            index: u32::from_le_bytes(take(bytes, 4)),
            message: u64::from_le_bytes(take(bytes, 8)),
            total: u64::from_le_bytes(take(bytes, 16)),
            chunk: u32::from_le_bytes(take(bytes, 24)),
        };
        let fits = CHUNK_BYTES.contains(&chunk.chunk)
            && chunk.total <= MESSAGE_BYTES
            && u64::from(chunk.index) < chunk.count();
        fits.then_some(Header::Chunk(chunk))
            .ok_or_else(|| broken(format!("no message has {chunk:?}")))
    }
}

/// What the end that was connected to says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The path is one of the connection's now.
    Welcome,
    /// There is no such connection any more.
    Gone,
    /// So many more chunks of this path, in its order, are where they belong. None: it was asked for, and a message is
    /// waited for.
    Delivered(u32),
}

impl Answer {
    pub(super) const BYTES: usize = 8;

    pub(super) fn encoded(&self) -> [u8; Answer::BYTES] {
        let mut bytes = [0; Answer::BYTES];
        bytes[..2].copy_from_slice(&MAGIC.to_le_bytes());
        let (kind, count) = match self {
            Answer::Welcome => (1, 0),
            Answer::Gone => (2, 0),
            Answer::Delivered(count) => (3, *count),
        };
        bytes[2] = kind;
        bytes[4..].copy_from_slice(&count.to_le_bytes());
        bytes
    }

    /// Nothing if it is none.
    pub(super) fn decoded(bytes: &[u8; Answer::BYTES]) -> Option<Answer> {
        if u16::from_le_bytes(take(bytes, 0)) != MAGIC {
            return None;
        }
        match bytes[2] {
            1 => Some(Answer::Welcome),
            2 => Some(Answer::Gone),
            3 => Some(Answer::Delivered(u32::from_le_bytes(take(bytes, 4)))),
            _ => None,
        }
    }
}

/// `N` bytes from `at` on, which are there.
pub(super) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_come_back(message: u64, total in 0u64..=MESSAGE_BYTES, chunk in CHUNK_BYTES, index: u32) {
            let chunk = Chunk { message, total, chunk, index };
            let back = Header::decoded(&Header::Chunk(chunk).encoded());
            if u64::from(index) < chunk.count() {
                prop_assert_eq!(back.unwrap(), Header::Chunk(chunk));
                prop_assert!(chunk.offset() + chunk.bytes() as u64 <= total);
            } else {
                prop_assert!(back.is_err());
            }
        }

        #[test]
        fn anything_is_refused_or_fits(bytes: [u8; Header::BYTES]) {
            if let Ok(Header::Chunk(chunk)) = Header::decoded(&bytes) {
                prop_assert!(chunk.offset() + chunk.bytes() as u64 <= chunk.total);
            }
        }
    }

    #[test]
    fn the_rest_comes_back() {
        for header in [Header::Ping, Header::Bye] {
            assert_eq!(Header::decoded(&header.encoded()).unwrap(), header);
        }
        for answer in [Answer::Welcome, Answer::Gone, Answer::Delivered(7)] {
            assert_eq!(Answer::decoded(&answer.encoded()), Some(answer));
        }
        let hello = Hello { secret: [9; 16], listener: 77, path: 3, paths: 4, epoch: 2 };
        assert_eq!(Hello::decoded(&hello.encoded()), Some(hello));
        let mut other = hello.encoded();
        other[2] = VERSION + 1;
        assert_eq!(Hello::decoded(&other), None);
    }
}
