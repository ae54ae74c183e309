//! What has arrived on an unreliable path, for its acknowledgements.
//! Not where it belongs (`requests`).

use crate::Time;

/// Numbers behind the first missing one that an acknowledgement has a bit for.
pub(crate) const ACK_WINDOW: u64 = 128;

/// An acknowledgement of an unreliable path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The path.
    pub path: usize,
    /// All numbers below this one have arrived, or are given up.
    pub next: u64,
    /// A bit for each number from `next` on that has arrived.
    pub beyond: u128,
    /// The number that has just arrived.
    pub newest: u64,
    /// What time it was then at the receiver: by one clock for all connections of a host.
    pub time: Time,
}

impl Ack {
    /// Whether a number has arrived.
    #[must_use]
    pub fn has(&self, number: u64) -> bool {
        match number.checked_sub(self.next) {
            None => true,
            Some(ahead) => ahead < ACK_WINDOW && self.beyond >> ahead & 1 != 0,
        }
    }
}

/// The numbers that have arrived on a path.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Arrived {
    next: u64,
    beyond: u128,
}

impl Arrived {
    /// A number has arrived: what to acknowledge.
    pub(super) fn add(&mut self, path: usize, number: u64, time: Time) -> Ack {
        if let Some(ahead) = number.checked_sub(self.next) {
            let window = ACK_WINDOW;
            if ahead >= window {
                // The oldest missing ones are given up: the sender has long sent them again, under other numbers.
                let over = ahead - window + 1;
                self.beyond = if over >= window { 0 } else { self.beyond >> over };
                self.next += over;
            }
            self.beyond |= 1 << (number - self.next);
            let arrived = self.beyond.trailing_ones();
            self.beyond = self.beyond.checked_shr(arrived).unwrap_or(0);
            self.next += u64::from(arrived);
        }
        Ack { path, next: self.next, beyond: self.beyond, newest: number, time }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// In whatever order numbers arrive: an acknowledgement has those that did, and no other within its window.
        #[test]
        fn acknowledgements_have_what_arrived(numbers in prop::collection::vec(0u64..400, 1..300)) {
            let (mut arrived, mut all) = (Arrived::default(), BTreeSet::new());
            for number in numbers {
                all.insert(number);
                let ack = arrived.add(3, number, Time(7));
                prop_assert!(ack.has(number));
                prop_assert_eq!((ack.path, ack.newest, ack.time), (3, number, Time(7)));
                let newest = *all.last().unwrap();
                prop_assert!(ack.next <= newest + 1);
                for other in ack.next..newest + 200 {
                    prop_assert_eq!(ack.has(other), all.contains(&other), "{} in {:?}", other, ack);
                }
            }
        }
    }
}
