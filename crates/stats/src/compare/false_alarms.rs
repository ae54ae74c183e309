//! Simulated comparisons of a program with itself, and with a slower one, by noise model.
//! Not a proof for every machine: it holds for the models in `noise`, and the seeds are fixed.
//!
//! The bounds sit a few standard errors of the simulation above the measured rates. With 10,000
//! trials each, the share called different, in percent, was (the worst of 4, 5, 6, 8 and 12
//! launches a side):
//!
//! | noise                            | one side after the other | in turns |
//! |----------------------------------|--------------------------|----------|
//! | lognormal                        | 0.6                      | 0.6      |
//! | heavy-tailed                     | 0.6                      | 0.5      |
//! | two levels at random             | 0.6                      | 0.7      |
//! | autoregressive, 0.5              | 2.3                      | 0.3      |
//! | autoregressive, 0.8              | 3.6                      | 0.1      |
//! | random walk                      | 3.8                      | 0.1      |
//! | two levels, kept for 5 launches  | 4.3                      | 0.3      |
//! | steady trend of 0.5 % a launch   | 8.7                      | 0.2      |
//!
//! The last breaks the promise of 5 % and is kept here as a known limit.
//! Other slopes are worst at other counts, at up to 11 %: 0.25 % a launch at 12, for example.

use super::{Rule, Verdict, compare};
use crate::noise::{Noise, Rng};

/// The order in which the launches of the two sides are made.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// All of the baseline, then all of the candidate.
    OneAfterTheOther,
    /// A B B A A B B A and so on.
    InTurns,
}

/// The share of trials with each outcome.
#[derive(Debug, Default)]
struct Shares {
    same: f64,
    faster: f64,
    slower: f64,
}

impl Shares {
    fn different(&self) -> f64 {
        self.faster + self.slower
    }
}

fn sides(times: &[f64], order: Order) -> (Vec<f64>, Vec<f64>) {
    let in_baseline = |index: usize| match order {
        Order::OneAfterTheOther => index < times.len() / 2,
        Order::InTurns => matches!(index % 4, 0 | 3),
    };
    let side = |baseline: bool| {
        let kept = |&(index, _): &(usize, &f64)| in_baseline(index) == baseline;
        times.iter().enumerate().filter(kept).map(|(_, &t)| t).collect()
    };
    (side(true), side(false))
}

/// Outcomes when the candidate's times are `factor` times what the noise made them.
fn simulate(noise: Noise, order: Order, launches: usize, factor: f64, trials: u32) -> Shares {
    let mut rng = Rng::new(launches as u64 * 7_919 + 13);
    let mut shares = Shares::default();
    for _ in 0..trials {
        let times = noise.launches(&mut rng, 2 * launches);
        let (baseline, mut candidate) = sides(&times, order);
        candidate.iter_mut().for_each(|time| *time *= factor);
        match compare(&baseline, &candidate, &Rule::default()).verdict {
            Verdict::Same => shares.same += 1.0 / f64::from(trials),
            Verdict::Faster => shares.faster += 1.0 / f64::from(trials),
            Verdict::Slower => shares.slower += 1.0 / f64::from(trials),
            Verdict::Inconclusive(_) => {}
        }
    }
    println!("{noise:?} {order:?} n {launches} x {factor}: {shares:.4?}");
    shares
}

fn assert_false_alarms(noise: Noise, order: Order, most: f64) {
    for launches in [4, 5, 6, 8, 12] {
        let rate = simulate(noise, order, launches, 1.0, 2_000).different();
        assert!(rate <= most, "{noise:?} {order:?} n {launches}: {rate}");
    }
}

#[test]
fn independent_noise_alarms_in_less_than_two_of_a_hundred() {
    for noise in [Noise::Lognormal, Noise::HeavyTailed, Noise::Bimodal] {
        assert_false_alarms(noise, Order::OneAfterTheOther, 0.015);
        assert_false_alarms(noise, Order::InTurns, 0.015);
    }
}

