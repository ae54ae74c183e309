//! What follows from runs made of known costs, and what is refused.

use busbw_core::record::Figures;
use busbw_logs::measurement::{Known, Row, Test};
use proptest::prelude::*;

use super::*;

/// A run of `hosts` × 8 ranks whose times are alpha + beta × bytes, for sizes that double from 8 B on.
fn run(collective: Collective, hosts: usize, sizes: usize, alpha: f64, beta: f64) -> Measurement {
    let row = |at: usize| {
        let size = 8u64 << at;
        let time_us = Some(alpha + beta * size as f64);
        Row {
            size,
            out_of_place: Some(Figures { time_us, ..Figures::default() }),
            ..Row::default()
        }
    };
    Measurement {
        test: Test { collective: Some(Known::stated(collective)), ..Test::default() },
        ranks: Some(Known::stated(hosts * 8)),
        hosts: Some(hosts),
        rows: (0..sizes).map(row).collect(),
        ..Measurement::default()
    }
}

fn refused(runs: &[Measurement], wanted: Wanted) -> String {
    extrapolate(runs, wanted).expect_err("refused").to_string()
}

#[test]
fn what_cannot_be_extrapolated_is_refused_with_a_sentence() {
    let good = run(Collective::AllReduce, 2, 20, 20.0, 1e-3);
    let twice = Wanted::default();
    assert!(refused(&[], twice).contains("no times"));
    let hosts = Measurement { hosts: None, ..good.clone() };
    assert!(refused(&[hosts], twice).contains("how many hosts"));
    let one = run(Collective::AllReduce, 1, 20, 20.0, 1e-3);
    assert!(refused(&[one], twice).contains("on one host"));
    let uneven = Measurement { ranks: Some(Known::stated(15)), ..good.clone() };
    assert!(refused(&[uneven], twice).contains("15 ranks on 2 hosts"));
    for few in [0, 1, 2] {
        let few_sizes = run(Collective::AllReduce, 2, few, 20.0, 1e-3);
        let why = refused(&[few_sizes], twice);
        assert!(why.contains("three sizes") || why.contains("no times"), "{why}");
    }
    let fewer = Wanted { hosts: Some(2), ..twice };
    assert!(refused(std::slice::from_ref(&good), fewer).contains("more than these"));
    let other = Wanted { collective: Some(Collective::AllToAll), ..twice };
    assert!(refused(std::slice::from_ref(&good), other).contains("no times of alltoall"));
    let direct = Wanted { algorithm: Some(Algorithm::Pat), ..twice };
    assert!(refused(&[good], direct).contains("PAT"));
}

/// Times of 0 and what is no number are no times (`Side` leaves them out), and 0 B are no size of a collective.
#[test]
fn odd_rows_are_left_out() {
    let mut odd = run(Collective::AllReduce, 2, 20, 20.0, 1e-3);
    for (at, bad) in [(1, Some(0.0)), (3, Some(f64::NAN)), (5, None), (7, Some(-4.0))] {
        odd.rows[at].out_of_place = Some(Figures { time_us: bad, ..Figures::default() });
    }
    odd.rows[0].size = 0;
    let found = extrapolate(&[odd], Wanted::default()).expect("extrapolated");
    assert_eq!(found[0].rows.len(), 15);
    assert!((found[0].stretches[0].alpha_us - 20.0).abs() < 1e-3);
}

#[test]
fn a_ring_and_a_tree_between_two_and_four_hosts() {
    let runs = [run(Collective::AllReduce, 2, 30, 20.0, 1e-3)];
    let of = |algorithm| {
        let wanted = Wanted { algorithm, ..Wanted::default() };
        extrapolate(&runs, wanted).expect("extrapolated").remove(0)
    };
    // 2(n−1)/n: 1.9375 over 1.875. A tree sends S from each of two hosts, 2 S from the busiest of four.
    let ring = of(Some(Algorithm::Ring)).growth.beta;
    assert!((ring.middle - 1.9375 / 1.875).abs() < 1e-12 && (ring.high - ring.low).abs() < 1e-12);
    assert_eq!(of(Some(Algorithm::Tree)).growth.beta.high, 2.0);
    let unknown = of(None);
    assert_eq!(unknown.growth.beta.high, 2.0);
    assert!(unknown.growth.beta.low <= ring.low);
    assert_eq!(unknown.to, Scale { hosts: 4, ranks: 32 });
    // From four hosts on both send the same within 7 %.
    let later = extrapolate(&[run(Collective::AllReduce, 4, 30, 20.0, 1e-3)], Wanted::default());
    let beta = later.expect("extrapolated")[0].growth.beta;
    assert!(beta.low > 0.95 && beta.high < 1.1, "{beta:?}");
}

