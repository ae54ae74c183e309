//! Choices from a seed, and edits of a list of pieces: what every mutator here is made of.
//! It does not know what the pieces mean.

/// A source of choices; the same seed gives the same choices.
pub struct Draw(u64);

impl Draw {
    /// Choices from libFuzzer's seed.
    pub fn new(seed: u32) -> Draw {
        Draw(u64::from(seed))
    }

    /// Any 64 bits (splitmix64).
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A number of at most `digits` binary digits: small ones as often as large ones.
    pub fn number(&mut self, digits: u32) -> u64 {
        let keep = self.below(digits as usize + 1) as u32;
        self.bits() & ((1u64 << keep) - 1)
    }
}

/// Inserts, replaces, repeats, removes or moves one piece. `fresh` makes a new one, given the one
/// in whose place it will stand.
pub fn edit<T: Clone>(
    draw: &mut Draw,
    pieces: &mut Vec<T>,
    mut fresh: impl FnMut(&mut Draw, Option<&T>) -> T,
) {
    let at = draw.below(pieces.len() + 1);
    if at == pieces.len() {
        let piece = fresh(draw, None);
        pieces.push(piece);
        return;
    }
    match draw.below(8) {
        0 | 1 => {
            let piece = fresh(draw, None);
            pieces.insert(at, piece);
        }
        2..=4 => pieces[at] = fresh(draw, Some(&pieces[at])),
        5 => {
            pieces.remove(at);
        }
        6 => {
            let again = pieces[at].clone();
            let to = draw.below(pieces.len() + 1);
            pieces.insert(to, again);
        }
        _ => {
            let other = draw.below(pieces.len());
            pieces.swap(at, other);
        }
    }
}

/// Writes `text` over the input, cut to what fits, and says how long it is.
pub fn put(text: &[u8], data: &mut [u8], most: usize) -> usize {
    let size = text.len().min(most).min(data.len());
    data[..size].copy_from_slice(&text[..size]);
    size
}
