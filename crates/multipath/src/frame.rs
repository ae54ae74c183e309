//! The wire format of a path, version 1: the handshake, chunks and their acknowledgements.
//! Not who sends what when.
//!
//! All numbers are little endian. From sender to receiver: one [`Hello`], then [`Frame`]s, each of a chunk followed by
//! its bytes. Back: [`Answer`]s. Chunks of one message may take any path, arrive in any order, and arrive twice.

use crate::{Error, MAX_PATHS};

/// First bytes of everything.
const MAGIC: u16 = 0x7b62;
/// Version of the wire format.
pub const VERSION: u8 = 1;
/// Bytes of a secret.
pub const SECRET_BYTES: usize = 16;
/// The least and the most bytes of a chunk, but for a message's last.
pub const CHUNK_BYTES: std::ops::RangeInclusive<u32> = 1 << 14..=1 << 20;
/// Bytes of a message at most.
pub const MESSAGE_BYTES: u64 = 1 << 40;

/// The handshake of a path: what the end that connects sends first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// What was in the handle.
    pub secret: [u8; SECRET_BYTES],
    /// The listener, from the handle.
    pub listener: u64,
    /// Which of the connection's paths.
    pub path: u16,
    /// Paths of the connection.
    pub paths: u16,
    /// How often this path was connected before, [`Hello::ABORT`], [`Hello::PROBE`] or [`Hello::STOP`].
    pub epoch: u32,
}

impl Hello {
    /// Bytes of a handshake.
    pub const BYTES: usize = 48;
    /// No path: the connection has ended in the middle of a message.
    pub const ABORT: u32 = u32::MAX;
    /// No path, but a probe: acknowledgements are late, since no thread may be reading. The receiver reads what is there.
    pub const PROBE: u32 = u32::MAX - 1;
    /// No path, but word of one over another's addresses: what it carries is stopped at both ends before it goes elsewhere.
    pub const STOP: u32 = u32::MAX - 2;

    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn encoded(&self) -> [u8; Hello::BYTES] {
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

    /// What bytes say; nothing if they are no handshake of this version.
    #[must_use]
    #[inline]
    pub fn decoded(bytes: &[u8; Hello::BYTES]) -> Option<Hello> {
        let hello = Hello {
            secret: take(bytes, 8),
            listener: u64::from_le_bytes(take(bytes, 24)),
            path: u16::from_le_bytes(take(bytes, 32)),
            paths: u16::from_le_bytes(take(bytes, 34)),
            epoch: u32::from_le_bytes(take(bytes, 36)),
        };
        let known = u16::from_le_bytes(take(bytes, 0)) == MAGIC && bytes[2] == VERSION;
        let fits = hello.path < hello.paths && usize::from(hello.paths) <= MAX_PATHS;
        (known && fits).then_some(hello)
    }
}

/// What the sender sends behind the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// The bytes of a chunk follow.
    Chunk(Header),
    /// The receiver is to acknowledge what it has.
    Ping,
    /// Nothing more follows on this path, nor on any other.
    Fin,
}

/// The header of a chunk: where its bytes belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Header {
    /// Number of the message in the connection.
    pub message: u64,
    /// Bytes of the message.
    pub total: u64,
    /// Bytes of every chunk of the message but the last.
    pub chunk: u32,
    /// Which of the chunks.
    pub index: u32,
}

impl Header {
    /// Chunks of the message; an empty message has one.
    #[must_use]
    #[inline]
    pub fn count(&self) -> u64 {
        self.total.div_ceil(u64::from(self.chunk)).max(1)
    }

    /// Where in the message it begins, in bytes.
    #[must_use]
    #[inline]
    pub fn offset(&self) -> u64 {
        u64::from(self.index) * u64::from(self.chunk)
    }

    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        // No chunk is longer than a u32 tells.
        (self.total - self.offset()).min(u64::from(self.chunk)) as usize
    }
}

const CHUNK: u8 = 1;
const PING: u8 = 2;
const FIN: u8 = 3;

impl Frame {
    /// Bytes of a frame, without those of its chunk.
    pub const BYTES: usize = 32;

    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn encoded(&self) -> [u8; Frame::BYTES] {
        let mut bytes = [0; Frame::BYTES];
        bytes[..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2] = match self {
            Frame::Chunk(_) => CHUNK,
            Frame::Ping => PING,
            Frame::Fin => FIN,
        };
        if let Frame::Chunk(chunk) = self {
            bytes[4..8].copy_from_slice(&chunk.index.to_le_bytes());
            bytes[8..16].copy_from_slice(&chunk.message.to_le_bytes());
            bytes[16..24].copy_from_slice(&chunk.total.to_le_bytes());
            bytes[24..28].copy_from_slice(&chunk.chunk.to_le_bytes());
        }
        bytes
    }

