//! The frame of a job's control connections: the payload's length in 4 bytes, little-endian, then the payload.
//! Not what a payload means, and not whose connection it is.

use std::{
    error::Error,
    io::{self, ErrorKind, Read},
};

use serde::Serialize;

/// Bytes of a frame's header.
const HEADER_BYTES: usize = 4;
/// A reader's buffer that grew beyond this is freed when it is empty.
const MAX_IDLE_BUFFER_BYTES: usize = 1 << 14;

/// Whose frames are read. It decides how long they may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Anybody who reaches the port.
    Unauthenticated,
    /// A process of this job.
    Authenticated,
}

impl Peer {
    /// The length that a header gives, before there is memory for it.
    fn length(self, header: [u8; HEADER_BYTES]) -> io::Result<usize> {
        self.check(u32::from_le_bytes(header) as usize)
    }

    fn check(self, length: usize) -> io::Result<usize> {
        let max_bytes = match self {
            // A command line, or the findings of a doctor.
            Peer::Unauthenticated => 1 << 20,
            // A row with many ranks' samples, and a rank assignment with its tables, stay far below.
            Peer::Authenticated => 1 << 28,
        };
        if length > max_bytes {
            return Err(invalid(format!("a frame of {length} bytes exceeds {max_bytes} bytes")));
        }
        Ok(length)
    }
}

/// The error of bytes that no busbw of this protocol sends.
pub(crate) fn invalid(why: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

/// A frame as bytes, to be written with one system call; `write` appends the payload.
///
/// # Errors
/// A payload that a peer would refuse, and what `write` meets.
pub(crate) fn frame(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; HEADER_BYTES];
    write(&mut frame)?;
    let length = Peer::Authenticated.check(frame.len() - HEADER_BYTES)?;
    frame[..HEADER_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(frame)
}

/// A frame whose payload is `message` as JSON.
///
/// # Errors
/// As for [`frame`].
pub(crate) fn json(message: &impl Serialize) -> io::Result<Vec<u8>> {
    frame(|payload| Ok(serde_json::to_writer(payload, message)?))
}

/// Receives one frame's payload, and reads no byte behind it: descriptors may follow.
///
/// # Errors
/// The end of the stream, an error of the socket, and a frame that is too long.
pub(crate) fn receive(mut from: impl Read, peer: Peer) -> io::Result<Vec<u8>> {
    let mut header = [0; HEADER_BYTES];
    from.read_exact(&mut header)?;
    let length = peer.length(header)?;
    let mut payload = Vec::new();
    from.take(length as u64).read_to_end(&mut payload)?;
    if payload.len() != length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(payload)
}

/// Reads the frames of one stream among several, in the pieces in which they arrive.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    buffer: Vec<u8>,
    /// Bytes of `buffer` whose frames were returned.
    returned: usize,
}

