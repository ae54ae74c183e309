//! Whether the largest size still gains bandwidth: no limit is reached then, and none can be blamed.
//! Not the limit (`limit`), and not the finding about it (`rules::not_there_yet`).

use busbw_logs::measurement::{Figure, Measurement};

use super::context::row_speed;

/// The gain a doubling above which a larger size would be faster still.
const GROWING: f64 = 0.05;

/// Two sizes, and the gain between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Growth {
    /// The largest size that is at most half of the last one, bytes.
    pub from: u64,
    /// The largest size, bytes.
    pub to: u64,
    /// Gain of one doubling: 0.3 is 30 % more bandwidth.
    pub gain: f64,
}

/// The growth at the end of a run, where the largest size is also the fastest and gains more than 5 % a
/// doubling. One size has no growth, whatever its bandwidth.
pub(super) fn growing(run: &Measurement) -> Option<Growth> {
    if run.test.figure == Figure::Latency {
        return None;
    }
    let rows = run.rows.iter().filter(|row| row.size > 0);
    let speeds: Vec<(u64, f64)> =
        rows.filter_map(|row| Some((row.size, row_speed(run, row)?))).collect();
    let to = speeds.iter().map(|(size, _)| *size).max()?;
    let fastest = |size: u64| {
        let at = speeds.iter().filter(|(of, _)| *of == size).map(|(_, speed)| *speed);
        at.fold(0.0, f64::max)
    };
    let from = speeds.iter().map(|(size, _)| *size).filter(|size| *size <= to / 2).max()?;
    let (before, last) = (fastest(from), fastest(to));
    let highest = speeds.iter().all(|(_, speed)| *speed <= last);
    let doublings = (to as f64 / from as f64).log2();
    let gain = (last / before).powf(1.0 / doublings) - 1.0;
    (before > 0.0 && highest && gain > GROWING).then_some(Growth { from, to, gain })
}

#[cfg(test)]
mod tests {
    use busbw_core::record::Figures;
    use busbw_logs::measurement::Row;

    use super::*;

    fn run(rows: &[(u64, f64)]) -> Measurement {
        let row = |(size, busbw): &(u64, f64)| {
            let figures = Figures { busbw: Some(*busbw), ..Figures::default() };
            Row { size: *size, out_of_place: Some(figures), ..Row::default() }
        };
        Measurement { rows: rows.iter().map(row).collect(), ..Measurement::default() }
    }

    #[test]
    fn it_is_per_doubling_and_at_the_fastest_size() {
        let found = growing(&run(&[(1 << 20, 10.0), (2 << 20, 13.0)])).unwrap();
        assert_eq!((found.from, found.to), (1 << 20, 2 << 20));
        assert!((found.gain - 0.3).abs() < 1e-9);
        // Two doublings of less than 5 % each, a plateau, one size, and a peak before the end.
        for rows in [
            &[(1 << 20, 10.0), (4 << 20, 10.9)][..],
            &[(1 << 20, 10.0), (2 << 20, 10.1)],
            &[(1 << 20, 10.0)],
            &[(1 << 20, 20.0), (2 << 20, 10.0), (4 << 20, 15.0)],
            &[],
        ] {
            assert_eq!(growing(&run(rows)), None, "{rows:?}");
        }
        // Small steps: what counts is the size of half.
        let steps: Vec<(u64, f64)> = (8..=16).map(|n| (n << 20, 100.0 + n as f64)).collect();
        let found = growing(&run(&steps)).unwrap();
        assert_eq!((found.from, found.to), (8 << 20, 16 << 20));
    }
}
