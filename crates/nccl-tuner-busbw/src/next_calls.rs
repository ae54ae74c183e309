//! What the program itself wants its next calls to have: it sets that in this library, which NCCL has loaded into its process.
//! Not the file, whose entries are not looked at meanwhile, and not keeping ranks alike: the program sets the same in all of them.
//!
//! busbw measures algorithms in turns so, in one communicator, before NCCL 2.31 lets a call have a configuration.

use std::{
    ffi::{c_int, c_uint},
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use crate::tuner::force;

/// Nothing is wanted.
const NONE: u64 = 0;
/// Something is.
const WANTED: u64 = 1 << 63;
/// No algorithm and protocol.
const ANY_PAIR: u64 = 0xffff;

/// `WANTED`, the channels in bits 16 to 31, the algorithm in 8 to 15, the protocol in 0 to 7.
static NEXT: AtomicU64 = AtomicU64::new(NONE);
/// Calls for which NCCL has asked while something was wanted.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// Of those, calls whose pair NCCL could not run.
static REFUSED: AtomicU32 = AtomicU32::new(0);

/// From now on all calls of this process are to have this pair, by NCCL's numbers, and at most so many channels; a negative
/// algorithm or protocol leaves the pair to NCCL, and channels of 0 their number. Where both are so, this tuner chooses as without.
#[unsafe(no_mangle)]
pub extern "C" fn busbw_tuner_next_calls(algorithm: c_int, protocol: c_int, channels: c_int) {
    let pair = match (u8::try_from(algorithm), u8::try_from(protocol)) {
        (Ok(algorithm), Ok(protocol)) => u64::from(algorithm) << 8 | u64::from(protocol),
        _ => ANY_PAIR,
    };
    let channels = u64::from(u16::try_from(channels).unwrap_or(0));
    let next = match (pair, channels) {
        (ANY_PAIR, 0) => NONE,
        _ => WANTED | channels << 16 | pair,
    };
    NEXT.store(next, Ordering::SeqCst);
}

/// For how many calls NCCL has asked while something was wanted. For some it asks nobody: of one rank, of no elements, by kernels for
/// symmetric memory.
#[unsafe(no_mangle)]
pub extern "C" fn busbw_tuner_asked() -> c_uint {
    ASKED.load(Ordering::SeqCst)
}

/// How many calls could not have the pair that was wanted: NCCL has chosen another one for them.
#[unsafe(no_mangle)]
pub extern "C" fn busbw_tuner_refused() -> c_uint {
    REFUSED.load(Ordering::SeqCst)
}

/// What the next calls are to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    pair: Option<(usize, usize)>,
    channels: Option<c_int>,
}

/// That, if anything is wanted, for a call.
#[must_use]
pub fn next() -> Option<Next> {
    let next = NEXT.load(Ordering::SeqCst);
    if next != NONE {
        ASKED.fetch_add(1, Ordering::SeqCst);
    }
    let (pair, channels) = (next & ANY_PAIR, c_int::from((next >> 16) as u16));
    (next != NONE).then_some(Next {
        pair: (pair != ANY_PAIR).then_some(((pair >> 8) as usize, (pair & 0xff) as usize)),
        channels: (channels > 0).then_some(channels),
    })
}

impl Next {
    /// Makes NCCL take it. Where NCCL cannot run the pair, all stays as it is, and the call is counted.
    pub fn choose(self, costs: &mut [f32], protocols: usize, channels: Option<&mut c_int>) {
        if self.pair.is_some_and(|pair| !force(costs, protocols, pair)) {
            self.refuse();
        } else if let (Some(count), Some(channels)) = (self.channels, channels) {
            *channels = count;
        }
    }

    /// NCCL cannot be asked for it.
    pub fn refuse(self) {
        REFUSED.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since all threads of a process share what is wanted.
    #[test]
    fn what_the_program_wants_goes_before_the_file() {
        assert_eq!((next(), busbw_tuner_asked()), (None, 0));
        busbw_tuner_next_calls(1, 2, 4);
        let (mut costs, mut channels) = ([3.0; 21], 0);
        costs[0] = -1.0;
        next().expect("wanted").choose(&mut costs, 3, Some(&mut channels));
        assert_eq!((costs[5], costs[4], channels), (0.0, 3.0, 4));
        // Tree with LL cannot run: nothing changes, and it is counted.
        let (refused, before) = (busbw_tuner_refused(), costs);
        busbw_tuner_next_calls(0, 0, 8);
        next().expect("wanted").choose(&mut costs, 3, Some(&mut channels));
        assert_eq!((costs, channels, busbw_tuner_refused()), (before, 4, refused + 1));
        // Channels alone.
        busbw_tuner_next_calls(-1, -1, 2);
        next().expect("wanted").choose(&mut costs, 3, Some(&mut channels));
        assert_eq!((costs, channels, busbw_tuner_refused()), (before, 2, refused + 1));
        assert_eq!(busbw_tuner_asked(), 3);
        busbw_tuner_next_calls(-1, 2, 0);
        assert_eq!(next(), None);
    }
}
