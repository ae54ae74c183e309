//! How long a call waited on its own GPU before it began.
//! Not what it waited for there: the program's own kernels, as a rule.

use busbw_watch_file::{Call, GpuClock};

/// From when the process asked for a call to when its kernel began, ns, by the line about the GPU's clock that is nearest in
/// time. None: the GPU's time or its clock is not known. Too large by the least delay of NCCL's thread ([`GpuClock::ahead`]).
#[must_use]
pub fn queue_time(call: &Call, communicator: u32, clocks: &[GpuClock]) -> Option<u64> {
    let started = i64::try_from(call.started?).ok()?;
    let asked = i64::try_from(call.enqueued).ok()?;
    let of_this = clocks.iter().filter(|clock| clock.communicator == communicator);
    let nearest = of_this.min_by_key(|clock| clock.at.abs_diff(call.enqueued))?;
    u64::try_from(started.checked_add(nearest.ahead)?.checked_sub(asked)?.max(0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_clock_counts() {
        let clock = |at, ahead| GpuClock { communicator: 1, at, ahead };
        let clocks =
            [clock(1_000, -50), clock(9_000, -40), GpuClock { communicator: 0, ..clock(5_000, 7) }];
        let call = |enqueued, started| Call { sequence: 0, enqueued, started, duration: None };
        assert_eq!(queue_time(&call(1_100, Some(1_350)), 1, &clocks), Some(200));
        assert_eq!(queue_time(&call(8_000, Some(8_340)), 1, &clocks), Some(300));
        // The clock is known to some hundred ns only.
        assert_eq!(queue_time(&call(8_000, Some(8_000)), 1, &clocks), Some(0));
        assert_eq!(queue_time(&call(8_000, None), 1, &clocks), None);
        assert_eq!(queue_time(&call(8_000, Some(1)), 2, &clocks), None);
    }
}
