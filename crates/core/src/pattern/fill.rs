//! Fills and verifies whole stretches of memory with a pattern.
//! Not the pattern itself, and not which stretch holds what (`layout`).

use std::ops::Range;

use multiversion::multiversion;

use super::{
    Content, POISON, Pattern, Reduction,
    draw::Draw,
    reduction::{Elements, Visitor},
};

/// Bytes of a group.
const GROUP: u64 = 8;

/// Groups between two computations of the upper half of the index.
const BLOCK: u64 = 1 << 13;

/// Wrong elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mismatch {
    /// Their number.
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
    /// Expected bits.
    pub want: u64,
}

impl Mismatch {
    /// Adds the mismatches of a further stretch that starts `offset` elements on.
    pub fn add(&mut self, other: Mismatch, offset: u64) {
        self.wrong += other.wrong;
        self.first = self.first.or(other.first.map(|w| Wrong { index: w.index + offset, ..w }));
    }
}

/// Writes `content` over `memory`, whose length is a whole number of elements.
pub fn fill(memory: &mut [u8], pattern: &Pattern, content: Content) {
    visit(pattern, content, |first| Filler { memory, pattern, first });
}

/// Compares `memory` with `content`, bit by bit.
pub fn verify(memory: &[u8], pattern: &Pattern, content: Content) -> Mismatch {
    visit(pattern, content, |first| Verifier { memory, pattern, first })
}

/// The content of rank `0`'s send buffer for copies: every bit pattern occurs, NaNs included.
#[derive(Clone, Copy)]
struct Copied(u32);

impl Elements for Copied {
    #[inline(always)]
    fn at(self, draw: Draw, low: u32) -> u64 {
        draw.group(self.0, low)
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

/// Calls a visitor, made for an index, with the elements of `content`.
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
struct Filler<'a> {
    memory: &'a mut [u8],
    pattern: &'a Pattern,
    first: u64,
}

impl Visitor for Filler<'_> {
    type Out = ();

    fn visit(self, elements: impl Elements) {
        for block in blocks(self.pattern, self.first, self.memory.len()) {
            fill_block(&mut self.memory[block.range()], &block, elements);
        }
    }
}

/// Compares elements from index `first` on.
struct Verifier<'a> {
    memory: &'a [u8],
    pattern: &'a Pattern,
    first: u64,
}

impl Visitor for Verifier<'_> {
    type Out = Mismatch;

    fn visit(self, elements: impl Elements) -> Mismatch {
        let bytes = self.pattern.datatype.bytes();
        let mut all = Mismatch::default();
        for block in blocks(self.pattern, self.first, self.memory.len()) {
            let memory = &self.memory[block.range()];
            if differs(memory, &block, elements) {
                let mut want = vec![0; memory.len()];
                fill_block(&mut want, &block, elements);
                all.add(compare(memory, &want, bytes), (block.at / bytes) as u64);
            }
        }
        all
    }
}

/// The elements that differ in any bit.
fn compare(memory: &[u8], want: &[u8], bytes: usize) -> Mismatch {
    let mut found = Mismatch::default();
    for (index, (got, want)) in memory.chunks(bytes).zip(want.chunks(bytes)).enumerate() {
        if got != want {
            let first = Some(Wrong { index: index as u64, got: word(got), want: word(want) });
            found.add(Mismatch { wrong: 1, first }, 0);
        }
    }
    found
}

/// The bits of an element.
pub(super) fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// A stretch of memory whose groups share the upper half of their index.
struct Block {
    draw: Draw,
    /// Lower half of the index of the first group.
    low: u32,
    /// Bytes of that group that lie before the block.
    skip: usize,
    /// Offset and length in the memory, in bytes.
    at: usize,
    len: usize,
}

impl Block {
    /// Bytes of the first group, if a part of it lies before the block; else `None`.
    fn head(&self) -> usize {
        ((GROUP as usize - self.skip) % GROUP as usize).min(self.len)
    }

    fn range(&self) -> Range<usize> {
        self.at..self.at + self.len
    }
}

/// All blocks of `len` bytes of memory, of which the first element has index `first`.
fn blocks(pattern: &Pattern, first: u64, len: usize) -> impl Iterator<Item = Block> {
    let (seed, bytes) = (pattern.seed, pattern.datatype.bytes());
    let in_group = GROUP / bytes as u64;
    let mut at = 0;
    std::iter::from_fn(move || {
        let index = first.wrapping_add((at / bytes) as u64);
        let (group, skip) = (index / in_group, (index % in_group) as usize * bytes);
        let room = (BLOCK - group % BLOCK) as usize * GROUP as usize - skip;
        let draw = Draw::new(seed, (group >> 32) as u32);
        let block = Block { draw, low: group as u32, skip, at, len: room.min(len - at) };
        at += block.len;
        (block.len > 0).then_some(block)
    })
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl",
    "x86_64+avx2",
    "aarch64+neon"
))]
fn fill_block<E: Elements>(memory: &mut [u8], block: &Block, elements: E) {
    let (draw, low) = (block.draw, block.low);
    let (head, rest) = memory.split_at_mut(block.head());
    let head_len = head.len();
    head.copy_from_slice(&elements.at(draw, low).to_le_bytes()[block.skip..][..head_len]);
    let low = low.wrapping_add(u32::from(head_len > 0));
    let (groups, tail) = rest.as_chunks_mut::<8>();
    for (at, group) in groups.iter_mut().enumerate() {
        *group = elements.at(draw, low.wrapping_add(at as u32)).to_le_bytes();
    }
    let tail_len = tail.len();
    let last = elements.at(draw, low.wrapping_add(groups.len() as u32));
    tail.copy_from_slice(&last.to_le_bytes()[..tail_len]);
}

/// Whether any bit of a block is wrong.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl",
    "x86_64+avx2",
    "aarch64+neon"
))]
fn differs<E: Elements>(memory: &[u8], block: &Block, elements: E) -> bool {
    let (draw, low) = (block.draw, block.low);
    let (head, rest) = memory.split_at(block.head());
    let ends_at = head.len() + block.skip;
    let head_differs = head != &elements.at(draw, low).to_le_bytes()[ends_at - head.len()..ends_at];
    let low = low.wrapping_add(u32::from(!head.is_empty()));
    let (groups, tail) = rest.as_chunks::<8>();
    let mut differ = 0;
    for (at, group) in groups.iter().enumerate() {
        let want = elements.at(draw, low.wrapping_add(at as u32));
        differ |= u64::from_le_bytes(*group) ^ want;
    }
    let last = elements.at(draw, low.wrapping_add(groups.len() as u32));
    head_differs || differ != 0 || tail != &last.to_le_bytes()[..tail.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, ReduceOp};
    use proptest::prelude::*;

    fn any_content() -> impl Strategy<Value = Content> {
        // The upper half of a group's index changes at element 2^35 of 1 byte, 2^32 of 8.
        let first = prop_oneof![
            0u64..100_000,
            (1u64 << 35) - 70_000..(1 << 35) + 70_000,
            (1u64 << 32) - 70_000..(1 << 32) + 70_000,
        ];
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
            let first = (1u64 << 35) / datatype.bytes() as u64 - 100;
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
