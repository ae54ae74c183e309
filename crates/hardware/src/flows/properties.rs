//! What max-min fair rates must have, on random networks, and what classes must not change.
//! Not collectives (`forecast`).

use proptest::prelude::*;

use super::{Bounds, Flow, Share, classes, last, merge, simulate};

fn flow(bytes: f64, links: &[u32]) -> Flow {
    Flow { bytes, path: links.iter().map(|link| Share::whole(*link)).collect(), ..Flow::default() }
}

/// Bertsekas and Gallager, figure 6.10's kind: one link of 1 shared by two, another of 2 by one of these and a third.
#[test]
fn by_hand() {
    let flows = [flow(1.0, &[0]), flow(1.0, &[0, 1]), flow(3.0, &[1])];
    let outcome = simulate(&[1.0, 2.0], &flows, 0.0);
    // Rates 0.5, 0.5, 1.5 until 2; all end there.
    for at in &outcome.arrival_us {
        assert!((at - 2.0).abs() < 1e-9, "{outcome:?}");
    }
    assert_eq!(outcome.held_by, [Some(0), Some(0), Some(1)]);
}

#[test]
fn starts_dependencies_and_latency() {
    let mut flows = vec![flow(10.0, &[0]), flow(10.0, &[0]), flow(10.0, &[0]), flow(0.0, &[])];
    flows[0].latency_us = 3.0;
    flows[1].start_us = 5.0;
    flows[2].after = vec![0, 1];
    flows[3].after = vec![2];
    flows[3].latency_us = 1.0;
    // Alone to 5, then 5 bytes left at half: 15, arrives at 18. The second has 5 left then: 20. The third: 30.
    let outcome = simulate(&[1.0], &flows, 0.0);
    for (at, expected) in outcome.arrival_us.iter().zip([18.0, 20.0, 30.0, 31.0]) {
        assert!((at - expected).abs() < 1e-9, "{outcome:?}");
    }
}

/// Bounds by hand: apart where flows of a link differ, the same where they are alike, infinite over a link without capacity.
#[test]
fn bounds_by_hand() {
    let flows = [flow(3.0, &[0, 1]), flow(1.0, &[0]), flow(1.0, &[1]), flow(0.5, &[1])];
    let end = simulate(&[1.0, 1.0], &flows, 0.0);
    let bounds = |flows: &[Flow]| {
        let mut bounds = Bounds::new(2);
        flows.iter().for_each(|flow| bounds.add(flow.bytes, &flow.path));
        bounds.end(&[1.0, 1.0])
    };
    let first = bounds(&flows);
    // 4.5 bytes over link 1; three flows there, the largest of 3 bytes.
    assert_eq!((first.least_us, first.most_us, first.held_by), (4.5, 9.0, Some(1)));
    assert!(!first.is_within(0.5) && first.is_within(1.0));
    let exact = last(&[1.0, 1.0], &flows, 0.0);
    assert!((exact.least_us - end.end_us()).abs() < 1e-9 && exact.is_within(0.0), "{exact:?}");
    // As large as each other: the link of two flows decides, whatever else they cross.
    let alike = [flow(2.0, &[0, 1]), flow(2.0, &[0])];
    let both = bounds(&alike);
    assert_eq!((both.least_us, both.most_us, both.held_by), (4.0, 4.0, Some(0)));
    assert!(last(&[0.0, 1.0], &alike, 0.0).least_us.is_infinite());
    assert_eq!(last(&[], &[], 0.0).least_us, 0.0);
}

#[test]
fn what_cannot_go_never_arrives() {
    let mut flows = vec![flow(1.0, &[0]), flow(1.0, &[1]), flow(1.0, &[1])];
    flows[2].after = vec![0];
    let outcome = simulate(&[0.0, 1.0], &flows, 0.0);
    assert!(outcome.arrival_us[0].is_infinite() && outcome.arrival_us[2].is_infinite());
    assert_eq!(outcome.arrival_us[1], 1.0);
    assert_eq!(simulate(&[], &[], 0.0).end_us(), 0.0);
}

