//! Whether a table agrees with itself: bandwidths against sizes and times, the average against rows.
//! Not whether the figures are good.

use serde::{Deserialize, Serialize};

use super::{Figure, Known, Measurement, Origin, Row, deduction::rounding};
use busbw_core::{Collective, record::Figures};

/// A figure that does not follow from the others of its row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disagreement {
    /// The row, counted from 0.
    pub row: usize,
    /// Its size, bytes.
    pub size: u64,
    /// In place.
    pub in_place: bool,
    /// `algbw` or `busbw`.
    pub column: String,
    /// As written, GB/s.
    pub written: f64,
    /// From size, time and factor, GB/s.
    pub computed: f64,
}

/// Every bandwidth that size, time, collective and ranks do not give. Nothing where the collective
/// or the ranks are not known.
pub fn disagreements(measurement: &Measurement) -> Vec<Disagreement> {
    let Some(collective) = measurement.collective() else { return Vec::new() };
    if measurement.test.figure != Figure::Bandwidths {
        return Vec::new();
    }
    let old = measurement.counted_without_own_share().is_some();
    let mut found = Vec::new();
    for (index, row) in measurement.rows.iter().enumerate() {
        let Some(ranks) = measurement.ranks_of(row).filter(|ranks| *ranks > 0) else { continue };
        let halves = row.out_of_place.iter().map(|half| (false, half));
        for (in_place, half) in halves.chain(row.in_place.iter().map(|half| (true, half))) {
            for (column, written, computed) in
                odd(row, half, collective, ranks).into_iter().flatten()
            {
                if old && column == "algbw" {
                    continue;
                }
                let column = column.to_owned();
                found.push(Disagreement {
                    row: index,
                    size: row.size,
                    in_place,
                    column,
                    written,
                    computed,
                });
            }
        }
    }
    found
}

/// The ranks that the rows are of, where the head states others and figures and rows agree with these alone: head and rows are
/// of different runs.
pub fn ranks_of_another_run(measurement: &Measurement) -> Option<usize> {
    let stated = measurement.ranks.filter(|known| known.origin == Origin::Stated)?.value;
    let figures = measurement.ranks_by_figures().filter(|figures| *figures != stated)?;
    let of_these = Measurement { ranks: Some(Known::deduced(figures)), ..measurement.clone() };
    let group = measurement.rows.first().and_then(|row| row.group);
    let differs = group.is_none() && !disagreements(measurement).is_empty();
    (differs && disagreements(&of_these).is_empty()).then_some(figures)
}

/// Bytes of the count column.
fn share(row: &Row) -> Option<f64> {
    row.count.zip(row.datatype).map(|(count, t)| count as f64 * t.bytes() as f64)
}

/// The bytes that algbw counts, and busbw over algbw.
pub(super) fn expected(row: &Row, collective: Collective, ranks: usize) -> (f64, f64) {
    let (n, size) = (ranks as f64, row.size as f64);
    let spec = collective.spec();
    let others = || share(row).unwrap_or(size / n) * (n - 1.0);
    let bytes = if spec.counts_own_chunk { size } else { others() };
    (bytes, spec.bus_factor.of(ranks))
}

type Odd = Option<(&'static str, f64, f64)>;

fn odd(row: &Row, half: &Figures, collective: Collective, ranks: usize) -> [Odd; 2] {
    let Some(time) = half.time_us.filter(|time| *time > 0.0) else { return [None, None] };
    let share = share(row);
    let (bytes, factor) = expected(row, collective, ranks);
    let speed = |bytes: f64| bytes / 1e3 / time;
    let slack = half.rounding_us / time + 0.002;
    let differs = |written: f64, computed: f64| {
        (written - computed).abs() > computed * slack + rounding(written.max(computed))
    };
    let algbw = half.algbw.filter(|written| {
        // Before nccl-tests 2.9, all_gather and reduce_scatter counted one rank's share.
        differs(*written, speed(bytes)) && share.is_none_or(|share| differs(*written, speed(share)))
    });
    let busbw = half.busbw.filter(|written| differs(*written, speed(bytes) * factor));
    [
        algbw.map(|written| ("algbw", written, speed(bytes))),
        busbw.map(|written| ("busbw", written, speed(bytes) * factor)),
    ]
}

/// The mean busbw of all printed halves, when the stated average is not it. nccl-tests takes every
/// half of rank 0's communicator, those that mean nothing among them; a table that was cut proves
/// nothing.
pub fn stated_average_differs(measurement: &Measurement) -> Option<f64> {
    let stated = measurement.stated_average?;
    let halves: Vec<f64> =
        measurement.first_rows().flat_map(Row::both).filter_map(|half| half.busbw).collect();
    if halves.is_empty() || measurement.rows_left_out > 0 {
        return None;
    }
    let mean = halves.iter().sum::<f64>() / halves.len() as f64;
    ((stated - mean).abs() > 0.006 + 0.001 * mean).then_some(mean)
}

#[cfg(test)]
mod tests {
    use super::super::Known;
    use super::*;
    use busbw_core::DataType;

    fn row(size: u64, time: f64, algbw: f64, busbw: f64) -> Row {
        let half = Figures {
            time_us: Some(time),
            rounding_us: 0.5,
            algbw: Some(algbw),
            busbw: Some(busbw),
            ..Figures::default()
        };
        Row {
            size,
            count: Some(size / 4),
            datatype: Some(DataType::Float),
            out_of_place: Some(half),
            ..Row::default()
        }
    }

    #[test]
    fn a_head_of_another_run_is_told_from_figures_that_were_changed() {
        let rows = |busbw: [f64; 2]| {
            vec![row(8 << 30, 91_003.0, 94.39, busbw[0]), row(16 << 30, 182_850.0, 93.96, busbw[1])]
        };
        let made = |ranks, busbw| {
            let mut made =
                Measurement { ranks: Some(ranks), rows: rows(busbw), ..Measurement::default() };
            made.test.collective = Some(Known::stated(Collective::AllReduce));
            made
        };
        let of_8 = [165.19, 164.43];
        assert_eq!(ranks_of_another_run(&made(Known::stated(4), of_8)), Some(8));
        assert_eq!(ranks_of_another_run(&made(Known::stated(8), of_8)), None);
        assert_eq!(ranks_of_another_run(&made(Known::deduced(4), of_8)), None);
        assert_eq!(ranks_of_another_run(&made(Known::stated(4), [165.19, 100.0])), None);
    }

    #[test]
    fn only_figures_that_do_not_follow_are_named() {
        let mut made = Measurement {
            ranks: Some(Known::stated(8)),
            rows: vec![
                row(8 << 30, 91_003.0, 94.39, 165.19),
                row(16 << 30, 18_285.0, 939.58, 936.93),
            ],
            stated_average: Some(551.06),
            ..Measurement::default()
        };
        assert_eq!(disagreements(&made), []);
        made.test.collective = Some(Known::stated(Collective::AllReduce));
        let found = disagreements(&made);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].row, found[0].column.as_str()), (1, "busbw"));
        assert!((found[0].computed - 1644.2).abs() < 0.5, "{found:?}");
        assert_eq!(stated_average_differs(&made), None);
        made.stated_average = Some(487.265);
        assert!(stated_average_differs(&made).is_some_and(|mean| (mean - 551.06).abs() < 0.01));
    }
}
