//! What follows from a table's columns where its head is missing: the collective and the ranks.
//! Not a guess: where two answers fit, none is given.
//!
//! The rules are nccl-tests' own columns and factors: `getCollByteCount` and `getBw` of each program,
//! and N/A in place for the collectives that are not defined there (since 2.13.1).

use super::{Known, Measurement, Row};
use busbw_core::{Collective, collective::BusFactor, record::Figures};

/// The largest number of ranks that a factor is taken for.
pub(super) const MAX_RANKS: usize = 1 << 20;

/// Fills the collective and the ranks in where they are not said and only one answer fits.
pub fn deduce(measurement: &mut Measurement) {
    if measurement.test.figure != super::Figure::Bandwidths {
        return;
    }
    if measurement.test.collective.is_none() {
        measurement.test.collective = collective(measurement).map(Known::deduced);
    }
    if measurement.ranks.is_none() {
        measurement.ranks = measurement.ranks_by_figures().map(Known::deduced);
    }
}

impl Measurement {
    /// The ranks that the rows' own figures mean: count against size where a rank has a share of the
    /// buffer, else busbw against algbw.
    pub fn ranks_by_figures(&self) -> Option<usize> {
        let spec = self.collective()?.spec();
        if spec.buffers.are_divided() {
            let mut ranks = self.first_rows().filter_map(shares);
            let first = ranks.next()?;
            return ranks.all(|next| next == first).then_some(first);
        }
        (spec.bus_factor == BusFactor::OthersTwice).then(|| by_factor(self.first_rows()))?
    }
}

/// How many shares of `count` elements make a row's size.
fn shares(row: &Row) -> Option<usize> {
    let share = row.count?.checked_mul(row.datatype?.bytes() as u64).filter(|share| *share > 0)?;
    row.size.is_multiple_of(share).then(|| usize::try_from(row.size / share).ok()).flatten()
}

/// The number n for which 2(n-1)/n is busbw over algbw, within their rounding, in all halves but a
/// quarter: a figure that somebody changed must not hide what the others say.
fn by_factor<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<usize> {
    let ranges: Vec<(f64, f64)> = rows.flat_map(Row::both).filter_map(ranks_of).collect();
    let sorted = |mut ends: Vec<f64>| {
        ends.sort_unstable_by(f64::total_cmp);
        ends
    };
    let lows = sorted(ranges.iter().map(|(low, _)| *low).collect());
    let highs = sorted(ranges.iter().map(|(_, high)| *high).collect());
    // A range holds n if it began by then and did not end before: a long table has many ranges.
    let fits =
        |n: f64| lows.partition_point(|low| *low <= n) - highs.partition_point(|high| *high < n);
    // Where most ranges overlap, one of them begins.
    let (most, low) = ranges
        .iter()
        .map(|(low, _)| (fits(*low), *low))
        .max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))?;
    if most * 4 < ranges.len() * 3 {
        return None;
    }
    let within = ranges.iter().filter(|(from, to)| (*from..=*to).contains(&low));
    let high = within.map(|(_, high)| *high).fold(f64::INFINITY, f64::min);
    let n = low.ceil();
    let only = n >= 2.0 && n <= high && n + 1.0 > high && n <= MAX_RANKS as f64;
    only.then_some(n as usize)
}

/// The range of n that a half's bandwidths allow: n = 2 / (2 - factor), rising.
fn ranks_of(half: &Figures) -> Option<(f64, f64)> {
    let (algbw, busbw) = (half.algbw.filter(|v| *v > 1.0)?, half.busbw.filter(|v| *v > 1.0)?);
    let factor = busbw / algbw;
    let slack = factor * (rounding(algbw) / algbw + rounding(busbw) / busbw);
    let low = 2.0 / (2.0 - (factor - slack)).max(1e-9);
    let above = 2.0 - (factor + slack);
    Some((low, if above > 0.0 { 2.0 / above } else { f64::INFINITY }))
}

/// By how much a printed bandwidth can differ from what was measured: nccl-tests prints two
/// decimals and fewer where six columns would not hold them.
pub(super) fn rounding(bandwidth: f64) -> f64 {
    match bandwidth {
        ..1000.0 => 0.005_1,
        1000.0..10_000.0 => 0.051,
        _ => 0.51,
    }
}

impl Row {
    /// The halves that there are, whether or not they mean something.
    pub fn both(&self) -> impl Iterator<Item = &Figures> {
        self.out_of_place.iter().chain(&self.in_place)
    }
}

