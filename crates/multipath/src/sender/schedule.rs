//! Which of the waiting bytes a path should take, from when each path would deliver them.
//! Not the chunks.
//!
//! The path that would deliver a chunk first takes the oldest one. A path that would deliver it so much later takes
//! one from so far behind that the others would not have delivered that any sooner; none, if nothing waits there.
//! So a slow path helps while much waits, never holds up the oldest message, and stops towards the end.

use std::time::Duration;

/// What is in flight on a path should arrive within this: more would wait in the network, where no other path
/// can take it.
const WINDOW_TIME: Duration = Duration::from_millis(3);
/// But so many bytes may always be in flight: with less TCP does not find out how fast it could be.
const MIN_WINDOW: usize = 128 << 10;
/// Bytes in flight on a path, at most.
const MAX_WINDOW: usize = 512 << 10;
/// How much of the newest measurement goes into the pace: 1 / 2^this.
const SMOOTHING: u32 = 3;

/// How fast a path delivers.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Pace {
    /// Nanoseconds for a KiB; 0 while unknown.
    pace: u32,
    /// All that was measured, since ever: bytes and nanoseconds.
    measured: (u64, u64),
}

impl Pace {
    /// So many nanoseconds for a KiB, as the window of an unreliable path has it.
    pub(super) fn set(&mut self, pace: u32) {
        self.pace = pace;
    }

    /// So many bytes took so long.
    #[inline]
    pub(super) fn measured(&mut self, bytes: usize, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let pace = nanoseconds.saturating_mul(1024) / bytes.max(1) as u64;
        let pace = u32::try_from(pace).unwrap_or(u32::MAX).max(1);
        let old = self.pace;
        let new = if old == 0 { pace } else { old - (old >> SMOOTHING) + (pace >> SMOOTHING) };
        self.pace = new.max(1);
        self.measured.0 += bytes as u64;
        self.measured.1 = self.measured.1.saturating_add(nanoseconds);
    }

    /// Bytes and nanoseconds of all that was measured, also before the path was lost.
    pub(super) fn all_measured(&self) -> (u64, u64) {
        self.measured
    }

    /// A new connection: its pace is unknown.
    pub(super) fn forget(&mut self) {
        self.pace = 0;
    }

    /// Nothing was sent for a while: it may be faster now than it was.
    #[inline]
    pub(super) fn fade(&mut self) {
        self.pace -= self.pace / 64;
    }

    /// Nanoseconds until so many bytes are delivered; 0 while unknown.
    #[inline]
    pub(super) fn expected(&self, bytes: usize) -> u64 {
        (bytes as u64).saturating_mul(self.pace.into()) / 1024
    }

    /// Bytes that may be in flight.
    #[inline]
    pub(super) fn window(&self) -> usize {
        let bytes = self.rate().map_or(0.0, |rate| rate * 1024.0 * WINDOW_TIME.as_secs_f64());
        (bytes as usize).clamp(MIN_WINDOW, MAX_WINDOW)
    }

    /// KiB a second, if known.
    #[inline]
    fn rate(&self) -> Option<f64> {
        (self.pace > 0).then(|| 1e9 / f64::from(self.pace))
    }
}

/// A path as the schedule sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) pace: Pace,
    /// Bytes in flight.
    pub(super) in_flight: usize,
    /// Whether it takes chunks.
    pub(super) is_open: bool,
}

impl Load {
    /// Nanoseconds until so many more bytes would be delivered; 0 while unknown.
    #[inline]
    pub(super) fn expected(&self, more: usize) -> u64 {
        self.pace.expected(self.in_flight + more)
    }
}

/// How many of the waiting bytes `path` of these should leave to the others before its chunk of so many bytes;
/// nothing if it should take none.
pub(super) fn skipped(
    loads: impl Iterator<Item = Load> + Clone,
    path: usize,
    bytes: usize,
    waiting: usize,
) -> Option<usize> {
    let own = loads.clone().nth(path)?.expected(bytes);
    if own == 0 {
        return Some(0);
    }
    let known = loads.filter(|load| load.is_open && load.pace.rate().is_some());
    let first = known.clone().map(|load| load.expected(bytes)).min()?.min(own);
    let rate: f64 = known.filter_map(|load| load.pace.rate()).sum();
    // What all of them deliver until this one has, in bytes.
    let skipped = ((own - first) as f64 * rate / 1e9 * 1024.0) as usize;
    (skipped == 0 || skipped < waiting).then_some(skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(in_flight: usize, microseconds_a_kib: u64) -> Load {
        let mut pace = Pace::default();
        if microseconds_a_kib > 0 {
            pace.measured(1024, Duration::from_micros(microseconds_a_kib));
        }
        Load { pace, in_flight, is_open: true }
    }

    #[test]
    fn a_slow_path_takes_what_the_others_would_not_deliver_sooner() {
        let loads = [load(0, 8), load(0, 32)];
        let skipped = |path, waiting| skipped(loads.into_iter(), path, 131_072, waiting);
        assert_eq!(skipped(0, 131_072), Some(0));
        // 128 KiB take 4.1 ms there and 1 ms here; in 3.1 ms both together deliver 480 KiB.
        assert_eq!(skipped(1, 1 << 20), Some(480 << 10));
        assert_eq!(skipped(1, 480 << 10), None);
    }

    #[test]
    fn a_path_of_unknown_pace_is_tried() {
        let loads = [load(1 << 20, 0), load(0, 8)];
        assert_eq!(skipped(loads.into_iter(), 0, 131_072, 131_072), Some(0));
        assert_eq!(skipped(loads[..1].iter().copied(), 0, 131_072, 131_072), Some(0));
    }

    #[test]
    fn the_pace_follows_and_fades() {
        let mut pace = load(0, 8).pace;
        (0..100).for_each(|_| pace.measured(1024, Duration::from_millis(32)));
        assert!((31_000_000..=32_000_000).contains(&pace.expected(1024)));
        (0..1000).for_each(|_| pace.fade());
        assert!(pace.expected(1024) < 100_000);
    }

    #[test]
    fn windows_hold_what_a_path_delivers_soon() {
        assert_eq!(load(0, 0).pace.window(), MIN_WINDOW);
        assert_eq!(load(0, 8).pace.window(), 384_000);
        assert_eq!(load(0, 1).pace.window(), MAX_WINDOW);
    }
}
