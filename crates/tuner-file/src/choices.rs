//! A file as one communicator asks it: the entry for a call in a few steps, without memory or locks.
//! Not the rule, which is [`TunerFile::decide`]; the tests hold one against the other.

use std::collections::BTreeSet;

use crate::{entry::Entry, reading::TunerFile, words::Collective};

/// The choices of a file for a communicator.
#[derive(Debug, Clone, Default)]
pub struct Choices {
    entries: Vec<Entry>,
    /// Entries for any number of operations, by the collective's number.
    any: [Ranges; Collective::ALL.len()],
    /// Entries for one number of operations, in the order of collective and number.
    exact: Vec<(Collective, u32, Ranges)>,
}

/// Sizes for which one entry, or none, is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range<'a> {
    /// The smallest, in bytes.
    pub least_bytes: u64,
    /// The largest, in bytes.
    pub most_bytes: u64,
    /// The entry.
    pub entry: Option<&'a Entry>,
}

/// Ranges of bytes, each from its start to the next one's, with the first entry of the file that is for it. Starts lie
/// apart from entries, so that the search meets few lines of the cache.
#[derive(Debug, Clone, Default)]
struct Ranges {
    starts: Vec<u64>,
    first: Vec<Option<usize>>,
}

impl Choices {
    /// The choices of `file` for a communicator of so many ranks and nodes.
    #[must_use]
    pub fn new(file: &TunerFile, ranks: u64, nodes: u64) -> Self {
        let fitting = file.entries.iter().filter(|entry| entry.fits(ranks, nodes));
        let entries: Vec<Entry> = fitting.copied().collect();
        let ranges = |collective: Collective, pipe_ops: Option<u32>| {
            let of = |entry: &Entry| entry.collective == collective && entry.pipe_ops == pipe_ops;
            Ranges::of(entries.iter().enumerate().filter(|(_, entry)| of(entry)))
        };
        let mut any: [Ranges; Collective::ALL.len()] = Default::default();
        for &collective in Collective::ALL {
            any[collective.number()] = ranges(collective, None);
        }
        let counts: BTreeSet<(Collective, u32)> =
            entries.iter().filter_map(|entry| Some((entry.collective, entry.pipe_ops?))).collect();
        let exact = counts.into_iter();
        let exact = exact.map(|(collective, ops)| (collective, ops, ranges(collective, Some(ops))));
        Self { any, exact: exact.collect(), entries }
    }

    /// The first entry of the file for a call of this communicator. Neither allocates nor waits; its steps grow with
    /// the logarithm of the number of entries.
    #[must_use]
    pub fn choose(&self, collective: Collective, bytes: u64, pipe_ops: u32) -> Option<&Entry> {
        let any = self.any.get(collective.number()).and_then(|ranges| ranges.at(bytes));
        let place =
            self.exact.binary_search_by_key(&(collective, pipe_ops), |(of, ops, _)| (*of, *ops));
        let exact = place.ok().and_then(|place| self.exact.get(place)?.2.at(bytes));
        let first = match (any, exact) {
            (Some(one), Some(other)) => one.min(other),
            (one, other) => one.or(other)?,
        };
        self.entries.get(first)
    }

    /// What is chosen for a collective, from 0 bytes to the largest size; neighbours differ.
    #[must_use]
    pub fn ranges(&self, collective: Collective, pipe_ops: u32) -> Vec<Range<'_>> {
        let any = self.any.get(collective.number()).into_iter();
        let exact = self.exact.iter().filter(|(of, ops, _)| (*of, *ops) == (collective, pipe_ops));
        let starts = any.chain(exact.map(|(_, _, ranges)| ranges));
        let starts: BTreeSet<u64> =
            starts.flat_map(|ranges| ranges.starts.iter().copied()).chain([0]).collect();
        let mut all: Vec<Range<'_>> = Vec::new();
        for start in starts {
            let entry = self.choose(collective, start, pipe_ops);
            match all.last_mut() {
                // The same entry, not an equal one: two lines are two entries.
                Some(last)
                    if last.entry.map(std::ptr::from_ref) == entry.map(std::ptr::from_ref) => {}
                last => {
                    if let Some(last) = last {
                        last.most_bytes = start - 1;
                    }
                    all.push(Range { least_bytes: start, most_bytes: u64::MAX, entry });
                }
            }
        }
        all
    }

    /// Numbers of operations for which an entry of the collective is.
    #[must_use]
    pub fn operations(&self, collective: Collective) -> Vec<u32> {
        let of = self.exact.iter().filter(|(of, _, _)| *of == collective);
        of.map(|(_, operations, _)| *operations).collect()
    }

    /// Entries that are for this communicator.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no entry is for this communicator.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Ranges {
    /// Ranges of entries that come with their places in the file.
    fn of<'a>(entries: impl Iterator<Item = (usize, &'a Entry)>) -> Self {
        // Where an entry begins and, one byte behind its end, where it ends.
        let mut edges: Vec<(u64, usize, bool)> = Vec::new();
        for (place, entry) in entries {
            edges.push((entry.least_bytes, place, true));
            if let Some(behind) = entry.most_bytes.checked_add(1) {
                edges.push((behind, place, false));
            }
        }
        edges.sort_unstable();
        let (mut open, mut ranges) = (BTreeSet::new(), Self::default());
        for (bytes, place, begins) in edges {
            if begins {
                open.insert(place);
            } else {
                open.remove(&place);
            }
            if ranges.starts.last() == Some(&bytes) {
                ranges.first.pop();
            } else {
                ranges.starts.push(bytes);
            }
            ranges.first.push(open.first().copied());
        }
        ranges
    }

    /// The place of the first entry for so many bytes.
    fn at(&self, bytes: u64) -> Option<usize> {
        let behind = self.starts.partition_point(|&start| start <= bytes);
        *self.first.get(behind.checked_sub(1)?)?
    }
}
