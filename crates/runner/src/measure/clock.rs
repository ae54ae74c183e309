//! The clock that times batches, measured itself: its smallest step and the cost of reading it.
//! Not a timer: batches read `Instant` directly.

use std::time::Instant;

use busbw_core::record::Clock;

/// Number of readings. Together they take well under a millisecond.
const READINGS: usize = 2000;

/// Measures the monotonic clock.
pub fn measure_clock() -> Clock {
    let start = Instant::now();
    let mut before = start;
    let mut smallest = f64::INFINITY;
    for _ in 0..READINGS {
        let now = Instant::now();
        let step = now.duration_since(before).as_nanos() as f64;
        if step > 0.0 {
            smallest = smallest.min(step);
        }
        before = now;
    }
    let overhead_ns = start.elapsed().as_nanos() as f64 / READINGS as f64;
    Clock { precision_ns: if smallest.is_finite() { smallest } else { 0.0 }, overhead_ns }
}
