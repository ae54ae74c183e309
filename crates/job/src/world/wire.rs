//! Frames between ranks and hub: length, kind, payload.
//! Not their meaning.

use std::io::{self, Read, Write};

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Rank to hub: token, rank, facts.
    Join = 1,
    /// Hub to rank: the plan.
    Begin = 2,
    /// Rank to hub: one rank's part of an allgather.
    Part = 3,
    /// Hub to rank: all parts of an allgather.
    All = 4,
    /// Rank to hub: a report for the supervisor.
    Report = 5,
    /// Rank to hub: this rank cannot continue.
    Fail = 6,
    /// Rank to hub: the connection will be closed in order.
    Leave = 7,
    /// Hub to rank: abort.
    Abort = 8,
    /// Hub to rank: the supervisor has handled its report.
    Taken = 9,
    /// First rank of a shared memory to hub: all of its ranks are at the barrier.
    Arrive = 10,
    /// Hub to first rank: the ranks of all memories are at the barrier.
    Open = 11,
}

/// Largest payload: a row with many ranks' samples stays far below.
pub(super) const MAX_FRAME_BYTES: usize = 1 << 28;

impl Kind {
    fn from_byte(byte: u8) -> io::Result<Kind> {
        use Kind::*;
        [Join, Begin, Part, All, Report, Fail, Leave, Abort, Taken, Arrive, Open]
            .into_iter()
            .find(|k| *k as u8 == byte)
            .ok_or_else(|| invalid(format!("frame of unknown kind {byte}")))
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Bytes of a frame's header.
const HEADER_BYTES: usize = 5;

/// A frame as bytes.
pub(super) fn frame(kind: Kind, payload: &[u8]) -> io::Result<Vec<u8>> {
    let len = u32::try_from(payload.len()).map_err(|_| invalid("frame too long".to_owned()))?;
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    frame.extend_from_slice(&len.to_le_bytes());
    frame.push(kind as u8);
    frame.extend_from_slice(payload);
    Ok(frame)
}

/// Writes one frame with one system call.
pub(super) fn send(to: &mut impl Write, kind: Kind, payload: &[u8]) -> io::Result<()> {
    to.write_all(&frame(kind, payload)?)
}

/// Length of the payload, and kind, from a header.
fn read_header(head: [u8; HEADER_BYTES], max_bytes: usize) -> io::Result<(usize, Kind)> {
    let [a, b, c, d, kind] = head;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    if len > max_bytes {
        return Err(invalid(format!("frame of {len} bytes")));
    }
    Ok((len, Kind::from_byte(kind)?))
}

/// Removes the first complete frame from `buffer`; none if it is incomplete. A payload longer than `max_bytes` is
/// an error as soon as its header has arrived.
pub(super) fn take(buffer: &mut Vec<u8>, max_bytes: usize) -> io::Result<Option<(Kind, Vec<u8>)>> {
    let Some((head, rest)) = buffer.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let (len, kind) = read_header(*head, max_bytes)?;
    let Some(payload) = rest.get(..len) else { return Ok(None) };
    let payload = payload.to_vec();
    buffer.drain(..HEADER_BYTES + len);
    Ok(Some((kind, payload)))
}

/// Reads one frame.
pub(super) fn receive(from: &mut impl Read) -> io::Result<(Kind, Vec<u8>)> {
    let mut head = [0; HEADER_BYTES];
    from.read_exact(&mut head)?;
    let (len, kind) = read_header(head, MAX_FRAME_BYTES)?;
    let mut payload = Vec::new();
    from.take(len as u64).read_to_end(&mut payload)?;
    if payload.len() != len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((kind, payload))
}

/// Several byte strings as one payload.
pub(super) fn pack(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut packed = Vec::new();
    for part in parts {
        packed.extend_from_slice(&(part.len() as u32).to_le_bytes());
        packed.extend_from_slice(part);
    }
    packed
}

/// The reverse of [`pack`].
pub(super) fn unpack(mut packed: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    while !packed.is_empty() {
        let short = || invalid("truncated list".to_owned());
        let (head, rest) = packed.split_first_chunk::<4>().ok_or_else(short)?;
        let len = u32::from_le_bytes(*head) as usize;
        let (part, rest) = rest.split_at_checked(len).ok_or_else(short)?;
        parts.push(part.to_vec());
        packed = rest;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_that_is_too_long_is_refused_by_its_head() {
        let mut buffer = frame(Kind::Join, &[0; 100]).unwrap();
        buffer.truncate(HEADER_BYTES);
        assert!(take(&mut buffer.clone(), 100).unwrap().is_none());
        assert!(take(&mut buffer, 99).is_err());
    }

    proptest! {
        #[test]
        fn lists_survive(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..9)) {
            prop_assert_eq!(unpack(&pack(&parts)).unwrap(), parts);
        }

        #[test]
        fn garbage_is_an_error_not_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = unpack(&bytes);
            let _ = receive(&mut bytes.as_slice());
            let _ = take(&mut bytes.clone(), 32);
        }

        /// However a stream is cut into pieces, its frames come out whole and in order.
        #[test]
        fn frames_survive_any_cut(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..9),
            piece in 1usize..50,
        ) {
            let stream: Vec<u8> =
                payloads.iter().flat_map(|payload| frame(Kind::Part, payload).unwrap()).collect();
            let (mut buffer, mut taken) = (Vec::new(), Vec::new());
            for piece in stream.chunks(piece) {
                buffer.extend_from_slice(piece);
                while let Some((kind, payload)) = take(&mut buffer, 39).unwrap() {
                    prop_assert_eq!(kind, Kind::Part);
                    taken.push(payload);
                }
            }
            prop_assert_eq!((taken, buffer.len()), (payloads, 0));
        }
    }
}
