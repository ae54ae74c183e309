//! The messages between ranks and hub: a byte for the kind of message, then parts, each behind its length.
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
                write(1, &[token, &(rank as u64).to_le_bytes(), facts])
            }
            ToHub::Part(bytes) => write(2, &[bytes]),
            ToHub::Report(bytes) => write(3, &[bytes]),
            ToHub::Fail(why) => write(4, &[why.as_bytes()]),
            ToHub::Leave => write(5, &[]),
            ToHub::Arrive => write(6, &[]),
        }
    }

    /// The message of a frame's payload.
    pub(super) fn parse(payload: &'a [u8]) -> io::Result<ToHub<'a>> {
        let (kind, parts) = read(payload)?;
        Ok(match (kind, &parts[..]) {
            (1, &[token, rank, facts]) => {
                let rank = u64::from_le_bytes(rank.try_into().map_err(invalid)?) as usize;
                ToHub::Join { token, rank, facts }
            }
            (2, [bytes]) => ToHub::Part(bytes),
            (3, [bytes]) => ToHub::Report(bytes),
            (4, [why]) => ToHub::Fail(str::from_utf8(why).map_err(invalid)?),
            (5, []) => ToHub::Leave,
            (6, []) => ToHub::Arrive,
            _ => {
                return Err(invalid(format!(
                    "no message of a rank: {kind}, {} parts",
                    parts.len()
                )));
            }
        })
    }
}

impl<'a> ToRank<'a> {
    pub(super) fn frame(&self) -> io::Result<Vec<u8>> {
        match self {
            ToRank::Begin(plan) => write(1, &[plan]),
            ToRank::All(parts) => write(2, parts),
            ToRank::Abort(why) => write(3, &[why.as_bytes()]),
            ToRank::Taken => write(4, &[]),
            ToRank::Open => write(5, &[]),
        }
    }

    /// The message of a frame's payload.
    pub(super) fn parse(payload: &'a [u8]) -> io::Result<ToRank<'a>> {
        let (kind, parts) = read(payload)?;
        Ok(match (kind, &parts[..]) {
            (1, [plan]) => ToRank::Begin(plan),
            (2, _) => ToRank::All(parts),
            (3, [why]) => ToRank::Abort(str::from_utf8(why).map_err(invalid)?),
            (4, []) => ToRank::Taken,
            (5, []) => ToRank::Open,
            _ => {
                return Err(invalid(format!(
                    "no message of the hub: {kind}, {} parts",
                    parts.len()
                )));
            }
        })
    }
}

fn write(kind: u8, parts: &[&[u8]]) -> io::Result<Vec<u8>> {
    frame(|payload| {
        payload.reserve(1 + parts.iter().map(|part| 4 + part.len()).sum::<usize>());
        payload.push(kind);
        for part in parts {
            // A part that is too long for this makes the frame too long.
            payload.extend_from_slice(&(part.len() as u32).to_le_bytes());
            payload.extend_from_slice(part);
        }
        Ok(())
    })
}

fn read(payload: &[u8]) -> io::Result<(u8, Vec<&[u8]>)> {
    let short = || invalid("a message that is cut short");
    let (kind, mut rest) = payload.split_first().ok_or_else(short)?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (length, bytes) = rest.split_first_chunk().ok_or_else(short)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (part, behind) = bytes.split_at_checked(length).ok_or_else(short)?;
        parts.push(part);
        rest = behind;
    }
    Ok((*kind, parts))
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