/// The collective that alone has these columns.
fn collective(measurement: &Measurement) -> Option<Collective> {
    let rows = &measurement.rows;
    let row = rows.iter().rfind(|row| row.count.is_some_and(|count| count > 0) && row.size > 0)?;
    // In place was not checked although out of place was: it is not defined there.
    let checked = |half: &Option<Figures>| half.as_ref().is_some_and(|half| half.wrong.is_some());
    let any_out = rows.iter().any(|row| checked(&row.out_of_place));
    let any_in = rows.iter().any(|row| checked(&row.in_place));
    let undefined_in_place = any_out && !any_in && rows.iter().any(|row| row.in_place.is_some());
    let operator = row.op.is_some();
    let rooted = row.root.is_some();
    match (shares(row)?, operator, rooted) {
        (1, true, true) => Some(Collective::Reduce),
        (1, false, true) => Some(Collective::Broadcast),
        (1, true, false) if undefined_in_place && factor_is_one(rows) != Some(false) => {
            Some(Collective::SendRecv)
        }
        // The factor of two ranks is 1, as that of sendrecv; only all_reduce is checked in place.
        (1, true, false) if any_in || !factor_is_one(rows)? => Some(Collective::AllReduce),
        (1, ..) => None,
        (_, true, false) => Some(Collective::ReduceScatter),
        (_, false, false) if undefined_in_place => Some(Collective::AllToAll),
        (_, false, false) if any_in => Some(Collective::AllGather),
        _ => None,
    }
}

fn factor_is_one(rows: &[Row]) -> Option<bool> {
    let largest =
        rows.iter().flat_map(Row::both).filter_map(|half| Some((half.algbw?, half.busbw?)));
    let (algbw, busbw) = largest.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(a, _)| *a > 1.0)?;
    Some((busbw / algbw - 1.0).abs() < 0.02)
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbw_core::DataType;
    use proptest::prelude::*;

    fn half(algbw: f64, busbw: f64, wrong: Option<u64>) -> Option<Figures> {
        let (algbw, busbw) = (Some(algbw), Some(busbw));
        Some(Figures { algbw, busbw, wrong, ..Figures::default() })
    }

    fn table(
        size: u64,
        count: u64,
        op: bool,
        out: Option<Figures>,
        inside: Option<Figures>,
    ) -> Measurement {
        let row = Row {
            size,
            count: Some(count),
            datatype: Some(DataType::Float),
            op: op.then(|| "sum".to_owned()),
            out_of_place: out,
            in_place: inside,
            ..Row::default()
        };
        let mut made = Measurement { rows: vec![row], ..Measurement::default() };
        deduce(&mut made);
        made
    }

    /// Rows of public logs of which only the table was kept.
    #[test]
    fn tables_without_a_head() {
        let (zero, none) = (Some(0), None);
        for (size, count, op, out, inside, expected) in [
            (
                8 << 30,
                2 << 30,
                true,
                half(208.77, 391.45, zero),
                half(209.47, 392.76, zero),
                Some((Collective::AllReduce, 16)),
            ),
            (
                8 << 30,
                2 << 30,
                true,
                half(88.03, 165.05, zero),
                half(88.06, 165.11, zero),
                Some((Collective::AllReduce, 16)),
            ),
            (
                8 << 30,
                2 << 30,
                true,
                half(20.0, 20.0, zero),
                half(20.0, 20.0, zero),
                Some((Collective::AllReduce, 2)),
            ),
            (
                8 << 30,
                1 << 27,
                false,
                half(43.94, 41.20, zero),
                half(43.49, 40.77, none),
                Some((Collective::AllToAll, 16)),
            ),
            (
                8 << 30,
                1 << 27,
                false,
                half(43.94, 41.20, zero),
                half(43.49, 40.77, zero),
                Some((Collective::AllGather, 16)),
            ),
            (8 << 30, 1 << 27, false, half(43.94, 41.20, none), half(43.49, 40.77, none), None),
            (8 << 30, 2 << 30, true, half(20.0, 20.0, none), half(20.0, 20.0, none), None),
            // The last column is lost; the factor is not sendrecv's.
            (
                8 << 30,
                2 << 30,
                true,
                half(208.77, 391.45, zero),
                half(209.47, 392.76, none),
                Some((Collective::AllReduce, 16)),
            ),
        ] {
            let made = table(size, count, op, out, inside);
            let got = made.collective().zip(made.rank_count());
            assert_eq!(got, expected, "{size} {count}");
        }
    }

    #[test]
    fn a_long_table_takes_no_longer_a_row() {
        let half = |n: u32| {
            half(
                200.0 + f64::from(n % 97) / 7.0,
                1.875 * (200.0 + f64::from(n % 97) / 7.0),
                Some(0),
            )
        };
        let rows: Vec<Row> = (0..65_536)
            .map(|n| Row { out_of_place: half(n), in_place: half(n + 1), ..Row::default() })
            .collect();
        let begun = std::time::Instant::now();
        assert_eq!(by_factor(rows.iter()), Some(16));
        // A watchdog: each range against each other would take minutes in this profile.
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    }

    proptest! {
        #[test]
        fn the_factor_gives_the_ranks_or_nothing(n in 2usize..200, busbw in 20.0f64..900.0) {
            let printed = |value: f64| (value * 100.0).round() / 100.0;
            let algbw = busbw / (2.0 * (n - 1) as f64 / n as f64);
            let made = table(64, 16, true, half(printed(algbw), printed(busbw), Some(0)), half(printed(algbw), printed(busbw), Some(0)));
            prop_assert!(made.rank_count().is_none_or(|ranks| ranks == n), "{:?}", made.ranks);
        }
    }
}
