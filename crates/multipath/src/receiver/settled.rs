//! What has arrived on a path that loses chunks and keeps their order (UC), for its acknowledgements: a gap is a loss for good.
//! Not where a chunk belongs, which the layer below knows; nor paths that reorder (`datagrams`).

/// Chunks that may be in flight on such a path: an acknowledgement has a bit for each, and half as many again would not be told
/// apart by [`NUMBER_BITS`].
pub(crate) const WINDOW: usize = 64;
/// Bits of a chunk's number that travel with it.
pub const NUMBER_BITS: u32 = 7;

const _: () = assert!(2 * WINDOW == 1 << NUMBER_BITS);

/// An acknowledgement of such a path. All numbers below one are settled: each has arrived, or never will.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// The first number that is not settled.
    pub below: u64,
    /// Which of the 64 before it have arrived; the lowest bit is the last one's.
    pub arrived: u64,
}

/// A number that no chunk on its way can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a chunk of number {number} (modulo {}) arrived, where {below} was next", 1 << NUMBER_BITS)]
pub struct OutOfOrder {
    number: u32,
    below: u64,
}

impl Settled {
    /// The chunk with a number that ends in these bits has arrived.
    ///
    /// # Errors
    /// It is none of the next ones.
    pub fn arrived(&mut self, number: u32) -> Result<(), OutOfOrder> {
        self.sent_below(number)?;
        self.arrived = self.arrived << 1 | 1;
        self.below += 1;
        Ok(())
    }

    /// Everything was sent before, and so has arrived or never will, whose number is below one that ends in these bits.
    ///
    /// # Errors
    /// It is none of the next ones.
    pub fn sent_below(&mut self, number: u32) -> Result<(), OutOfOrder> {
        let below = self.below;
        let mask = (1 << NUMBER_BITS) - 1;
        // The lowest bits of both.
        let ahead = number.wrapping_sub(below as u32) & mask;
        if ahead as usize > WINDOW {
            return Err(OutOfOrder { number: number & mask, below });
        }
        self.arrived = self.arrived.checked_shl(ahead).unwrap_or(0);
        self.below += u64::from(ahead);
        Ok(())
    }

    /// Whether a number below [`Settled::below`] has arrived; what is further behind than there are bits has been told before.
    #[must_use]
    pub fn has(&self, number: u64) -> bool {
        let behind = self.below.checked_sub(number + 1);
        behind.is_some_and(|behind| behind < 64 && self.arrived >> behind & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is lost, what is settled is told apart, by numbers of which only the last bits travel.
        #[test]
        fn what_has_arrived_is_told(fates in prop::collection::vec(0u8..4, 1..400)) {
            let (mut settled, mut all) = (Settled::default(), Vec::new());
            for fate in fates {
                let number = all.len() as u64;
                match fate {
                    0 if number - settled.below < WINDOW as u64 => all.push(false),
                    1 => settled.sent_below(number as u32 & 127).unwrap(),
                    _ => {
                        settled.arrived(number as u32 & 127).unwrap();
                        all.push(true);
                    }
                }
                prop_assert!(settled.below <= all.len() as u64);
                for number in settled.below.saturating_sub(64)..settled.below {
                    prop_assert_eq!(settled.has(number), all[number as usize], "{}", number);
                }
                prop_assert!(!settled.has(settled.below));
            }
        }
    }

    #[test]
    fn a_number_from_behind_is_refused() {
        let mut settled = Settled::default();
        (0..100).for_each(|number| settled.arrived(number).unwrap());
        assert!(settled.arrived(99).is_err());
        assert!(settled.sent_below(40).is_err());
        settled.sent_below((100 + 64) & 127).unwrap();
        assert_eq!(settled, Settled { below: 164, arrived: 0 });
    }
}
