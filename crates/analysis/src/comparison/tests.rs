use super::*;
use busbw_core::{Collective, DataType, record::Figures};
use busbw_logs::measurement::{Form, Known, Measurement, Row};
use busbw_stats::{Reason, Rule, Verdict};

/// A run of all_reduce on `ranks`, with these times at 1 MiB, 2 MiB and so on.
fn run(ranks: usize, times: &[f64]) -> Measurement {
    let row = |(at, time): (usize, &f64)| {
        let size = 1u64 << (20 + at);
        let algbw = size as f64 / 1e3 / time;
        let factor = 2.0 * (ranks as f64 - 1.0) / ranks as f64;
        let half = Figures {
            time_us: Some(*time),
            algbw: Some(algbw),
            busbw: Some(algbw * factor),
            ..Figures::default()
        };
        Row {
            size,
            datatype: Some(DataType::Float),
            op: Some("sum".to_owned()),
            out_of_place: Some(half),
            ..Row::default()
        }
    };
    let mut run = Measurement {
        ranks: Some(Known::stated(ranks)),
        rows: times.iter().enumerate().map(row).collect(),
        ..Measurement::default()
    };
    run.test.collective = Some(Known::stated(Collective::AllReduce));
    run
}

fn matching(a: &[Measurement], b: &[Measurement], history: &[f64]) -> Matching {
    let (a, b) = (Side::of("a", a), Side::of("b", b));
    compare_sides(&a, &b, &Rule::default(), &mut |_| history.to_vec())
}

#[test]
fn one_launch_a_side_tells_nothing_without_history() {
    let found = matching(&[run(8, &[10.0])], &[run(8, &[20.0])], &[]);
    let [row] = &found.rows[..] else { panic!("{found:?}") };
    assert!(matches!(row.verdict, Verdict::Inconclusive(Reason::TooFewLaunches { .. })));
    assert!((row.speed - 0.5).abs() < 1e-9 && row.interval.is_none());
    // Nobody knows better: a gate takes the figure as it is.
    assert!(row.is_below(0.95) && !row.is_below(0.4));
    let steady = [1.0; 20];
    let found = matching(&[run(8, &[10.0])], &[run(8, &[20.0])], &steady);
    assert_eq!((found.rows[0].verdict, found.rows[0].basis), (Verdict::Slower, Basis::History(20)));
    let noisy: Vec<f64> = (0..20).map(|at| if at % 2 == 0 { 1.0 } else { 2.5 }).collect();
    let found = matching(&[run(8, &[10.0])], &[run(8, &[20.0])], &noisy);
    assert!(matches!(found.rows[0].verdict, Verdict::Inconclusive(_)));
    assert!(!found.rows[0].is_below(0.95), "noise explains it");
}

#[test]
fn runs_of_a_side_are_its_launches() {
    let side = |factor: f64| -> Vec<Measurement> {
        [10.0, 10.1, 9.9, 10.2, 9.8, 10.0].iter().map(|time| run(8, &[time * factor])).collect()
    };
    let found = matching(&side(1.0), &side(1.2), &[]);
    let row = &found.rows[0];
    assert_eq!((row.verdict, row.basis), (Verdict::Slower, Basis::Launches));
    let interval = row.interval.unwrap();
    assert!(interval.low < row.speed && row.speed < interval.high && interval.high < 1.0);
    assert!(row.is_below(0.95) && !row.is_below(0.8));
    assert_eq!(matching(&side(1.0), &side(1.0), &[]).rows[0].verdict, Verdict::Same);
    assert_eq!(row.baseline.launches_us.len(), 6);
    let expected = 1.048_576 / 10.0 * 1e3 * 1.75;
    assert!((row.baseline.busbw.unwrap() - expected).abs() < 1e-6);
}

#[test]
fn cycles_of_a_run_are_no_launches() {
    let mut cycles = run(8, &[10.0]);
    let again = run(8, &[30.0]).rows.into_iter().chain(run(8, &[11.0]).rows);
    cycles.rows.extend(again);
    let side = Side::of("a", [&cycles]);
    let times = side.points.values().next().unwrap();
    assert_eq!((times.launches_us.as_slice(), times.time_us), (&[11.0][..], 11.0));
    let expected = 1.048_576 / 11.0 * 1e3 * 1.75;
    assert!((times.busbw.unwrap() - expected).abs() < 1e-6, "the speed follows the median");
}

