//! The model of TCP by itself, against closed forms.
//! Not against a kernel (`netlab`).

mod streams;

use std::time::Duration;

use busbw_multipath_sim::{
    Change, Link,
    tcp::{Algorithm, Settings},
};
use streams::{Streams, jain};

const SECOND: Duration = Duration::from_secs(1);
const GIGABIT: u64 = 1_000_000_000;
/// What of a link's rate are bytes of a stream: MTU 9000, 52 bytes of IP and TCP headers, 14 of Ethernet's.
const PAYLOAD: f64 = 8948.0 / 9014.0;

fn both() -> [Settings; 2] {
    [Algorithm::Cubic, Algorithm::Bbr]
        .map(|algorithm| Settings { algorithm, ..Settings::default() })
}

/// As a path of tests/netlab.sh is.
fn netlab(rate: u64) -> Link {
    Link::tbf(rate, 128 << 10, Duration::from_millis(8), Duration::from_micros(30))
}

fn within(what: &str, value: f64, expected: f64, tolerance: f64) {
    println!("{what}: {value:.4}, expected {expected:.4}");
    assert!((value / expected - 1.0).abs() <= tolerance, "{what}: {value} is not {expected}");
}

#[test]
fn one_flow_fills_a_link() {
    for settings in both() {
        for (rate, trip) in
            [(GIGABIT, 60), (GIGABIT / 4, 60), (GIGABIT / 10, 10_000), (10 * GIGABIT, 200)]
        {
            let link = Link::tbf(
                rate,
                128 << 10,
                Duration::from_millis(8),
                Duration::from_micros(trip / 2),
            );
            let mut streams = Streams::new(1, link, settings);
            streams.open(1);
            let goodput = streams.run(2 * SECOND, 3 * SECOND)[0];
            let what = format!("{:?}, {} Mb/s, {trip} us", settings.algorithm, rate / 1_000_000);
            within(&what, goodput, rate as f64 * PAYLOAD, 0.06);
        }
    }
}

#[test]
fn flows_share_a_link() {
    for settings in both() {
        for count in [2, 4, 8] {
            let mut streams = Streams::new(2, netlab(GIGABIT), settings);
            streams.open(count);
            let goodputs = streams.run(3 * SECOND, 8 * SECOND);
            let what = format!("{:?}, {count} flows", settings.algorithm);
            within(&what, goodputs.iter().sum(), GIGABIT as f64 * PAYLOAD, 0.03);
            let fairness = jain(&goodputs);
            println!("{what}: Jain's index {fairness:.3}, {goodputs:?}");
            assert!(fairness > 0.8, "{what}: {goodputs:?}");
        }
    }
}

/// CUBIC's parameters.
const BETA: f64 = 0.7;
const C: f64 = 0.4;

/// The window that random loss leaves: what CUBIC's function gives, or a Reno's that decreases as CUBIC does if
/// that is larger
/// (RFC 9438, figures 3 and 6; for Reno's own decrease, Mathis et al. 1997).
#[test]
fn loss_limits_cubic_as_its_formula_has_it() {
    let settings = Settings { offload: false, mtu: 1500, ..Settings::default() };
    for (loss, trip) in
        [(0.01, 0.02), (0.003, 0.02), (0.001, 0.02), (0.001, 0.1), (0.01, 0.005), (0.0001, 0.1)]
    {
        let mut link = Link::new(100 * GIGABIT, Duration::from_secs_f64(trip / 2.0), 1 << 30);
        link.change(Change::Loss(loss));
        let mut streams = Streams::new(3, link, settings);
        streams.one_way_loss();
        streams.open(8);
        let goodputs = streams.run(60 * SECOND, 120 * SECOND);
        let segments = goodputs.iter().sum::<f64>() / 8.0 / 8.0 / 1448.0 * trip;
        let alpha = 3.0 * (1.0 - BETA) / (1.0 + BETA);
        let reno = f64::sqrt(alpha * (1.0 + BETA) / (2.0 * (1.0 - BETA) * loss));
        let cubic =
            f64::powf(C * (3.0 + BETA) / (4.0 * (1.0 - BETA)), 0.25) * (trip / loss).powf(0.75);
        let what = format!("{loss} lost, {} ms: segments in flight", trip * 1e3);
        within(&what, segments, reno.max(cubic), 0.15);
    }
}

#[test]
fn loss_does_not_limit_bbr() {
    let settings = Settings { offload: false, algorithm: Algorithm::Bbr, ..Settings::default() };
    for loss in [0.001, 0.01] {
        let mut link = netlab(GIGABIT);
        link.change(Change::Loss(loss));
        let mut streams = Streams::new(4, link, settings);
        streams.one_way_loss();
        streams.open(1);
        let goodput = streams.run(2 * SECOND, 8 * SECOND)[0];
        within(&format!("BBR, {loss} lost"), goodput, GIGABIT as f64 * PAYLOAD * (1.0 - loss), 0.1);
    }
}

#[test]
fn a_blackhole_is_left_by_the_retransmission_timeout() {
    for settings in both() {
        let mut streams = Streams::new(5, netlab(GIGABIT), settings);
        streams.open(1);
        streams.run(SECOND, SECOND);
        streams.change(Change::Blackhole(true));
        let mut timeouts = Vec::new();
        for _ in 0..40 {
            streams.run(Duration::ZERO, SECOND / 20);
            timeouts.push(streams.info(0).timeouts);
        }
        // 0.2, 0.4, 0.8 s, the first of which may begin with the tail loss probe.
        let reached = |count| {
            0.05 * (1 + timeouts.iter().position(|timeout| *timeout >= count).unwrap()) as f64
        };
        println!("{:?}: timeouts {timeouts:?}", settings.algorithm);
        assert!((0.2..=0.3).contains(&reached(1)) && (0.6..=0.75).contains(&reached(2)));
        assert!((1.4..=1.6).contains(&reached(3)));
        streams.change(Change::Blackhole(false));
        // The fourth timeout comes after 1.6 s.
        streams.run(SECOND, 2 * SECOND);
        let goodput = streams.run(SECOND, 2 * SECOND)[0];
        within("after a blackhole", goodput, GIGABIT as f64 * PAYLOAD, 0.03);
    }
}

/// Segments that overtake each other cost little: RACK waits.
#[test]
fn reordering_costs_little() {
    for settings in both() {
        let settings = Settings { offload: false, ..settings };
        let mut link =
            Link::tbf(GIGABIT, 128 << 10, Duration::from_millis(8), Duration::from_micros(500));
        link.change(Change::Reordering(0.01, Duration::from_micros(150)));
        let mut streams = Streams::new(6, link, settings);
        streams.open(1);
        let goodput = streams.run(2 * SECOND, 3 * SECOND)[0];
        within("reordering", goodput, GIGABIT as f64 * PAYLOAD, 0.1);
    }
}

/// Time is not measured: what is to be done for it is.
#[test]
fn a_second_of_four_gigabits_takes_few_events() {
    let settings = Settings { offload: false, ..Settings::default() };
    let mut streams = Streams::new(7, netlab(4 * GIGABIT), settings);
    streams.open(16);
    let began = std::time::Instant::now();
    let goodput: f64 = streams.run(Duration::ZERO, SECOND).iter().sum();
    println!("{:.2} Gb/s, {} events, {:?}", goodput / 1e9, streams.events, began.elapsed());
    assert!(goodput > 3.9e9 && streams.events < 60_000);
}