    /// What bytes say.
    ///
    /// # Errors
    /// When they are no frame, or its numbers contradict each other.
    #[inline]
    pub fn decoded(bytes: &[u8; Frame::BYTES]) -> Result<Frame, Error> {
        let broken = |text: String| Error::Protocol(text);
        if u16::from_le_bytes(take(bytes, 0)) != MAGIC {
            return Err(broken(format!(
                "a path carries bytes that are no frame ({:02x?})",
                &bytes[..4]
            )));
        }
        match bytes[2] {
            PING => return Ok(Frame::Ping),
            FIN => return Ok(Frame::Fin),
            CHUNK => {}
            other => return Err(broken(format!("a path carries a frame of kind {other}"))),
        }
        let chunk = Header {
            index: u32::from_le_bytes(take(bytes, 4)),
            message: u64::from_le_bytes(take(bytes, 8)),
            total: u64::from_le_bytes(take(bytes, 16)),
            chunk: u32::from_le_bytes(take(bytes, 24)),
        };
        let fits = CHUNK_BYTES.contains(&chunk.chunk)
            && chunk.total <= MESSAGE_BYTES
            && u64::from(chunk.index) < chunk.count();
        fits.then_some(Frame::Chunk(chunk))
            .ok_or_else(|| broken(format!("no message has a chunk like {chunk:?}")))
    }
}

/// What the receiver sends back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The path belongs to the connection now.
    Accepted,
    /// There is no such connection any more.
    Gone,
    /// So many more chunks of this path, in its order, have arrived. 0: the sender has asked, and a message is missing.
    Delivered(u32),
}

impl Answer {
    /// Bytes of an answer.
    pub const BYTES: usize = 8;

    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn encoded(&self) -> [u8; Answer::BYTES] {
        let mut bytes = [0; Answer::BYTES];
        bytes[..2].copy_from_slice(&MAGIC.to_le_bytes());
        let (kind, count) = match self {
            Answer::Accepted => (1, 0),
            Answer::Gone => (2, 0),
            Answer::Delivered(count) => (3, *count),
        };
        bytes[2] = kind;
        bytes[4..].copy_from_slice(&count.to_le_bytes());
        bytes
    }

    /// What bytes say; nothing if they are no answer.
    #[must_use]
    #[inline]
    pub fn decoded(bytes: &[u8; Answer::BYTES]) -> Option<Answer> {
        if u16::from_le_bytes(take(bytes, 0)) != MAGIC {
            return None;
        }
        match bytes[2] {
            1 => Some(Answer::Accepted),
            2 => Some(Answer::Gone),
            3 => Some(Answer::Delivered(u32::from_le_bytes(take(bytes, 4)))),
            _ => None,
        }
    }
}

/// `N` bytes from `at` on, which are there.
#[must_use]
#[inline]
pub fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
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
            let chunk = Header { message, total, chunk, index };
            let back = Frame::decoded(&Frame::Chunk(chunk).encoded());
            if u64::from(index) < chunk.count() {
                prop_assert_eq!(back.unwrap(), Frame::Chunk(chunk));
                prop_assert!(chunk.offset() + chunk.bytes() as u64 <= total);
            } else {
                prop_assert!(back.is_err());
            }
        }

        #[test]
        fn anything_is_refused_or_fits(bytes: [u8; Frame::BYTES]) {
            if let Ok(Frame::Chunk(chunk)) = Frame::decoded(&bytes) {
                prop_assert!(chunk.offset() + chunk.bytes() as u64 <= chunk.total);
            }
        }
    }

    #[test]
    fn the_rest_comes_back() {
        for header in [Frame::Ping, Frame::Fin] {
            assert_eq!(Frame::decoded(&header.encoded()).unwrap(), header);
        }
        for answer in [Answer::Accepted, Answer::Gone, Answer::Delivered(7)] {
            assert_eq!(Answer::decoded(&answer.encoded()), Some(answer));
        }
        let hello = Hello { secret: [9; 16], listener: 77, path: 3, paths: 4, epoch: 2 };
        assert_eq!(Hello::decoded(&hello.encoded()), Some(hello));
        let mut other = hello.encoded();
        other[2] = VERSION + 1;
        assert_eq!(Hello::decoded(&other), None);
    }
}