#[test]
fn only_the_same_point_is_compared() {
    let mut other = run(8, &[10.0, 20.0]);
    other.rows[0].datatype = Some(DataType::Half);
    let found = matching(&[run(8, &[10.0, 20.0, 40.0])], &[other], &[]);
    assert_eq!(found.rows.len(), 1);
    assert_eq!((found.only_baseline.len(), found.only_candidate.len()), (2, 1));
    assert_eq!(found.only_candidate[0].case(), "all_reduce half sum, 8 ranks");
    assert!(matching(&[run(8, &[1.0])], &[run(4, &[1.0])], &[]).rows.is_empty());
}

#[test]
fn a_side_without_ranks_takes_the_others() {
    let mut unsaid = run(8, &[10.0]);
    unsaid.ranks = None;
    let mut a = Side::of("a", [&unsaid]);
    assert_eq!(a.assume_ranks_of(&Side::of("b", [&run(8, &[1.0])])), Some(8));
    assert_eq!(a.ranks().first(), Some(&Some(8)));
    let both = [run(8, &[1.0]), run(4, &[1.0])];
    let mut a = Side::of("a", [&unsaid]);
    assert_eq!(a.assume_ranks_of(&Side::of("b", &both)), None);
}

#[test]
fn efficiency_is_busbw_over_that_of_the_fewest() {
    let time = |ranks: f64, busbw: f64| 1048.576 * 2.0 * (ranks - 1.0) / ranks / busbw;
    let runs = [run(16, &[time(16.0, 469.7)]), run(8, &[time(8.0, 476.4)])];
    let scaled = scale(&runs);
    let [one] = &scaled[..] else { panic!("{scaled:?}") };
    let steps: Vec<(usize, f64)> =
        one.steps.iter().map(|step| (step.width.ranks, (step.efficiency * 1e3).round())).collect();
    assert_eq!(steps, [(8, 1000.0), (16, 986.0)]);
    assert!(scale(&runs[..1]).is_empty());
}

#[test]
fn all_launches_of_a_width_count_and_hosts_are_the_axis() {
    let on = |hosts: usize, ranks: usize, time: f64| {
        let mut run = run(ranks, &[time]);
        run.hosts = Some(hosts);
        run
    };
    // Eight ranks on one host and on two are two widths; three launches of one are one figure.
    let runs = [on(2, 8, 20.0), on(1, 8, 10.0), on(1, 8, 14.0), on(1, 8, 12.0), on(2, 16, 20.0)];
    let scaled = scale(&runs);
    let [one] = &scaled[..] else { panic!("{scaled:?}") };
    let told: Vec<_> = one
        .steps
        .iter()
        .map(|s| (s.width.hosts, s.width.ranks, s.times.launches_us.len(), s.times.time_us))
        .collect();
    assert_eq!(told, [(Some(1), 8, 3, 12.0), (Some(2), 8, 1, 20.0), (Some(2), 16, 1, 20.0)]);
    assert!((one.steps[1].efficiency - 0.6).abs() < 1e-9, "{scaled:?}");
    // Where one does not tell its hosts, ranks are the axis.
    let mut unknown = runs.clone();
    unknown[4].hosts = None;
    unknown[4].ranks = Some(Known::stated(4));
    let scaled = scale(&unknown);
    let ranks: Vec<usize> = scaled[0].steps.iter().map(|step| step.width.ranks).collect();
    assert_eq!(ranks, [4, 8, 8]);
}

/// A run as its log prints it, to two decimals.
fn printed(times: &[f64]) -> Measurement {
    let mut run = run(8, times);
    for half in run.rows.iter_mut().filter_map(|row| row.out_of_place.as_mut()) {
        half.time_us = half.time_us.map(|time| (time * 100.0).round() / 100.0);
        half.rounding_us = 0.005;
    }
    run
}

