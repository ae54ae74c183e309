//! The difference between two readings of the counters.
//! Not reading, and not the meaning.

use std::collections::{BTreeMap, BTreeSet};

use busbw_core::record::DeviceCounters;

use super::{Count, Reading, silent};

/// The devices with differences to report.
pub(super) fn difference(before: &[Reading], after: &[Reading]) -> Vec<DeviceCounters> {
    let of = |earlier: &Reading| {
        let later = after.iter().find(|r| (r.kind, &r.device) == (earlier.kind, &earlier.device));
        device(earlier, later)
    };
    before.iter().filter_map(of).collect()
}

fn device(before: &Reading, after: Option<&Reading>) -> Option<DeviceCounters> {
    let (mut grown, mut reset) = (BTreeMap::new(), Vec::new());
    let later = after.map_or(&[][..], |after| &after.counts);
    for count in &before.counts {
        let Some(end) = later.iter().find(|other| other.name == count.name) else { continue };
        match growth(count, end.value) {
            Some(0) => {}
            Some(by) => drop(grown.insert(count.name.to_owned(), by)),
            None => reset.push(count.name.to_owned()),
        }
    }
    let both = [before].into_iter().chain(after);
    let reasons: BTreeSet<&str> = both.flat_map(|r| r.throttled.iter().copied()).collect();
    let nothing = silent(before.device.clone(), before.kind);
    let counters = DeviceCounters {
        grown,
        reset,
        throttled: reasons.into_iter().map(str::to_owned).collect(),
        lost: later.is_empty() && !before.counts.is_empty(),
        ..nothing.clone()
    };
    (counters != nothing).then_some(counters)
}

/// By how much a counter grew, in the unit of its name; `None` when it ran backwards. A 32-bit
/// counter that wrapped around grew by less than half of its range: more is taken for a reset.
fn growth(count: &Count, end: u64) -> Option<u64> {
    const RANGE: u64 = 1 << 32;
    let steps = match end.checked_sub(count.value) {
        Some(steps) => steps,
        None if count.narrow && count.value < RANGE => {
            Some(end + RANGE - count.value).filter(|steps| *steps < RANGE / 2)?
        }
        None => return None,
    };
    Some(steps.saturating_mul(count.step))
}

#[cfg(test)]
mod tests {
    use busbw_core::record::DeviceKind;
    use proptest::prelude::*;

    use super::*;

    fn count(value: u64, step: u64, narrow: bool) -> Count {
        Count { name: "tx_bytes", value, step, narrow }
    }

    fn reading(device: &str, counts: Vec<Count>) -> Reading {
        let (throttled, xids) = (Vec::new(), Vec::new());
        Reading { device: device.to_owned(), kind: DeviceKind::Rdma, counts, throttled, xids }
    }

    #[test]
    fn wrapped_and_reset() {
        let end = u64::from(u32::MAX);
        assert_eq!(growth(&count(end, 4, true), 9), Some(40));
        assert_eq!(growth(&count(end, 4, false), 9), None, "64 bits do not go round");
        assert_eq!(growth(&count(1000, 1, true), 10), None, "a reset");
        assert_eq!(growth(&count(end + 1, 1, true), 10), None, "more than 32 bits");
        assert_eq!(growth(&count(5, 1024, false), 7), Some(2048));
        assert_eq!(growth(&count(0, 4, false), u64::MAX), Some(u64::MAX));
    }

    #[test]
    fn only_what_there_is_to_say() {
        let before = [
            reading("still", vec![count(5, 1, false)]),
            reading("gone", vec![count(5, 1, false)]),
            Reading { throttled: vec!["power cap"], ..reading("hot", vec![count(9, 1, false)]) },
        ];
        let mut after = before.to_vec();
        after.remove(1);
        after[1].counts[0].value = 3;
        after[1].throttled = vec!["power cap", "thermal"];
        after.push(reading("new", vec![count(5, 1, false)]));
        let found = difference(&before, &after);
        let names: Vec<&str> = found.iter().map(|d| d.device.as_str()).collect();
        assert_eq!(names, ["gone", "hot"]);
        assert!(found[0].lost && found[0].grown.is_empty());
        assert_eq!(found[1].reset, ["tx_bytes"]);
        assert_eq!(found[1].throttled, ["power cap", "thermal"]);
    }

    proptest! {
        #[test]
        fn what_32_bits_counted_is_found_again(start in 0..1u64 << 32, steps in 0..1u64 << 31) {
            let end = (start + steps) % (1 << 32);
            prop_assert_eq!(growth(&count(start, 4, true), end), Some(steps * 4));
        }
    }
}
