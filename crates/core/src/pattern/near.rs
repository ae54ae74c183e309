//! Verification with a tolerance of a few representable floats: averages of libraries that choose
//! themselves when they divide.
//! Not the exact comparison (`fill`).

use super::{
    Content, Mismatch, Pattern, Wrong,
    fill::{fill, verify, word},
};

/// Like [`verify`], but floats may be up to `tolerance` numbers of their type away from the exact one.
pub fn verify_within(
    memory: &[u8],
    pattern: &Pattern,
    content: Content,
    tolerance: u32,
) -> Mismatch {
    let exact = verify(memory, pattern, content);
    if exact.wrong == 0 || tolerance == 0 {
        return exact;
    }
    let mut wanted = vec![0; memory.len()];
    fill(&mut wanted, pattern, content);
    let size = pattern.datatype.bytes();
    let mut found = Mismatch::default();
    for (index, (got, want)) in memory.chunks(size).zip(wanted.chunks(size)).enumerate() {
        let (got, want) = (word(got), word(want));
        if ordinal(got, size).abs_diff(ordinal(want, size)) > u64::from(tolerance) {
            let first = Some(Wrong { index: index as u64, got, want });
            found.add(Mismatch { wrong: 1, first }, 0);
        }
    }
    found
}

/// The index of a number of its type, counted from zero, downwards for negative ones.
fn ordinal(bits: u64, size: usize) -> i64 {
    let magnitude = bits & (u64::MAX >> (65 - 8 * size));
    let negative = bits >> (8 * size - 1) & 1 == 1;
    if negative { -(magnitude as i64) } else { magnitude as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, ReduceOp};

    #[test]
    fn as_far_as_said_and_no_further() {
        let pattern = Pattern { seed: 7, datatype: DataType::Float, op: ReduceOp::Avg, ranks: 3 };
        let content = Content::Reduced { first: 0 };
        let mut memory = vec![0; 64 * 4];
        fill(&mut memory, &pattern, content);
        let at = 4 * 17;
        let word = u32::from_le_bytes(memory[at..at + 4].try_into().unwrap());
        for off in 0..5u32 {
            memory[at..at + 4].copy_from_slice(&(word + off).to_le_bytes());
            let found = verify_within(&memory, &pattern, content, 2);
            assert_eq!(found.wrong, u64::from(off > 2), "{off}");
            if off > 2 {
                let want = Wrong { index: 17, got: u64::from(word + off), want: u64::from(word) };
                assert_eq!(found.first, Some(want));
            }
        }
    }

    #[test]
    fn zeros_of_both_signs_are_one_number() {
        assert_eq!((ordinal(0x8000_0000, 4), ordinal(0, 4)), (0, 0));
        assert_eq!((ordinal(0x8000_0001, 4), ordinal(1, 4)), (-1, 1));
        assert_eq!(ordinal(0x81, 1), -1);
        assert_eq!(ordinal(u64::MAX >> 1, 8), i64::MAX);
    }
}
