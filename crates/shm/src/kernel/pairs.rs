//! Numbers that are stored two to a word, separated and combined by shifts and masks of whole
//! words.
//! Not conversions: `half` and `fp8` have those.
//!
//! A group is split into all lower parts, then all upper ones: no lane of a vector has to move,
//! which is most of the cost of a change of width.

use super::isa::GROUP;

/// Words of a group.
const WORDS: usize = GROUP / 2;

/// The results of `lower` and `upper` for every pair of neighbours, combined into a word by `word`.
#[inline(always)]
pub(super) fn apart<T: Copy, W: Copy, P: Copy>(
    numbers: &[T; GROUP],
    blank: P,
    word: impl Fn([T; 2]) -> W,
    lower: impl Fn(W) -> P,
    upper: impl Fn(W) -> P,
) -> [P; GROUP] {
    let mut parts = [blank; GROUP];
    let (lowers, uppers) = parts.split_at_mut(WORDS);
    for ((pair, to_lower), to_upper) in numbers.as_chunks().0.iter().zip(lowers).zip(uppers) {
        let word = word(*pair);
        (*to_lower, *to_upper) = (lower(word), upper(word));
    }
    parts
}

/// The numbers of the words that `word` makes of lower and upper parts, and `pair` takes for numbers.
#[inline(always)]
pub(super) fn together<P: Copy, W: Copy, T: Copy>(
    parts: &[P; GROUP],
    blank: T,
    word: impl Fn(P, P) -> W,
    pair: impl Fn(W) -> [T; 2],
) -> [T; GROUP] {
    let mut numbers = [blank; GROUP];
    let (lowers, uppers) = parts.split_at(WORDS);
    for ((to, lower), upper) in numbers.as_chunks_mut().0.iter_mut().zip(lowers).zip(uppers) {
        *to = pair(word(*lower, *upper));
    }
    numbers
}
