//! Filling and verifying whole stretches of memory with a pattern.
//! Not the pattern itself, and not which stretch holds what (`layout`).

use std::marker::PhantomData;

use multiversion::multiversion;

use super::{
    Content, POISON, Pattern, Reduction,
    draw::Draw,
    reduction::{Elements, Visitor},
};

/// Elements that are handled between two looks at the upper half of the index.
const BLOCK: u64 = 1 << 16;

/// Elements that were not what they had to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mismatch {
    /// How many.
    pub wrong: u64,
    /// The first of them.
    pub first: Option<Wrong>,
}

/// One wrong element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wrong {
    /// Element index from the start of the checked memory.
    pub index: u64,
    /// Bits found.
    pub got: u64,
    /// Bits wanted.
    pub want: u64,
}

impl Mismatch {
    /// Adds the mismatches of a further stretch that starts `offset` elements on.
    pub fn add(&mut self, other: Mismatch, offset: u64) {
        self.wrong += other.wrong;
        self.first = self.first.or(other.first.map(|w| Wrong { index: w.index + offset, ..w }));
    }
}

/// A little-endian machine word of 1, 2, 4 or 8 bytes.
trait Word: Copy + PartialEq {
    const BYTES: usize;
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn load(bytes: &[u8]) -> Self;
    fn store(self, bytes: &mut [u8]);
}

macro_rules! word {
    ($type:ty, $bytes:literal) => {
        impl Word for $type {
            const BYTES: usize = $bytes;
            #[inline(always)]
            fn of(bits: u64) -> Self {
                bits as $type
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn load(bytes: &[u8]) -> Self {
                let mut raw = [0; $bytes];
                raw.copy_from_slice(bytes);
                <$type>::from_le_bytes(raw)
            }
            #[inline(always)]
            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    };
}
word!(u8, 1);
word!(u16, 2);
word!(u32, 4);
word!(u64, 8);

/// Writes `content` over `memory`, whose length is a whole number of elements.
pub fn fill(memory: &mut [u8], pattern: &Pattern, content: Content) {
    match pattern.datatype.bytes() {
        1 => fill_words::<u8>(memory, pattern, content),
        2 => fill_words::<u16>(memory, pattern, content),
        4 => fill_words::<u32>(memory, pattern, content),
        _ => fill_words::<u64>(memory, pattern, content),
    }
}

/// Compares `memory` with `content`, bit by bit.
pub fn verify(memory: &[u8], pattern: &Pattern, content: Content) -> Mismatch {
    match pattern.datatype.bytes() {
        1 => verify_words::<u8>(memory, pattern, content),
        2 => verify_words::<u16>(memory, pattern, content),
        4 => verify_words::<u32>(memory, pattern, content),
        _ => verify_words::<u64>(memory, pattern, content),
    }
}

fn fill_words<W: Word>(memory: &mut [u8], pattern: &Pattern, content: Content) {
    let (seed, word) = (pattern.seed, PhantomData::<W>);
    visit(pattern, content, |first| Filler { memory, seed, first, word });
}

fn verify_words<W: Word>(memory: &[u8], pattern: &Pattern, content: Content) -> Mismatch {
    let (seed, word) = (pattern.seed, PhantomData::<W>);
    visit(pattern, content, |first| Verifier { memory, seed, first, word })
}

/// An element that is copied from rank `0`'s send buffer.
#[derive(Clone, Copy)]
struct Copied(u32);

impl Elements for Copied {
    #[inline(always)]
    fn at(self, draw: Draw, low: u32) -> u64 {
        draw.wide(self.0, low)
    }
}

/// The same bits everywhere.
#[derive(Clone, Copy)]
struct Constant(u64);

impl Elements for Constant {
    #[inline(always)]
    fn at(self, _: Draw, _: u32) -> u64 {
        self.0
    }
}

/// Hands a visitor, made for an index, the elements of `content`.
fn visit<V: Visitor>(
    pattern: &Pattern,
    content: Content,
    visitor: impl FnOnce(u64) -> V,
) -> V::Out {
    match content {
        Content::Poison => visitor(0).visit(Constant(u64::from_le_bytes([POISON; 8]))),
        Content::Copied { source, first } => visitor(first).visit(Copied(source as u32)),
        Content::Contribution { rank, first } => {
            Reduction::new(*pattern).visit_contributions(rank, visitor(first))
        }
        Content::Reduced { first } => Reduction::new(*pattern).visit_results(visitor(first)),
    }
}

/// Writes elements from index `first` on.
struct Filler<'a, W> {
    memory: &'a mut [u8],
    seed: u64,
    first: u64,
    word: PhantomData<W>,
}

impl<W: Word> Visitor for Filler<'_, W> {
    type Out = ();

    fn visit(self, elements: impl Elements) {
        let count = (self.memory.len() / W::BYTES) as u64;
        for (done, now, index) in blocks(self.first, count) {
            let draw = Draw::new(self.seed, (index >> 32) as u32);
            let bytes = done as usize * W::BYTES..(done + now) as usize * W::BYTES;
            fill_block::<W, _>(&mut self.memory[bytes], draw, index as u32, elements);
        }
    }
}

