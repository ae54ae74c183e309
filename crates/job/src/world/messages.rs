//! The messages between ranks and hub: one byte for the kind of message, then its bytes, as the payload of a frame.
//! Not how frames travel (`frame`), and not what parts and reports contain.

use std::io;

use crate::frame::{frame, invalid};

/// From a rank to the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToHub<'a> {
    /// The first message.
    Join {
        /// Authenticates the rank.
        token: &'a [u8],
        /// World rank.
        rank: usize,
        /// What it reports about itself.
        facts: &'a [u8],
    },
    /// One rank's part of an allgather.
    Part(&'a [u8]),
    /// A report for the supervisor.
    Report(&'a [u8]),
    /// This rank cannot continue, and why.
    Fail(&'a str),
    /// The connection will be closed in order.
    Leave,
    /// From the first rank of a shared memory: all of its ranks are at the barrier.
    Arrive,
}

/// From the hub to a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToRank<'a> {
    /// The plan.
    Begin(&'a [u8]),
    /// All parts of an allgather, in rank order.
    All(Vec<&'a [u8]>),
    /// The run was stopped, and why.
    Abort(&'a str),
    /// The supervisor has handled the rank's report.
    Taken,
    /// To the first rank of a shared memory: the ranks of all memories are at the barrier.
    Open,
}

impl<'a> ToHub<'a> {
    pub(super) fn frame(&self) -> io::Result<Vec<u8>> {
        match *self {
            ToHub::Join { token, rank, facts } => {
                list(1, &[token, &(rank as u64).to_le_bytes(), facts])
            }
            ToHub::Part(bytes) => message(2, bytes),
            ToHub::Report(bytes) => message(3, bytes),
            ToHub::Fail(why) => message(4, why.as_bytes()),
            ToHub::Leave => message(5, &[]),
            ToHub::Arrive => message(6, &[]),
        }
    }

    /// The reverse of `frame`, of a frame's payload.
    pub(super) fn parse(payload: &'a [u8]) -> io::Result<ToHub<'a>> {
        Ok(match payload.split_first() {
            Some((1, parts)) => {
                let [token, rank, facts] = unlist(parts)?[..] else {
                    return Err(invalid("a join request of other parts"));
                };
                let rank = rank.try_into().map_err(|_| invalid("a rank that is no number"))?;
                ToHub::Join { token, rank: u64::from_le_bytes(rank) as usize, facts }
            }
            Some((2, bytes)) => ToHub::Part(bytes),
            Some((3, bytes)) => ToHub::Report(bytes),
            Some((4, why)) => ToHub::Fail(text(why)?),
            Some((5, [])) => ToHub::Leave,
            Some((6, [])) => ToHub::Arrive,
            _ => return Err(invalid("no message of a rank")),
        })
    }
}

impl<'a> ToRank<'a> {
    pub(super) fn frame(&self) -> io::Result<Vec<u8>> {
        match self {
            ToRank::Begin(plan) => message(1, plan),
            ToRank::All(parts) => list(2, parts),
            ToRank::Abort(why) => message(3, why.as_bytes()),
            ToRank::Taken => message(4, &[]),
            ToRank::Open => message(5, &[]),
        }
    }

    /// The reverse of `frame`, of a frame's payload.
    pub(super) fn parse(payload: &'a [u8]) -> io::Result<ToRank<'a>> {
        Ok(match payload.split_first() {
            Some((1, plan)) => ToRank::Begin(plan),
            Some((2, parts)) => ToRank::All(unlist(parts)?),
            Some((3, why)) => ToRank::Abort(text(why)?),
            Some((4, [])) => ToRank::Taken,
            Some((5, [])) => ToRank::Open,
            _ => return Err(invalid("no message of the hub")),
        })
    }
}

fn message(kind: u8, bytes: &[u8]) -> io::Result<Vec<u8>> {
    frame(|payload| {
        payload.reserve(1 + bytes.len());
        payload.push(kind);
        payload.extend_from_slice(bytes);
        Ok(())
    })
}

/// A message of several byte strings, each behind its length.
fn list(kind: u8, parts: &[&[u8]]) -> io::Result<Vec<u8>> {
    frame(|payload| {
        payload.reserve(1 + parts.iter().map(|part| 4 + part.len()).sum::<usize>());
        payload.push(kind);
        for part in parts {
            // A part that is too long makes the frame too long.
            payload.extend_from_slice(&(part.len() as u32).to_le_bytes());
            payload.extend_from_slice(part);
        }
        Ok(())
    })
}

fn unlist(mut bytes: &[u8]) -> io::Result<Vec<&[u8]>> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let short = || invalid("a list that is cut short");
        let (length, rest) = bytes.split_first_chunk().ok_or_else(short)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (part, rest) = rest.split_at_checked(length).ok_or_else(short)?;
        parts.push(part);
        bytes = rest;
    }
    Ok(parts)
}

fn text(bytes: &[u8]) -> io::Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| invalid("a text that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_survive(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..9),
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            why in ".{0,20}",
            rank: usize,
        ) {
            let (bytes, why) = (&bytes[..], &why[..]);
            let join = ToHub::Join { token: why.as_bytes(), rank, facts: bytes };
            let to_hub =
                [join, ToHub::Part(bytes), ToHub::Report(bytes), ToHub::Fail(why), ToHub::Leave, ToHub::Arrive];
            for message in to_hub {
                let frame = message.frame().unwrap();
                prop_assert_eq!(ToHub::parse(&frame[4..]).unwrap(), message);
            }
            let all = ToRank::All(parts.iter().map(Vec::as_slice).collect());
            for message in [all, ToRank::Begin(bytes), ToRank::Abort(why), ToRank::Taken, ToRank::Open] {
                let frame = message.frame().unwrap();
                prop_assert_eq!(ToRank::parse(&frame[4..]).unwrap(), message);
            }
        }

        #[test]
        fn garbage_is_an_error_not_a_panic(kind in 0u8..8, bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let payload = [&[kind][..], &bytes].concat();
            let _ = (ToHub::parse(&payload), ToRank::parse(&payload));
            prop_assert!(kind > 0 || ToHub::parse(&payload).is_err() && ToRank::parse(&payload).is_err());
        }
    }

    #[test]
    fn an_empty_payload_is_no_message() {
        assert!(ToHub::parse(&[]).is_err() && ToRank::parse(&[]).is_err());
    }
}
