//! Which of the waiting bytes a path should take, by when each path would deliver them.
//! Not the pieces.
//!
//! The path that would deliver a piece first takes the oldest one. A path that would deliver it so much later takes
//! one from so far behind that the others would not have delivered that any sooner; nothing, if nothing waits there.
//! So a slow path helps while much waits, never holds up the oldest message, and stops towards the end.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

/// What is known of a path, to be read by everybody.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Bytes on their way.
    queued: AtomicU64,
    /// Nanoseconds for a KiB; 0 while nobody knows.
    pace: AtomicU32,
    /// Whether it takes pieces.
    open: AtomicU32,
    /// All that was measured, since ever: bytes and nanoseconds.
    measured: (AtomicU64, AtomicU64),
}

/// What is on its way on a path is to arrive within this: more would wait in the network, where no other path
/// can take it.
const SOON: Duration = Duration::from_millis(3);
/// But so many may always be: with less TCP does not find out how fast it could be.
const LEAST: usize = 128 << 10;
/// Bytes on their way on a path, at most.
const MOST: usize = 512 << 10;
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

    /// Whether another piece may be on its way.
    pub(super) fn has_room(&self) -> bool {
        (self.queued.load(Ordering::Relaxed) as usize) < self.window()
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
        self.measured.0.fetch_add(bytes as u64, Ordering::Relaxed);
        self.measured.1.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Bytes and nanoseconds of all that was measured, also before the path was lost.
    pub(super) fn all_measured(&self) -> (u64, u64) {
        (self.measured.0.load(Ordering::Relaxed), self.measured.1.load(Ordering::Relaxed))
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

    /// Nothing was sent for a while: it may be faster now than it was.
    pub(super) fn fade(&self) {
        let pace = self.pace.load(Ordering::Relaxed);
        self.pace.store(pace - pace / 64, Ordering::Relaxed);
    }

    /// Bytes that may be on their way, so that each arrives soon.
    pub(super) fn window(&self) -> usize {
        let bytes = self.rate().map_or(0.0, |rate| rate * 1024.0 * SOON.as_secs_f64());
        (bytes as usize).clamp(LEAST, MOST)
    }

    /// KiB a second, if known.
    fn rate(&self) -> Option<f64> {
        let pace = self.pace.load(Ordering::Relaxed);
        (pace > 0).then(|| 1e9 / f64::from(pace))
    }
}

/// How many of the waiting bytes `path` of these should leave to the others before its piece of so many bytes;
/// nothing if it should take none.
pub(super) fn skipped<'a>(
    loads: impl Iterator<Item = &'a Load> + Clone,
    path: usize,
    bytes: usize,
    waiting: usize,
) -> Option<usize> {
    let own = loads.clone().nth(path)?.expected(bytes);
    if own == 0 {
        return Some(0);
    }
    let known = loads.filter(|load| load.is_open() && load.rate().is_some());
    let first = known.clone().map(|load| load.expected(bytes)).min()?.min(own);
    let rate: f64 = known.filter_map(Load::rate).sum();
    // What all of them deliver until this one has, in bytes.
    let skipped = ((own - first) as f64 * rate / 1e9 * 1024.0) as usize;
    (skipped == 0 || skipped < waiting).then_some(skipped)
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
    fn a_slow_path_takes_what_the_others_would_not_deliver_sooner() {
        let loads = [load(0, 8), load(0, 32)];
        let skipped = |path, waiting| skipped(loads.iter(), path, 131_072, waiting);
        assert_eq!(skipped(0, 131_072), Some(0));
        // 128 KiB take 4.1 ms there and 1 ms here; in 3.1 ms both together deliver 480 KiB.
        assert_eq!(skipped(1, 1 << 20), Some(480 << 10));
        assert_eq!(skipped(1, 480 << 10), None);
    }

    #[test]
    fn what_nobody_knows_is_tried() {
        let loads = [load(1 << 20, 0), load(0, 8)];
        assert_eq!(skipped(loads.iter(), 0, 131_072, 131_072), Some(0));
        assert_eq!(skipped(loads[..1].iter(), 0, 131_072, 131_072), Some(0));
    }

    #[test]
    fn the_pace_follows_and_fades() {
        let load = load(0, 8);
        (0..100).for_each(|_| load.measured(1024, 32_000));
        assert!((31_000..=32_000).contains(&load.expected(1024)), "{}", load.expected(1024));
        (0..1000).for_each(|_| load.fade());
        assert!(load.expected(1024) < 100);
    }

    #[test]
    fn windows_hold_what_a_path_delivers_soon() {
        assert_eq!(load(0, 0).window(), LEAST);
        assert_eq!(load(0, 8).window(), 384_000);
        assert_eq!(load(0, 1).window(), MOST);
    }
}
