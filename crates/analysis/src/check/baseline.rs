//! A collective against an earlier run of the same: slower in two sets of launches, or not.
//! Not the statistics of one comparison (`comparison`), and no verdict from one launch.

use busbw_core::quantity::{bytes, rate};
use busbw_stats::{Reason, Rule, Verdict as Compared, compare::MIN_LAUNCHES};

use super::{
    collective::{CollectiveFigures, side},
    report::{Check, CheckLine, Figure, Verdict},
};
use crate::comparison::{Matched, Side, compare_sides};

/// The smallest slowdown that is called a fault: 0.05 is 5 % less speed. Two launches of one job on a healthy cluster
/// differ by less.
pub const MIN_SLOWDOWN: f64 = 0.05;

/// What a comparison of one set of launches says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// Slower at every size that was compared.
    Slower,
    /// As fast, or faster.
    AsFast,
    /// Too few launches, or too much noise.
    Unknown,
}

/// The comparison of one set of launches with the baseline, at its largest common size.
pub(super) fn compared(
    baseline: &Side,
    launches: &[&CollectiveFigures],
) -> (Said, Option<Matched>) {
    let rule = Rule { smallest_effect: MIN_SLOWDOWN, ..Rule::default() };
    let matching = compare_sides(baseline, &side(launches), &rule, &mut |_| Vec::new());
    let largest = matching.rows.into_iter().max_by_key(|row| (row.point.size, !row.point.in_place));
    let said = match largest.as_ref().map(|row| (row.verdict, row.speed)) {
        Some((Compared::Slower, _)) => Said::Slower,
        Some((Compared::Same | Compared::Faster, _)) => Said::AsFast,
        // The interval holds 1 or a difference that is too small to count.
        Some((Compared::Inconclusive(Reason::TooNoisy { .. }), speed))
            if speed > 1.0 - MIN_SLOWDOWN =>
        {
            Said::AsFast
        }
        _ => Said::Unknown,
    };
    (said, largest)
}

/// The line, from one set of launches and, where that was slower, from a second one.
pub(super) fn line(
    baseline: &Side,
    first: &[&CollectiveFigures],
    second: &[&CollectiveFigures],
) -> CheckLine {
    let (said, row) = compared(baseline, first);
    let Some(row) = row else {
        let text = format!(
            "{} has no size of this collective, type, operator and number of ranks in common with this check",
            baseline.name
        );
        return CheckLine::new(Check::Baseline, Verdict::CannotTell, text);
    };
    let text = sentence(&row, &baseline.name);
    let line = match said {
        Said::AsFast => CheckLine::new(Check::Baseline, Verdict::Pass, text),
        Said::Unknown => {
            let why = match row.verdict {
                Compared::Inconclusive(reason) => reason.to_string(),
                _ => format!("{MIN_LAUNCHES} launches a side are needed"),
            };
            CheckLine::new(Check::Baseline, Verdict::CannotTell, format!("{text}: {why}"))
        }
        Said::Slower => match compared(baseline, second) {
            (Said::Slower, _) => {
                let text = format!("{text}; so were {} other launches", second.len());
                CheckLine::fault(Check::Baseline, 2, text)
            }
            (Said::AsFast, _) => {
                let text = format!("{text}; {} other launches were not slower", second.len());
                CheckLine { measured: 1, ..CheckLine::new(Check::Baseline, Verdict::Pass, text) }
            }
            (Said::Unknown, _) => {
                let text = format!("{text}; there was no time to measure it again");
                CheckLine::fault(Check::Baseline, 1, text)
            }
        },
    };
    line.figure(figure(&row))
}

fn figure(row: &Matched) -> Option<Figure> {
    Some(Figure {
        value: row.candidate.busbw?,
        unit: "GB/s".to_owned(),
        size: Some(row.point.size),
        wanted: row.baseline.busbw,
    })
}

fn sentence(row: &Matched, name: &str) -> String {
    let interval =
        row.interval.map_or(String::new(), |one| format!(" ({:.3} to {:.3})", one.low, one.high));
    let speed = |busbw: Option<f64>| busbw.map_or("-".to_owned(), rate);
    format!(
        "{} GB/s at {}, and {} GB/s in {name}: {:.3} times as fast{interval}",
        speed(row.candidate.busbw),
        bytes(row.point.size),
        speed(row.baseline.busbw),
        row.speed
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::{figures, side_of};

    fn said(base: &[f64], first: &[f64], second: &[f64]) -> CheckLine {
        let [first, second] =
            [first, second].map(|times| times.iter().map(|us| figures(*us)).collect::<Vec<_>>());
        line(
            &side_of("last night", base),
            &first.iter().collect::<Vec<_>>(),
            &second.iter().collect::<Vec<_>>(),
        )
    }

    #[test]
    fn slower_twice_is_a_fault() {
        let base = [100.0, 101.0, 99.0, 100.5];
        let slow = [120.0, 121.0, 119.0, 120.5];
        let line = said(&base, &slow, &slow);
        assert!(line.blocks(), "{line:?}");
        assert!(line.text.ends_with("; so were 4 other launches"), "{}", line.text);
        assert_eq!(said(&base, &slow, &base).verdict, Verdict::Pass);
        assert_eq!(said(&base, &slow, &[]).verdict, Verdict::CannotTell);
        assert_eq!(said(&base, &base, &[]).verdict, Verdict::Pass);
    }

    #[test]
    fn one_launch_says_nothing() {
        let one = said(&[100.0], &[200.0], &[200.0]);
        assert_eq!((one.verdict, one.blocks()), (Verdict::CannotTell, false));
        let few = said(&[100.0; 4], &[200.0; 3], &[200.0; 3]);
        assert_eq!(few.verdict, Verdict::CannotTell);
        assert!(few.text.contains("at least 4 launches a side are needed"), "{}", few.text);
    }

    #[test]
    fn a_small_difference_is_no_fault() {
        let base = [100.0, 100.1, 99.9, 100.0];
        let less = [103.0, 103.1, 102.9, 103.0];
        assert_eq!(said(&base, &less, &less).verdict, Verdict::Pass);
    }

    #[test]
    fn another_collective_cannot_be_compared() {
        let mut other = side_of("another", &[100.0; 4]);
        other.points = std::mem::take(&mut other.points)
            .into_iter()
            .map(|(point, times)| (crate::comparison::Point { ranks: Some(8), ..point }, times))
            .collect();
        let launches: Vec<CollectiveFigures> = (0..4).map(|_| figures(100.0)).collect();
        let line = line(&other, &launches.iter().collect::<Vec<_>>(), &[]);
        assert_eq!(line.verdict, Verdict::CannotTell);
    }
}