fn named(name: &str, form: Form, mut run: Measurement) -> Measurement {
    run.source.name = name.to_owned();
    run.source.form = form;
    run
}

#[test]
fn a_launch_that_was_read_twice_counts_once() {
    let times = [10.123_4, 20.234_5, 30.345_6];
    let log = named("a.log", Form::NcclTests, printed(&times));
    let mut record = named("a.jsonl", Form::Record, run(8, &times));
    record.id = Some("20260101-1".to_owned());
    record.started = Some("2026-01-01 10:00:00".to_owned());
    let mut report = named("a.json", Form::NcclTestsJson, run(8, &times));
    report.started = record.started.clone();
    let (kept, repeated) = distinct(vec![log.clone(), record.clone(), report.clone()]);
    assert_eq!(kept, [record.clone()], "the record says most");
    assert_eq!(
        repeated.iter().map(|one| (one.name.as_str(), one.by, one.left_out)).collect::<Vec<_>>(),
        [("a.log", Sameness::Figures, true), ("a.json", Sameness::Start, true)]
    );
    // Records with names of their own, and other starts, are launches, whatever they measured.
    let mut other = record.clone();
    other.id = Some("20260101-2".to_owned());
    let mut later = report;
    later.started = Some("2026-01-01 10:00:09".to_owned());
    assert_eq!(distinct(vec![record, other, later]).0.len(), 3);
    // A figure that differs in its last digit is another launch.
    let near = printed(&[10.123_4, 20.234_5, 30.355_6]);
    assert_eq!(
        distinct(vec![log, near]),
        (
            vec![
                named("a.log", Form::NcclTests, printed(&times)),
                printed(&[10.123_4, 20.234_5, 30.355_6])
            ],
            vec![]
        )
    );
}

#[test]
fn few_rows_that_agree_stay_launches() {
    let one = || printed(&[10.12]);
    let (kept, repeated) = distinct(vec![one(), one()]);
    assert_eq!(kept.len(), 2);
    assert!(matches!(&repeated[..], [Repeated { by: Sameness::FewFigures, left_out: false, .. }]));
    // Two digits tell nothing in three rows either.
    let coarse = || {
        let mut run = printed(&[1.0, 2.0, 3.0]);
        let halves = run.rows.iter_mut().filter_map(|row| row.out_of_place.as_mut());
        halves.for_each(|half| half.rounding_us = 0.05);
        run
    };
    assert_eq!(distinct(vec![coarse(), coarse()]).0.len(), 2);
}

#[test]
fn the_first_of_equal_peaks_counts_and_the_highest_of_both_places() {
    let mut one = run(8, &[10.0]);
    one.rows[0].in_place = one.rows[0].out_of_place.clone();
    assert!(!one.peak().unwrap().in_place);
    let half = one.rows[0].in_place.as_mut().unwrap();
    half.busbw = half.busbw.map(|busbw| busbw + 1.0);
    assert!(one.peak().unwrap().in_place);
}

#[test]
fn groups_of_a_run_are_points_of_their_own() {
    let mut split = run(4, &[10.0, 30.0]);
    split.rows[1].size = split.rows[0].size;
    split.rows[0].group = Some(0);
    split.rows[1].group = Some(1);
    let device = |rank: usize| busbw_logs::measurement::Device {
        rank,
        group: Some(rank as u64 % 2),
        ..busbw_logs::measurement::Device::default()
    };
    split.devices = (0..8).map(device).collect();
    let side = Side::of("a", [&split]);
    let told: Vec<_> =
        side.points.iter().map(|(p, t)| (p.group, p.ranks, t.launches_us.clone())).collect();
    assert_eq!(told, [(Some(0), Some(4), vec![10.0]), (Some(1), Some(4), vec![30.0])]);
    assert_eq!(
        side.points.keys().map(Point::case).collect::<Vec<_>>(),
        ["all_reduce float sum, 4 ranks, group 0", "all_reduce float sum, 4 ranks, group 1"]
    );
    // A communicator that had the machine for itself is another thing.
    assert!(matching(&[split], &[run(4, &[10.0])], &[]).rows.is_empty());
}
