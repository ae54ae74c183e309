//! Filling and verifying whole stretches of memory with a pattern.
//! Not the pattern itself, and not which stretch holds what (`layout`).

use super::{Content, POISON, Pattern, Reduction, draw::Draw};

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
    /// The pattern of a plain copy, without work on bits that the type does not hold.
    fn copied(draw: Draw, source: u32, low: u32) -> Self;
}

macro_rules! word {
    ($type:ty, $bytes:literal, $draw:ident) => {
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
            #[inline(always)]
            fn copied(draw: Draw, source: u32, low: u32) -> Self {
                draw.$draw(source, low) as $type
            }
        }
    };
}
word!(u8, 1, word);
word!(u16, 2, word);
word!(u32, 4, word);
word!(u64, 8, wide);

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

/// Calls `work` with each stretch of `elements` from `first` on that shares its upper index bits:
/// (elements before it, elements in it, index of its first).
fn blocks(first: u64, elements: u64, mut work: impl FnMut(u64, u64, u64)) {
    let mut done = 0;
    while done < elements {
        let index = first.wrapping_add(done);
        let now = (BLOCK - index % BLOCK).min(elements - done);
        work(done, now, index);
        done += now;
    }
}

fn fill_words<W: Word>(memory: &mut [u8], pattern: &Pattern, content: Content) {
    match content {
        Content::Poison => memory.fill(POISON),
        Content::Copied { source, first } => {
            let seed = pattern.seed;
            blocks(first, (memory.len() / W::BYTES) as u64, |done, now, index| {
                fill_copied::<W>(part(memory, done, now, W::BYTES), seed, source as u32, index);
            });
        }
        Content::Contribution { rank, first } => {
            let reduction = Reduction::new(*pattern);
            blocks(first, (memory.len() / W::BYTES) as u64, |done, now, index| {
                fill_with::<W>(part(memory, done, now, W::BYTES), index, |i| {
                    reduction.contribution(rank, i)
                });
            });
        }
        Content::Reduced { first } => {
            let reduction = Reduction::new(*pattern);
            blocks(first, (memory.len() / W::BYTES) as u64, |done, now, index| {
                fill_with::<W>(part(memory, done, now, W::BYTES), index, |i| reduction.result(i));
            });
        }
    }
}

fn verify_words<W: Word>(memory: &[u8], pattern: &Pattern, content: Content) -> Mismatch {
    let poison = W::of(u64::from_le_bytes([POISON; 8]));
    match content {
        Content::Poison => compare::<W>(memory, 0, |_| poison),
        Content::Copied { source, first } => verify_blocks::<W>(memory, first, |bytes, index| {
            let draw = Draw::new(pattern.seed, (index >> 32) as u32);
            compare::<W>(bytes, index, |i| W::copied(draw, source as u32, i as u32))
        }),
        Content::Contribution { rank, first } => {
            let reduction = Reduction::new(*pattern);
            verify_blocks::<W>(memory, first, |bytes, index| {
                compare::<W>(bytes, index, |i| W::of(reduction.contribution(rank, i)))
            })
        }
        Content::Reduced { first } => {
            let reduction = Reduction::new(*pattern);
            verify_blocks::<W>(memory, first, |bytes, index| {
                compare::<W>(bytes, index, |i| W::of(reduction.result(i)))
            })
        }
    }
}

fn part(memory: &mut [u8], done: u64, now: u64, bytes: usize) -> &mut [u8] {
    &mut memory[done as usize * bytes..(done + now) as usize * bytes]
}

#[inline(always)]
fn fill_copied<W: Word>(memory: &mut [u8], seed: u64, source: u32, index: u64) {
    let draw = Draw::new(seed, (index >> 32) as u32);
    let mut low = index as u32;
    for bytes in memory.chunks_exact_mut(W::BYTES) {
        W::copied(draw, source, low).store(bytes);
        low = low.wrapping_add(1);
    }
}

#[inline(always)]
fn fill_with<W: Word>(memory: &mut [u8], first: u64, element: impl Fn(u64) -> u64) {
    for (index, bytes) in (first..).zip(memory.chunks_exact_mut(W::BYTES)) {
        W::of(element(index)).store(bytes);
    }
}

fn verify_blocks<W: Word>(
    memory: &[u8],
    first: u64,
    check: impl Fn(&[u8], u64) -> Mismatch,
) -> Mismatch {
    let mut all = Mismatch::default();
    blocks(first, (memory.len() / W::BYTES) as u64, |done, now, index| {
        let bytes = &memory[done as usize * W::BYTES..(done + now) as usize * W::BYTES];
        all.add(check(bytes, index), done);
    });
    all
}

/// Counts first, and looks for the place only where something is wrong: the count vectorises.
#[inline(always)]
fn compare<W: Word>(memory: &[u8], first: u64, want: impl Fn(u64) -> W) -> Mismatch {
    let mut wrong = 0;
    for (index, bytes) in (first..).zip(memory.chunks_exact(W::BYTES)) {
        wrong += u64::from(W::load(bytes) != want(index));
    }
    if wrong == 0 {
        return Mismatch::default();
    }
    let place = memory
        .chunks_exact(W::BYTES)
        .enumerate()
        .find(|(i, bytes)| W::load(bytes) != want(first + *i as u64));
    Mismatch {
        wrong,
        first: place.map(|(i, bytes)| Wrong {
            index: i as u64,
            got: W::load(bytes).bits(),
            want: want(first + i as u64).bits(),
        }),
    }
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
