//! Counts how often each entry was printed, up to a limit of distinct entries and of bytes kept.
//! Not what the entries are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The most bytes that are kept of a free text, such as a value or a warning.
const MAX_TEXT_BYTES: usize = 1024;

/// Distinct entries, and the number of messages of each. Beyond `most`, new ones are only counted.
#[derive(Debug)]
pub(super) struct Tally<K> {
    counts: BTreeMap<K, u64>,
    most: usize,
    left_out: u64,
}

impl<K: Ord> Tally<K> {
    pub(super) fn new(most: usize) -> Self {
        Tally { counts: BTreeMap::new(), most, left_out: 0 }
    }

    /// Counts one more message of `thing`.
    pub(super) fn add(&mut self, thing: K) {
        if let Some(count) = self.counts.get_mut(&thing) {
            *count += 1;
        } else if self.counts.len() < self.most {
            self.counts.insert(thing, 1);
        } else {
            self.left_out += 1;
        }
    }

    /// The counts; the number of dropped entries is added to `left_out`.
    pub(super) fn finish(self, left_out: &mut u64) -> BTreeMap<K, u64> {
        *left_out += self.left_out;
        self.counts
    }
}

/// An entry, and the number of its messages: a rank prints most entries once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted<T> {
    /// The entry.
    #[serde(flatten)]
    pub what: T,
    /// Messages.
    pub said: u64,
}

/// The same for a map of counts.
pub(super) fn counted<T>(counts: BTreeMap<T, u64>) -> Vec<Counted<T>> {
    counts.into_iter().map(|(what, said)| Counted { what, said }).collect()
}

/// Whether a count need not be written down.
pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The part of a free text that is kept: at most 1024 bytes, ended between characters.
pub(super) fn keep(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_what_is_dropped_is_counted() {
        let mut tally = Tally::new(2);
        for thing in ["a", "b", "c", "a", "d"] {
            tally.add(thing);
        }
        let mut left_out = 0;
        assert_eq!(tally.finish(&mut left_out), BTreeMap::from([("a", 2), ("b", 1)]));
        assert_eq!(left_out, 2);
        assert_eq!(keep(&"é".repeat(1000)).len(), 1024);
        assert_eq!(keep(&format!("x{}", "é".repeat(1000))).len(), 1023);
    }
}