impl FrameReader {
    /// Calls `read` once, and keeps what it puts into `piece`.
    ///
    /// # Errors
    /// The end of the stream, or an error of `read`.
    pub(crate) fn read(
        &mut self,
        piece: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        match read(piece) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => self.buffer.extend_from_slice(&piece[..bytes]),
            Err(e) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&e.kind()) => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// The payload of the next frame that has arrived whole.
    ///
    /// # Errors
    /// A frame that is too long, as soon as its header has arrived.
    pub(crate) fn next(&mut self, peer: Peer) -> io::Result<Option<&[u8]>> {
        if let Some((header, rest)) = self.buffer[self.returned..].split_first_chunk() {
            let length = peer.length(*header)?;
            if rest.len() >= length {
                let start = self.returned + HEADER_BYTES;
                self.returned = start + length;
                return Ok(Some(&self.buffer[start..self.returned]));
            }
        }
        self.buffer.drain(..std::mem::take(&mut self.returned));
        if self.buffer.is_empty() && self.buffer.capacity() > MAX_IDLE_BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(bytes: &[u8]) -> io::Result<Vec<u8>> {
        frame(|payload| {
            payload.extend_from_slice(bytes);
            Ok(())
        })
    }

    fn read(reader: &mut FrameReader, bytes: &[u8]) -> io::Result<()> {
        reader.read(&mut vec![0; bytes.len()], |mut piece| {
            io::copy(&mut &bytes[..], &mut piece).map(|n| n as usize)
        })
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_there_is_memory_for_it() {
        for (peer, max_bytes) in
            [(Peer::Unauthenticated, 1u32 << 20), (Peer::Authenticated, 1 << 28)]
        {
            let (longest, longer) = (max_bytes.to_le_bytes(), (max_bytes + 1).to_le_bytes());
            let mut reader = FrameReader::default();
            read(&mut reader, &longest).unwrap();
            assert_eq!(reader.next(peer).unwrap(), None);
            assert!(reader.buffer.capacity() < 100);
            let kind = |error: io::Error| error.kind();
            assert_eq!(receive(&longest[..], peer).map_err(kind), Err(ErrorKind::UnexpectedEof));
            let mut reader = FrameReader::default();
            read(&mut reader, &longer).unwrap();
            assert_eq!(reader.next(peer).map_err(kind), Err(ErrorKind::InvalidData));
            assert_eq!(receive(&longer[..], peer).map_err(kind), Err(ErrorKind::InvalidData));
        }
        let too_long = frame(|payload| {
            *payload = vec![0; HEADER_BYTES + (1 << 28) + 1];
            Ok(())
        });
        assert_eq!(too_long.map_err(|error| error.kind()), Err(ErrorKind::InvalidData));
    }

    #[test]
    fn the_end_of_a_stream_is_an_error_and_nothing_yet_is_none() {
        let mut reader = FrameReader::default();
        assert!(reader.read(&mut [], |_| Ok(0)).is_err());
        reader.read(&mut [], |_| Err(ErrorKind::WouldBlock.into())).unwrap();
        assert_eq!(reader.next(Peer::Unauthenticated).unwrap(), None);
    }

    #[test]
    fn a_large_buffer_is_freed_when_it_is_empty() {
        let mut reader = FrameReader::default();
        read(&mut reader, &framed(&[7; 1 << 16]).unwrap()).unwrap();
        assert_eq!(reader.next(Peer::Authenticated).unwrap().map(<[u8]>::len), Some(1 << 16));
        assert_eq!(reader.next(Peer::Authenticated).unwrap(), None);
        assert_eq!(reader.buffer.capacity(), 0);
    }

    proptest! {
        #[test]
        fn garbage_is_an_error_not_a_panic(bytes in prop::collection::vec(any::<u8>(), 1..64)) {
            let _ = receive(&bytes[..], Peer::Authenticated);
            let mut reader = FrameReader::default();
            read(&mut reader, &bytes).unwrap();
            while let Ok(Some(_)) = reader.next(Peer::Authenticated) {}
        }

        /// However a stream is cut into pieces, its frames come out whole and in order.
        #[test]
        fn frames_survive_any_cut(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..9),
            piece in 1usize..50,
        ) {
            let frames = payloads.iter().map(|payload| framed(payload).unwrap());
            let stream: Vec<u8> = frames.flatten().collect();
            let (mut reader, mut taken) = (FrameReader::default(), Vec::new());
            for piece in stream.chunks(piece) {
                read(&mut reader, piece).unwrap();
                while let Some(payload) = reader.next(Peer::Unauthenticated).unwrap() {
                    taken.push(payload.to_vec());
                }
            }
            prop_assert_eq!((&taken, reader.buffer.len()), (&payloads, 0));
            let mut rest = &stream[..];
            for payload in payloads {
                prop_assert_eq!(receive(&mut rest, Peer::Unauthenticated).unwrap(), payload);
            }
        }
    }
}