#[test]
fn an_earlier_step_widens_the_range() {
    // From two to four hosts everything became four times as slow, which no algorithm explains.
    let runs = [
        run(Collective::AllReduce, 2, 20, 20.0, 1e-3),
        run(Collective::AllReduce, 4, 20, 80.0, 4e-3),
    ];
    let alone = extrapolate(&runs[1..], Wanted::default()).expect("extrapolated").remove(0);
    let both = extrapolate(&runs, Wanted::default()).expect("extrapolated").remove(0);
    assert_eq!(both.tried_from, [Scale { hosts: 2, ranks: 16 }]);
    for (one, other) in alone.rows.iter().zip(&both.rows) {
        assert_eq!(one.time_us.middle, other.time_us.middle);
        assert!(other.time_us.low <= one.time_us.low && other.time_us.high >= one.time_us.high);
        assert!(other.time_us.high > 2.0 * other.time_us.middle, "{other:?}");
    }
}

#[test]
fn held_against_what_was_measured() {
    let expected = extrapolate(&[run(Collective::AllReduce, 2, 20, 20.0, 1e-3)], Wanted::default())
        .expect("extrapolated")
        .remove(0);
    let right = hold(&expected, &[run(Collective::AllReduce, 4, 20, 30.0, 1.4e-3)]);
    let right = right.expect("times").expect("the same case");
    assert_eq!((right.inside, right.sizes.len()), (20, 20));
    let wrong = hold(&expected, &[run(Collective::AllReduce, 4, 20, 300.0, 1.4e-2)]);
    assert_eq!(wrong.expect("times").expect("the same case").inside, 0);
    assert_eq!(hold(&expected, &[run(Collective::AllReduce, 8, 20, 30.0, 1e-3)]), Ok(None));
    let text = serde_json::to_string(&expected).expect("JSON");
    assert_eq!(serde_json::from_str::<Extrapolation>(&text).expect("read"), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Without noise the costs are recovered, and what is expected is between the factors of both.
    #[test]
    fn exact_costs_are_recovered(alpha in 1.0f64..500.0, gbps in 0.05f64..500.0, doublings in 1u32..6, sizes in 24usize..31) {
        let beta = 1e-3 / gbps;
        let runs = [run(Collective::AllGather, 2, sizes, alpha, beta)];
        let hosts = 2usize << doublings;
        let wanted = Wanted { hosts: Some(hosts), ..Wanted::default() };
        let found = extrapolate(&runs, wanted).expect("extrapolated").remove(0);
        prop_assert_eq!(found.stretches.len(), 1);
        prop_assert!((found.stretches[0].alpha_us / alpha - 1.0).abs() < 1e-6);
        let growth = &found.growth;
        for row in &found.rows {
            let bytes = row.bytes as f64;
            let at = |a: f64, b: f64| alpha * a + beta * bytes * b;
            prop_assert!((row.time_us.low / at(growth.alpha.low, growth.beta.low) - 1.0).abs() < 1e-4);
            prop_assert!((row.time_us.high / at(growth.alpha.high, growth.beta.high) - 1.0).abs() < 1e-4);
            prop_assert!(row.time_us.low <= row.time_us.middle && row.time_us.middle <= row.time_us.high);
            prop_assert!((row.busbw.middle - row.algbw.middle * (hosts as f64 * 8.0 - 1.0) / (hosts as f64 * 8.0)).abs() < 1e-9 * row.busbw.middle.max(1.0));
        }
    }
}
