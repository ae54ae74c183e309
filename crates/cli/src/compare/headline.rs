//! The first line of a comparison: per test, where a side is faster and by how much.
//! Not the table (`table`), and not the verdicts (`busbw_analysis::comparison`).

use std::collections::BTreeMap;

use busbw_analysis::comparison::{Basis, Matched};
use busbw_core::quantity::bytes;

use super::table::verdict;

/// The most stretches of sizes that are named one by one.
const MAX_STRETCHES: usize = 4;

/// Neighbouring sizes with one verdict.
struct Stretch {
    word: &'static str,
    sizes: [u64; 2],
    speeds: [f64; 2],
    points: usize,
}

/// A line for each test: `all_reduce float sum, 8 ranks, B against A: 3.1 % faster at 1 GiB, same up to 64 KiB`.
pub(super) fn headlines(rows: &[Matched], letter: &str) -> Vec<String> {
    let mut cases: BTreeMap<String, Vec<&Matched>> = BTreeMap::new();
    for row in rows {
        cases.entry(row.point.case()).or_default().push(row);
    }
    cases.iter().map(|(case, rows)| format!("{case}, {letter} against A: {}", said(rows))).collect()
}

fn said(rows: &[&Matched]) -> String {
    let sizes = rows.iter().map(|row| row.point.size);
    let (Some(least), Some(most)) = (sizes.clone().min(), sizes.max()) else {
        return "not comparable".to_owned();
    };
    let mut stretches = stretches(rows);
    if stretches.len() > MAX_STRETCHES {
        stretches = by_verdict(stretches);
        let counted =
            |one: &Stretch| format!("{} at {} of {} points", amount(one), one.points, rows.len());
        return stretches.iter().map(counted).collect::<Vec<_>>().join(", ");
    }
    let text =
        stretches.iter().rev().map(|one| format!("{} {}", amount(one), place(one, least, most)));
    let text = text.collect::<Vec<_>>().join(", ");
    match spread(rows) {
        Some(spread) => format!("{text} ({spread})"),
        None => text,
    }
}

fn stretches(rows: &[&Matched]) -> Vec<Stretch> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| (row.point.size, row.point.in_place));
    let mut all: Vec<Stretch> = Vec::new();
    for row in rows {
        let (word, size) = (verdict(row), row.point.size);
        match all.last_mut().filter(|last| last.word == word) {
            Some(last) => {
                last.sizes[1] = size;
                last.speeds = [last.speeds[0].min(row.speed), last.speeds[1].max(row.speed)];
                last.points += 1;
            }
            None => all.push(Stretch { word, sizes: [size; 2], speeds: [row.speed; 2], points: 1 }),
        }
    }
    all
}

/// All stretches of a verdict as one.
fn by_verdict(stretches: Vec<Stretch>) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = Vec::new();
    for one in stretches {
        match all.iter_mut().find(|other| other.word == one.word) {
            Some(other) => {
                other.points += one.points;
                other.speeds =
                    [other.speeds[0].min(one.speeds[0]), other.speeds[1].max(one.speeds[1])];
            }
            None => all.push(one),
        }
    }
    all
}

/// `3 % faster`, `2 to 5 % slower`, `same`, `inconclusive (0.97 to 1.02 times as fast)`.
fn amount(one: &Stretch) -> String {
    let [low, high] = one.speeds;
    let percents = |a: f64, b: f64| {
        let [a, b] = [a, b].map(|share| format!("{:.1}", share * 100.0));
        if a == b { format!("{a} %") } else { format!("{a} to {b} %") }
    };
    match one.word {
        "faster" => format!("{} faster", percents(low - 1.0, high - 1.0)),
        "slower" => format!("{} slower", percents(1.0 - high, 1.0 - low)),
        "inconclusive" if format!("{low:.2}") == format!("{high:.2}") => {
            format!("inconclusive ({low:.2} times as fast)")
        }
        "inconclusive" => format!("inconclusive ({low:.2} to {high:.2} times as fast)"),
        word => word.to_owned(),
    }
}

fn place(one: &Stretch, least: u64, most: u64) -> String {
    let [from, to] = one.sizes;
    match (from == least, to == most) {
        _ if from == to => format!("at {}", bytes(from)),
        (true, true) => "at all sizes".to_owned(),
        (true, false) => format!("up to {}", bytes(to)),
        (false, true) => format!("from {} on", bytes(from)),
        (false, false) => format!("from {} to {}", bytes(from), bytes(to)),
    }
}

/// How far launches usually lie apart, where that is what verdicts are based on.
pub(super) fn spread(rows: &[&Matched]) -> Option<String> {
    let by_history = rows.iter().filter_map(|row| match row.basis {
        Basis::History(launches) => {
            let interval = row.interval?;
            Some((launches, (interval.high / interval.low).sqrt() - 1.0))
        }
        Basis::Launches => None,
    });
    let (least, widest) = by_history
        .fold((usize::MAX, 0.0_f64), |(least, widest), (launches, apart)| {
            (least.min(launches), widest.max(apart))
        });
    (least < usize::MAX).then(|| {
        format!(
            "by the history of this machine: 95 % of {least} earlier launches differ by less than {:.1} %",
            widest * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use busbw_analysis::comparison::{Point, Times};
    use busbw_stats::{Interval, Verdict};

    use super::*;

    fn row(size: u64, speed: f64, verdict: Verdict) -> Matched {
        let point = Point {
            test: "all_reduce".to_owned(),
            figure: Default::default(),
            datatype: None,
            redop: None,
            root: None,
            group: None,
            ranks: Some(8),
            variant: None,
            size,
            in_place: false,
        };
        let times = Times { launches_us: vec![1.0], time_us: 1.0, wrong: 0, busbw: None };
        let (baseline, candidate) = (times.clone(), times);
        let (interval, basis) = (None, Basis::Launches);
        Matched { point, baseline, candidate, speed, interval, verdict, basis }
    }

    #[test]
    fn stretches_of_one_verdict_are_one() {
        let rows = [
            row(8, 1.001, Verdict::Same),
            row(64 << 10, 0.999, Verdict::Same),
            row(1 << 20, 0.9, Verdict::Slower),
            row(2 << 20, 0.95, Verdict::Slower),
            row(1 << 30, 1.031, Verdict::Faster),
        ];
        let want = "all_reduce, 8 ranks, B against A: 3.1 % faster at 1 GiB, 5.0 to 10.0 % slower from 1 MiB to 2 MiB, same up to 64 KiB";
        assert_eq!(headlines(&rows, "B"), [want]);
        assert_eq!(
            headlines(&rows[..2], "B"),
            ["all_reduce, 8 ranks, B against A: same at all sizes"]
        );
        let turns = [1, 2, 3, 4, 5, 6].map(|size| match size % 2 {
            0 => row(size, 1.1, Verdict::Faster),
            _ => row(size, 1.0, Verdict::Same),
        });
        let want = "all_reduce, 8 ranks, B against A: same at 3 of 6 points, 10.0 % faster at 3 of 6 points";
        assert_eq!(headlines(&turns, "B"), [want]);
    }

    #[test]
    fn the_history_is_named_with_its_spread() {
        let interval = Interval { low: 1.0, high: 1.0404, coverage: 0.95 };
        let by_history = Matched {
            interval: Some(interval),
            basis: Basis::History(24),
            ..row(8, 1.02, Verdict::Same)
        };
        let said = headlines(&[by_history], "B").remove(0);
        assert!(
            said.contains("95 % of 24 earlier launches") && said.ends_with("less than 2.0 %)"),
            "{said}"
        );
    }
}
