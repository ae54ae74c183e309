//! Whether a path that could take a piece should: by when each would have delivered it.
//! Not the pieces.
//!
//! A path that has room takes a piece if it would have delivered it before all paths together have delivered
//! everything that waits (then it helps), or before another path, drawn at random, would: the power of two
//! choices, by expected completion. So a slow path stops taking towards the end of a message.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What is known of a path, to be read by everybody.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Bytes on their way.
    queued: AtomicU64,
    /// Nanoseconds for a KiB; 0 while nobody knows.
    pace: AtomicU32,
    /// Whether it takes pieces.
    open: AtomicU32,
}

/// How much of the newest measurement goes into the pace: 1 / 2^this.
const SMOOTHING: u32 = 3;

impl Load {
    /// What is on its way now, in bytes.
    pub(super) fn set_queued(&self, bytes: usize) {
        self.queued.store(bytes as u64, Ordering::Relaxed);
    }

    /// Whether it takes pieces now.
    pub(super) fn set_open(&self, open: bool) {
        self.open.store(open.into(), Ordering::Relaxed);
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) != 0
    }

    /// So many bytes took so long.
    pub(super) fn measured(&self, bytes: usize, nanoseconds: u64) {
        let pace = nanoseconds.saturating_mul(1024) / bytes.max(1) as u64;
        let pace = u32::try_from(pace).unwrap_or(u32::MAX).max(1);
        let old = self.pace.load(Ordering::Relaxed);
        let new = if old == 0 { pace } else { old - (old >> SMOOTHING) + (pace >> SMOOTHING) };
        self.pace.store(new.max(1), Ordering::Relaxed);
    }

    /// A new connection: nothing is known.
    pub(super) fn forget(&self) {
        self.pace.store(0, Ordering::Relaxed);
        self.queued.store(0, Ordering::Relaxed);
    }

    /// Nanoseconds until `more` bytes would be delivered, behind what is on its way. 0 while nobody knows.
    pub(super) fn expected(&self, more: usize) -> u64 {
        let bytes = self.queued.load(Ordering::Relaxed) + more as u64;
        bytes.saturating_mul(self.pace.load(Ordering::Relaxed).into()) / 1024
    }

    /// KiB a second, if known.
    fn rate(&self) -> Option<f64> {
        let pace = self.pace.load(Ordering::Relaxed);
        (pace > 0).then(|| 1e9 / f64::from(pace))
    }
}

/// Whether `path` of these should take a piece of so many bytes, when so many wait in all, it included; `draw`
/// is any number.
pub(super) fn should_take<'a>(
    loads: impl ExactSizeIterator<Item = &'a Load> + Clone,
    path: usize,
    bytes: usize,
    waiting: usize,
    draw: usize,
) -> bool {
    let count = loads.len();
    let mut all = loads.clone();
    let Some(own) = all.nth(path).map(|load| load.expected(bytes)) else { return false };
    if own == 0 || count < 2 {
        return true;
    }
    let other = (path + 1 + draw % (count - 1)) % count;
    if let Some(other) = loads.clone().nth(other)
        && (!other.is_open() || own <= other.expected(bytes))
    {
        return true;
    }
    let rate: f64 = loads.filter(|load| load.is_open()).filter_map(Load::rate).sum();
    // Nanoseconds until all paths have delivered everything.
    own as f64 <= waiting as f64 / 1024.0 / rate.max(f64::MIN_POSITIVE) * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(queued: usize, microseconds_a_kib: u64) -> Load {
        let load = Load::default();
        load.set_open(true);
        load.set_queued(queued);
        if microseconds_a_kib > 0 {
            load.measured(1024, microseconds_a_kib * 1000);
        }
        load
    }

    #[test]
    fn a_slow_path_helps_only_while_much_waits() {
        let loads = [load(0, 8), load(0, 32)];
        let take = |path, waiting| should_take(loads.iter(), path, 131_072, waiting, 0);
        assert!(take(0, 131_072));
        // 128 KiB take 4.1 ms there; both together deliver 1 MiB in 6.6 ms, but 256 KiB in 1.6.
        assert!(take(1, 1 << 20));
        assert!(!take(1, 1 << 18));
    }

    #[test]
    fn what_nobody_knows_is_tried() {
        let loads = [load(1 << 20, 0), load(0, 8)];
        assert!(should_take(loads.iter(), 0, 131_072, 131_072, 5));
        assert!(should_take(loads[..1].iter(), 0, 131_072, 131_072, 5));
    }

    #[test]
    fn the_pace_follows() {
        let load = load(0, 8);
        (0..100).for_each(|_| load.measured(1024, 32_000));
        assert!((31_000..=32_000).contains(&load.expected(1024)), "{}", load.expected(1024));
    }
}