/// Compares elements from index `first` on.
struct Verifier<'a, W> {
    memory: &'a [u8],
    seed: u64,
    first: u64,
    word: PhantomData<W>,
}

impl<W: Word> Visitor for Verifier<'_, W> {
    type Out = Mismatch;

    fn visit(self, elements: impl Elements) -> Mismatch {
        let mut all = Mismatch::default();
        let count = (self.memory.len() / W::BYTES) as u64;
        for (done, now, index) in blocks(self.first, count) {
            let draw = Draw::new(self.seed, (index >> 32) as u32);
            let bytes = &self.memory[done as usize * W::BYTES..(done + now) as usize * W::BYTES];
            let wrong = count_wrong::<W, _>(bytes, draw, index as u32, elements);
            if wrong > 0 {
                let first = first_wrong::<W>(bytes, draw, index as u32, elements);
                all.add(Mismatch { wrong, first }, done);
            }
        }
        all
    }
}

/// Stretches of `elements` from `first` on that share their upper index bits:
/// (elements before it, elements in it, index of its first).
fn blocks(first: u64, elements: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let index = first.wrapping_add(done);
        let now = (BLOCK - index % BLOCK).min(elements - done);
        let block = (done, now, index);
        done += now;
        (now > 0).then_some(block)
    })
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl",
    "x86_64+avx2",
    "aarch64+neon"
))]
fn fill_block<W: Word, E: Elements>(memory: &mut [u8], draw: Draw, low: u32, elements: E) {
    for (at, bytes) in memory.chunks_exact_mut(W::BYTES).enumerate() {
        W::of(elements.at(draw, low.wrapping_add(at as u32))).store(bytes);
    }
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl",
    "x86_64+avx2",
    "aarch64+neon"
))]
fn count_wrong<W: Word, E: Elements>(memory: &[u8], draw: Draw, low: u32, elements: E) -> u64 {
    let mut wrong = 0u32;
    for (at, bytes) in memory.chunks_exact(W::BYTES).enumerate() {
        let want = W::of(elements.at(draw, low.wrapping_add(at as u32)));
        wrong += u32::from(W::load(bytes) != want);
    }
    u64::from(wrong)
}

/// The place of the first wrong element; only looked for where there is one.
fn first_wrong<W: Word>(
    memory: &[u8],
    draw: Draw,
    low: u32,
    elements: impl Elements,
) -> Option<Wrong> {
    memory.chunks_exact(W::BYTES).enumerate().find_map(|(at, bytes)| {
        let want = W::of(elements.at(draw, low.wrapping_add(at as u32)));
        let got = W::load(bytes);
        let wrong = Wrong { index: at as u64, got: got.bits(), want: want.bits() };
        (got != want).then_some(wrong)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, ReduceOp};
    use proptest::prelude::*;

    fn any_content() -> impl Strategy<Value = Content> {
        let first = prop_oneof![0u64..100_000, (1u64 << 32) - 70_000..(1 << 32) + 70_000];
        prop_oneof![
            (0usize..5, first.clone())
                .prop_map(|(source, first)| Content::Copied { source, first }),
            (0usize..5, first.clone())
                .prop_map(|(rank, first)| Content::Contribution { rank, first }),
            first.prop_map(|first| Content::Reduced { first }),
            Just(Content::Poison),
        ]
    }

    proptest! {
        #[test]
        fn what_was_filled_verifies_and_one_flipped_bit_does_not(
            seed in any::<u64>(), t in 0usize..12, o in 0usize..6, content in any_content(),
            elements in 1usize..3000, at in any::<prop::sample::Index>(), bit in 0u32..64,
        ) {
            let datatype = DataType::ALL[t];
            let pattern = Pattern { seed, datatype, op: ReduceOp::ALL[o], ranks: 5 };
            let mut memory = vec![0; elements * datatype.bytes()];
            fill(&mut memory, &pattern, content);
            prop_assert_eq!(verify(&memory, &pattern, content), Mismatch::default());
            let byte = at.index(memory.len());
            memory[byte] ^= 1 << (bit % 8);
            let found = verify(&memory, &pattern, content);
            prop_assert_eq!(found.wrong, 1);
            prop_assert_eq!(found.first.unwrap().index, (byte / datatype.bytes()) as u64);
        }

        #[test]
        fn a_stretch_can_be_filled_in_parts(seed in any::<u64>(), t in 0usize..12, cut in 0usize..200) {
            let datatype = DataType::ALL[t];
            let pattern = Pattern { seed, datatype, op: ReduceOp::Sum, ranks: 3 };
            let first = (1u64 << 32) - 100;
            let whole = |elements: usize, first| {
                let mut memory = vec![0; elements * datatype.bytes()];
                fill(&mut memory, &pattern, Content::Contribution { rank: 1, first });
                memory
            };
            let mut parts = whole(cut, first);
            parts.extend(whole(200 - cut, first + cut as u64));
            prop_assert_eq!(whole(200, first), parts);
        }
    }
}
