//! Acknowledgements of unreliable queue pairs (UC), written by the receiver into a table at the sender: which chunks of a path
//! have arrived, and which never will. A later one says all that an earlier one has said, so that any may be lost.
//! Not of reliable ones (RC), whose writes complete when they have arrived; nor when one is written (`receiver`).

use busbw_multipath::{Settled, Time, frame::take};

use super::clear_to_send::BYTES;

/// What the receiver says of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Acknowledgement {
    /// Of the queue pair by which the chunks came.
    pub epoch: u32,
    pub settled: Settled,
    /// What time it is at the receiver.
    pub time: Time,
}

impl Acknowledgement {
    pub(super) fn encoded(&self) -> [u8; BYTES] {
        let words = [u64::from(self.epoch), self.settled.below, self.settled.arrived, self.time.0];
        let mut bytes = [0; BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words.into_iter().chain([sum(words)])) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Nothing where none was written, or one is being written over another.
    pub(super) fn decoded(bytes: &[u8; BYTES]) -> Option<Acknowledgement> {
        let words = std::array::from_fn(|at| u64::from_le_bytes(take(bytes, 8 * at)));
        let [epoch, below, arrived, time] = words;
        let is_whole = u64::from_le_bytes(take(bytes, 32)) == sum(words);
        is_whole.then_some(Acknowledgement {
            // It was 32 bits.
            epoch: epoch as u32,
            settled: Settled { below, arrived },
            time: Time(time),
        })
    }
}

/// Differs where any word does, nearly certainly; and from what an empty table has.
fn sum(words: [u64; 4]) -> u64 {
    // A prime near 2^64 divided by the golden ratio, as in Fibonacci hashing.
    let mixed =
        |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c55).rotate_left(29);
    words.into_iter().fold(1, mixed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_acknowledgement() -> impl Strategy<Value = Acknowledgement> {
        let numbers = (any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>());
        numbers.prop_map(|(epoch, below, arrived, time)| Acknowledgement {
            epoch,
            settled: Settled { below, arrived },
            time: Time(time),
        })
    }

    proptest! {
        #[test]
        fn acknowledgements_come_back(one in any_acknowledgement()) {
            prop_assert_eq!(Acknowledgement::decoded(&one.encoded()), Some(one));
        }

        #[test]
        fn half_of_one_over_another_is_none(new in any_acknowledgement(), old in any_acknowledgement(), cut in 1..40usize) {
            let (new, old) = (new.encoded(), old.encoded());
            let mixed: Vec<u8> = [&new[..cut], &old[cut..]].concat();
            let is_one = mixed == new || mixed == old;
            let decoded = Acknowledgement::decoded(&mixed.try_into().unwrap());
            prop_assert!(decoded.is_some() == is_one);
        }
    }

    #[test]
    fn an_empty_table_has_none() {
        assert_eq!(Acknowledgement::decoded(&[0; BYTES]), None);
    }
}
