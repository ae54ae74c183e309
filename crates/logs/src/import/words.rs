//! Keywords that show what a line may be, all found in one pass: nccl-tests' with their meanings, and those of
//! the listed formats, one bit a format.
//! Not the meaning of the line (`nccl_tests`, the formats).

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::FORMATS;

/// The meaning of a keyword of nccl-tests or NCCL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// `Avg bus bandwidth`, in a foot.
    Average,
    /// `Out of bounds values`, in a foot.
    OutOfBounds,
    /// `Collective test starting`, or concluded.
    Collective,
    /// `nThread`, among a run's parameters.
    Threads,
    /// `Rank`, of a device.
    Rank,
    /// `nccl-tests` or `rccl-tests`.
    Tests,
    /// A failure.
    Failure,
    /// Something of nccl-tests' that is not kept.
    Other,
    /// A variable of NCCL's or UCX's.
    Variable,
    /// One of nccl-tests' programs.
    Program,
    /// A column's name, or `bus bandwidth` in a sentence.
    Bandwidth,
    /// NCCL's or RCCL's version.
    Version,
    /// A type's name, or `minBytes`.
    Type,
}

/// The keywords of nccl-tests and of NCCL.
const WORDS: [(&str, Word); 41] = [
    ("Avg bus bandwidth", Word::Average),
    ("Out of bounds values", Word::OutOfBounds),
    ("Collective test ", Word::Collective),
    ("nThread ", Word::Threads),
    ("Rank ", Word::Rank),
    ("ccl-tests", Word::Tests),
    (": Test CUDA failure ", Word::Failure),
    (": Test NCCL failure ", Word::Failure),
    (": Test failure ", Word::Failure),
    (": Test timeout ", Word::Failure),
    ("Invalid number of GPUs", Word::Failure),
    ("exited on signal ", Word::Failure),
    ("invalid sizes for 'minbytes'", Word::Failure),
    ("Segmentation fault", Word::Failure),
    ("Using devices", Word::Other),
    ("(elements)", Word::Other),
    ("out-of-place", Word::Other),
    ("Reducing maxBytes to ", Word::Other),
    ("NCCL Tests compiled with NCCL", Word::Other),
    ("Blocking Enabled:", Word::Other),
    ("Parallel Init Enabled:", Word::Other),
    ("Per-Iteration Report:", Word::Other),
    ("Errors with asterisks indicate", Word::Other),
    ("GPU memory usage", Word::Other),
    ("Writing JSON output to ", Word::Other),
    ("skipping json output", Word::Other),
    ("NCCL_", Word::Variable),
    ("UCX_", Word::Variable),
    ("_perf", Word::Program),
    ("busbw", Word::Bandwidth),
    ("bus bandwidth", Word::Bandwidth),
    ("CCL version", Word::Version),
    ("float", Word::Type),
    ("half", Word::Type),
    ("double", Word::Type),
    ("int8", Word::Type),
    ("int32", Word::Type),
    ("int64", Word::Type),
    ("uint", Word::Type),
    ("f8e", Word::Type),
    ("minBytes", Word::Type),
];

/// Bits of meanings; those above are the listed formats'.
const MEANINGS: usize = 16;
const _: () = assert!((Word::Type as usize) < MEANINGS && MEANINGS + FORMATS.len() <= 32);

/// The meanings of the keywords in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Words(u32);

impl Words {
    /// Finds the keywords of a line.
    pub(super) fn of(line: &str) -> Words {
        static ALL: LazyLock<Vec<(&str, u32)>> = LazyLock::new(|| {
            let own = WORDS.iter().map(|(word, meaning)| (*word, 1 << *meaning as u32));
            let listed = FORMATS.iter().enumerate().flat_map(|(at, format)| {
                format.words.iter().map(move |word| (*word, 1 << (MEANINGS + at)))
            });
            own.chain(listed).collect()
        });
        static ANY: LazyLock<Option<AhoCorasick>> =
            LazyLock::new(|| AhoCorasick::new(ALL.iter().map(|(word, _)| word)).ok());
        let add = |all, (_, bit): &(&str, u32)| all | bit;
        Words(match &*ANY {
            Some(any) => {
                let found = any.find_overlapping_iter(line);
                found.filter_map(|found| ALL.get(found.pattern().as_usize())).fold(0, add)
            }
            None => ALL.iter().filter(|(word, _)| line.contains(word)).fold(0, add),
        })
    }

    /// Whether the line has a keyword of this meaning.
    pub(super) fn has(self, word: Word) -> bool {
        self.0 & 1 << word as u32 != 0
    }

    /// Whether the line has a keyword of the listed format at `at`.
    pub(super) fn has_format(self, at: usize) -> bool {
        self.0 & 1 << (MEANINGS + at) != 0
    }

    /// Whether the line has no keyword.
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}
