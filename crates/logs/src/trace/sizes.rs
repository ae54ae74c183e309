//! From the count of a call to bytes as in busbw's size column.
//! Not how a size becomes counts again (`busbw_core::collective`).

use busbw_core::Collective;

/// The largest size of a call, bytes: a larger one is no call, but a mistake in reading.
const MAX_BYTES: u64 = 1 << 50;

/// The size of a call whose count argument is `count`, bytes; `None` where no machine could hold it.
pub(super) fn bytes(
    collective: Collective,
    count: u64,
    element_bytes: usize,
    ranks: u32,
) -> Option<u64> {
    let most = count.checked_mul(u64::from(ranks.max(1)))?.checked_mul(element_bytes as u64)?;
    if most > MAX_BYTES {
        return None;
    }
    let ranks = ranks as usize;
    let message = collective.message_bytes(count, element_bytes, ranks);
    let counts = collective.counts_of_message(usize::try_from(message).ok()?, element_bytes, ranks);
    Some(counts.bytes(element_bytes) as u64)
}

/// Whether a number of bytes may be a message's.
pub(super) fn plausible(bytes: u64) -> Option<u64> {
    (bytes <= MAX_BYTES).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use busbw_core::alltoallv::Traffic;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_row_of_that_size_is_the_same_operation() {
        for (collective, expected) in [
            (Collective::AllReduce, 4096),
            (Collective::Broadcast, 4096),
            (Collective::AllGather, 8 * 4096),
            (Collective::ReduceScatter, 8 * 4096),
            (Collective::AllToAll, 8 * 4096),
            (Collective::Gather, 8 * 4096),
            (Collective::Scatter, 8 * 4096),
        ] {
            assert_eq!(bytes(collective, 1024, 4, 8), Some(expected), "{collective:?}");
            let counts = collective.counts(expected as usize, 4, 8, &Traffic::default());
            assert_eq!(counts.param, 1024, "{collective:?}");
        }
        assert_eq!(bytes(Collective::AllReduce, u64::MAX, 8, 8), None);
        assert_eq!(bytes(Collective::AllGather, 1 << 40, 8, u32::MAX), None);
    }

    proptest! {
        /// Chunks that are multiples of 16 bytes come back as they were.
        #[test]
        fn counts_come_back(
            which in 0..Collective::ALL.len(), sixteens in 1u64..1 << 20, log in 0u32..4, ranks in 1u32..64,
        ) {
            let (collective, element) = (Collective::ALL[which], 1usize << log);
            let count = sixteens * 16 / element as u64;
            let size = bytes(collective, count, element, ranks).unwrap();
            let counts = collective.counts(size as usize, element, ranks as usize, &Traffic::default());
            prop_assert_eq!(counts.param as u64, count);
        }

        #[test]
        fn any_numbers_are_taken(
            which in 0..Collective::ALL.len(), count in any::<u64>(), log in 0u32..4, ranks in any::<u32>(),
        ) {
            let found = bytes(Collective::ALL[which], count, 1 << log, ranks);
            prop_assert!(found.is_none_or(|bytes| bytes <= MAX_BYTES));
        }
    }
}
