//! Which of a fixed number of slots are taken, without locks.
//! Not what is in a slot (`slots`, `steps`).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A bit a slot. Whoever looks for a free one begins where the last was found, so that no slot that stays taken holds up
/// others; what is given back before that is taken first, so that few slots are used and stay in the cache.
#[derive(Debug)]
pub(crate) struct Places {
    words: Box<[AtomicU64]>,
    hint: AtomicU32,
}

impl Places {
    /// `count` free slots, a multiple of 64.
    pub fn new(count: usize) -> Self {
        Self {
            words: (0..count / 64).map(|_| AtomicU64::new(0)).collect(),
            hint: AtomicU32::new(0),
        }
    }

    /// Takes a slot. None: all are taken.
    pub fn take(&self) -> Option<usize> {
        let begin = self.hint.load(Ordering::Relaxed) as usize;
        for round in 0..self.words.len() {
            let at = (begin + round) % self.words.len();
            let word = &self.words[at];
            let mut taken = word.load(Ordering::Relaxed);
            while taken != u64::MAX {
                let bit = taken.trailing_ones();
                // Acquire: what the slot's last user did is over.
                match word.compare_exchange_weak(
                    taken,
                    taken | 1 << bit,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        if round > 0 {
                            self.hint.store(at as u32, Ordering::Relaxed);
                        }
                        return Some(at * 64 + bit as usize);
                    }
                    Err(now) => taken = now,
                }
            }
        }
        None
    }

    /// Gives a slot back.
    pub fn free(&self, slot: usize) {
        self.words[slot / 64].fetch_and(!(1 << (slot % 64)), Ordering::Release);
        // No more than a hint: two that do this at once may leave the larger.
        if self.hint.load(Ordering::Relaxed) as usize > slot / 64 {
            self.hint.store((slot / 64) as u32, Ordering::Relaxed);
        }
    }

    /// The slots that are taken now.
    pub fn taken(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut bits = word.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
                (bit < 64).then_some(at * 64 + bit as usize)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_taken_once_and_one_that_stays_holds_nobody_up() {
        let places = Places::new(128);
        let mut all: Vec<usize> = std::thread::scope(|scope| {
            let each: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| (0..32).map(|_| places.take().unwrap()).collect::<Vec<_>>())
                })
                .collect();
            each.into_iter().flat_map(|one| one.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert_eq!(all, (0..128).collect::<Vec<_>>());
        assert_eq!(places.take(), None);
        assert_eq!(places.taken().count(), 128);
        places.free(77);
        assert_eq!(places.take(), Some(77));
        places.free(3);
        places.free(100);
        assert_eq!((places.take().is_some(), places.take().is_some()), (true, true));
        assert_eq!(places.take(), None);
    }
}