fn networks() -> impl Strategy<Value = (Vec<f64>, Vec<Flow>)> {
    let rates = prop::collection::vec(prop::sample::select(vec![1.0, 2.0, 4.0]), 1..8);
    rates.prop_flat_map(|rates| {
        let links = rates.len() as u32;
        let share = (0..links, prop::sample::select(vec![0.5, 1.0, 2.0]));
        let path = prop::collection::vec(share, 1..4);
        let one =
            (path, prop::sample::select(vec![1.0, 3.0]), prop::sample::select(vec![0.0, 0.5]));
        let flows = prop::collection::vec(one, 1..12).prop_map(|flows| {
            let of = |(path, bytes, start_us): (Vec<(u32, f64)>, f64, f64)| {
                let mut path: Vec<Share> =
                    path.into_iter().map(|(link, weight)| Share { link, weight }).collect();
                merge(&mut path);
                Flow { bytes, path, start_us, ..Flow::default() }
            };
            flows.into_iter().map(of).collect()
        });
        (Just(rates), flows)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Flow by flow and in classes: the same times, also where the network is many times beside itself.
    #[test]
    fn classes_change_no_time((capacity, flows) in networks(), copies in 1usize..4) {
        let (links, one) = (capacity.len() as u32, flows.len());
        let shifted = |copy: u32| flows.iter().map(move |flow| {
            let mut flow = flow.clone();
            flow.path.iter_mut().for_each(|share| share.link += copy * links);
            flow
        });
        let all: Vec<Flow> = (0..copies as u32).flat_map(shifted).collect();
        let rates = capacity.repeat(copies);
        let plain = simulate(&rates, &all, 0.0);
        let merged = classes(&rates, &all);
        prop_assert!(merged.flows.len() <= one);
        let outcome = merged.simulate(0.0);
        for (a, b) in plain.arrival_us.iter().zip(&outcome.arrival_us) {
            prop_assert!((a - b).abs() <= 1e-6 * a, "{} {}", a, b);
        }
    }

    /// No link carries more than it can while all send, the busiest link is never idle before its bytes are through, and nobody
    /// arrives before what its narrowest link allows.
    #[test]
    fn no_byte_is_lost_or_made((capacity, flows) in networks()) {
        let outcome = simulate(&capacity, &flows, 0.0);
        let end = outcome.end_us();
        for (link, rate) in capacity.iter().enumerate() {
            let carried: f64 = flows.iter().flat_map(|flow| flow.path.iter().map(move |share| (flow, share)))
                .filter(|(_, share)| share.link as usize == link)
                .map(|(flow, share)| flow.bytes * share.weight).sum();
            prop_assert!(carried <= rate * end * (1.0 + 1e-9));
        }
        for (flow, at) in flows.iter().zip(&outcome.arrival_us) {
            let alone = flow.path.iter().map(|share| flow.bytes * share.weight / capacity[share.link as usize]);
            let alone = flow.start_us + alone.fold(0.0, f64::max);
            prop_assert!(*at >= alone * (1.0 - 1e-9), "{} {}", at, alone);
        }
        // All in a row is the slowest that sharing can be.
        let row: f64 = flows.iter().map(|flow| flow.path.iter()
            .map(|share| flow.bytes * share.weight / capacity[share.link as usize]).fold(0.0, f64::max)).sum();
        prop_assert!(end <= (row + 0.5) * (1.0 + 1e-9), "{} {}", end, row);
    }

    /// The last end without the others is that of the simulation, and bounds hold it, however coarse.
    #[test]
    fn the_last_end_is_the_simulated_one(
        (capacity, mut flows) in networks(), tolerance in prop::sample::select(vec![0.0, 0.01, 0.3]),
    ) {
        flows.iter_mut().for_each(|flow| flow.start_us = 0.0);
        let end = simulate(&capacity, &flows, 0.0).end_us();
        let exact = last(&capacity, &flows, 0.0);
        prop_assert!((exact.least_us / end - 1.0).abs() < 1e-9, "{:?} {}", exact, end);
        prop_assert!(exact.is_within(0.0), "{:?}", exact);
        let coarse = last(&capacity, &flows, tolerance);
        prop_assert!(coarse.is_within(tolerance), "{:?}", coarse);
        prop_assert!(coarse.least_us <= end * (1.0 + 1e-9) && end <= coarse.most_us * (1.0 + 1e-9), "{:?} {}", coarse, end);
        let mut bounds = Bounds::new(capacity.len());
        flows.iter().for_each(|flow| bounds.add(flow.bytes, &flow.path));
        let bounds = bounds.end(&capacity);
        prop_assert!(bounds.least_us <= end * (1.0 + 1e-9) && end <= bounds.most_us * (1.0 + 1e-9), "{:?} {}", bounds, end);
    }

    /// Times are those of bytes twice as many, twice as long, where all start at once.
    #[test]
    fn time_is_linear_in_bytes((capacity, mut flows) in networks()) {
        flows.iter_mut().for_each(|flow| flow.start_us = 0.0);
        let once = simulate(&capacity, &flows, 0.0).end_us();
        flows.iter_mut().for_each(|flow| flow.bytes *= 2.0);
        let twice = simulate(&capacity, &flows, 0.0).end_us();
        prop_assert!((twice / once - 2.0).abs() < 1e-9);
    }
}