#[test]
fn correlated_launches_stay_below_the_promise() {
    assert_false_alarms(Noise::Autoregressive(0.5), Order::OneAfterTheOther, 0.035);
    assert_false_alarms(Noise::Autoregressive(0.8), Order::OneAfterTheOther, 0.045);
    assert_false_alarms(Noise::StickyBimodal, Order::OneAfterTheOther, 0.05);
}

#[test]
fn a_random_walk_under_both_sides_stays_at_the_promise() {
    assert_false_alarms(Noise::RandomWalk, Order::OneAfterTheOther, 0.05);
}

#[test]
fn a_hidden_trend_breaks_the_promise_unless_the_sides_take_turns() {
    assert_false_alarms(Noise::LinearDrift, Order::OneAfterTheOther, 0.1);
    let eight = simulate(Noise::LinearDrift, Order::OneAfterTheOther, 8, 1.0, 2_000);
    assert!(eight.different() > 0.05, "the limit in the text is no longer true: {eight:?}");
}

#[test]
fn turns_make_false_alarms_rare_under_every_model() {
    for noise in [
        Noise::Autoregressive(0.5),
        Noise::Autoregressive(0.8),
        Noise::RandomWalk,
        Noise::LinearDrift,
        Noise::StickyBimodal,
    ] {
        assert_false_alarms(noise, Order::InTurns, 0.015);
    }
}

#[test]
fn larger_comparisons_keep_the_promise() {
    for noise in [Noise::Lognormal, Noise::Autoregressive(0.5), Noise::RandomWalk] {
        // Thirty a side goes through the normal approximation.
        for (launches, trials) in [(20, 500), (30, 300)] {
            let found = simulate(noise, Order::OneAfterTheOther, launches, 1.0, trials);
            assert!(found.different() <= 0.075, "{noise:?} n {launches}: {found:?}");
        }
    }
}

#[test]
fn two_hundred_comparisons_with_itself_keep_the_contract() {
    for noise in [Noise::Lognormal, Noise::HeavyTailed, Noise::Bimodal, Noise::Autoregressive(0.5)]
    {
        for launches in [4, 5, 8] {
            let found = simulate(noise, Order::OneAfterTheOther, launches, 1.0, 200);
            assert!(found.different() <= 0.05, "{noise:?} n {launches}: {found:?}");
        }
    }
}

#[test]
fn a_slowdown_of_a_tenth_is_found_in_two_percent_noise() {
    for order in [Order::OneAfterTheOther, Order::InTurns] {
        let found = simulate(Noise::Lognormal, order, 8, 1.1, 4_000);
        assert!(found.slower > 0.9 && found.faster == 0.0, "{found:?}");
        assert!(found.same == 0.0, "{found:?}");
        let found = simulate(Noise::Lognormal, order, 12, 1.05, 2_000);
        assert!(found.slower > 0.75 && found.faster == 0.0, "{found:?}");
        let found = simulate(Noise::Lognormal, order, 8, 1.0 / 1.1, 2_000);
        assert!(found.faster > 0.9 && found.slower == 0.0, "{found:?}");
    }
}

#[test]
fn power_under_harder_noise_grows_with_the_launches() {
    let order = Order::OneAfterTheOther;
    for (noise, at_eight, at_twelve) in [
        (Noise::HeavyTailed, 0.5, 0.85),
        (Noise::Autoregressive(0.5), 0.55, 0.75),
        (Noise::Bimodal, 0.4, 0.65),
    ] {
        let eight = simulate(noise, order, 8, 1.1, 2_000).slower;
        let twelve = simulate(noise, order, 12, 1.1, 2_000).slower;
        assert!(eight > at_eight && twelve > at_twelve, "{noise:?}: {eight} {twelve}");
    }
}

#[test]
fn quiet_equal_sides_are_called_the_same() {
    let found = simulate(Noise::Lognormal, Order::OneAfterTheOther, 8, 1.0, 2_000);
    assert!(found.same > 0.9, "{found:?}");
}
