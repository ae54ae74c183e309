//! Classes against single links, by trunks and by every link and pair, and sums against simulations: times are the same.
//! Not closed forms (`closed_forms`).

use busbw_core::Collective;
use proptest::prelude::*;

use super::groups::{self, Group, Placement};
use super::job::Job;
use super::wave::{self, Place, Wave, Way};
use crate::fabric::{Balance, Built, Fabric, Failure, Shape, file};
use crate::flows::{Bounds, classes, simulate};

/// A small fabric of hosts with four GPUs and NICs.
pub(super) fn small(hosts: usize, rails: usize, planes: usize, tiers: usize, ratio: f64) -> Fabric {
    let rate = 400.0 / planes as f64;
    let above = format!("[[tiers]]\nports = 24\nrate = {rate}\n").repeat(tiers - 1);
    let text = format!(
        "machine = \"dgx-h100\"\nhosts = {hosts}\nrails = {rails}\nplanes = {planes}\n\
         [[tiers]]\nports = 12\nrate = {rate}\n{}{above}",
        if tiers > 1 { format!("oversubscription = {ratio}\n") } else { String::new() }
    );
    let machine = |name: &str| {
        let mut machine = file::ready_machine(name)?;
        machine.node.gpus = 4;
        machine.node.nics[0].count = 4;
        machine.node.nvlink.iter_mut().for_each(|nvlink| nvlink.domain = 4);
        Ok(machine)
    };
    file::parse(&text, &machine).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The arrival of the last byte, by some balance, simulated in classes or flow by flow.
fn end(
    fabric: &Fabric,
    failures: &[Failure],
    balance: Balance,
    (collective, way): (Collective, Way),
    groups: &[Group],
    merged: bool,
) -> f64 {
    let shape = Shape::of(fabric).expect("built");
    let built = Built::new(fabric, &shape, failures, balance, 450.0).expect("its own failures");
    let place = Place::new(&built, balance, &shape, fabric.gpus_per_island(), groups);
    let Some(flows) = wave::flows(&place, collective, way, groups, 1e9) else {
        return f64::INFINITY;
    };
    match merged {
        true => classes(&built.capacity, &flows).simulate(0.0).end_us(),
        false => simulate(&built.capacity, &flows, 0.0).end_us(),
    }
}

/// Holds a wave, mostly added up, against the simulation of its flows one by one.
fn held(
    fabric: &Fabric,
    failures: &[Failure],
    balance: Balance,
    way: (Collective, Way),
    groups: &[Group],
) {
    let single = end(fabric, failures, balance, way, groups, false);
    let shape = Shape::of(fabric).expect("built");
    let built = Built::new(fabric, &shape, failures, balance, 450.0).expect("its own failures");
    let place = Place::new(&built, balance, &shape, fabric.gpus_per_island(), groups);
    let wave = Wave::of(&place, way.0, way.1, groups);
    let whole = wave.us_per_byte * 1e9;
    let same = whole == single || (whole / single - 1.0).abs() < 1e-9;
    assert!(same, "{way:?} {balance:?}: {whole}, flow by flow {single}");
    assert!(wave.most_us_per_byte <= wave.us_per_byte * (1.0 + 1e-9) || single.is_infinite());
}

const WAYS: [(Collective, Way); 7] = [
    (Collective::AllReduce, Way::Ring),
    (Collective::Broadcast, Way::Ring),
    (Collective::AllReduce, Way::Tree),
    (Collective::AllReduce, Way::NvlsTree),
    (Collective::AllGather, Way::Pat),
    (Collective::AllToAll, Way::Direct),
    (Collective::SendRecv, Way::Direct),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any number of ranks, so that hosts are filled unevenly, any way of balancing, and failures.
    #[test]
    fn what_is_added_up_is_what_is_simulated(
        hosts in 5usize..13, rails in prop::sample::select(vec![1usize, 2, 4]), planes in 1usize..3,
        tiers in 2usize..4, ratio in prop::sample::select(vec![1.0, 2.0, 5.0]), gpus in 2usize..18,
        seed in 0u64..1000, placed in 0usize..3, job in 0usize..4, which in 0usize..2 * WAYS.len(), balance in 0usize..3,
        failure in prop::sample::select(vec!["", "link:leaf", "link:leaf*3", "switch:spine", "link:leaf@0.5", "link:host@0.25"]),
    ) {
        let fabric = small(hosts, rails, planes, tiers, ratio);
        let shape = Shape::of(&fabric).expect("built");
        let failures: Vec<Failure> = match failure {
            "" => Vec::new(),
            failure => vec![format!("{failure}~{seed}").parse().expect("a failure")],
        };
        let balance = [Balance::Trunks, Balance::Spray, Balance::Ecmp { seed, connections: 2 }][balance];
        let placement = [Placement::Packed, Placement::Scattered(seed), Placement::ByRail][placed];
        let size = [gpus, 3, 6, 5][job].min(gpus);
        let job: Job = format!("ep{size}").parse().expect("a job");
        let gpus = gpus / size * size;
        let job = job.fill(gpus).expect("divides");
        let groups = groups::place(&fabric, &shape.lanes, placement, gpus, &job.groups(0, gpus));
        // Half of all are alltoall.
        let way = WAYS.get(which).copied().unwrap_or((Collective::AllToAll, Way::Direct));
        held(&fabric, &failures, balance, way, &groups);
    }
}

/// More hosts, whose bounds differ: a last host with half of its GPUs, and one with one GPU less on many.
#[test]
fn unevenly_filled_hosts_are_simulated_where_bounds_differ() {
    let fabric = small(24, 1, 1, 2, 2.0);
    let shape = Shape::of(&fabric).expect("built");
    let all = (Collective::AllToAll, Way::Direct);
    let mut apart = 0;
    for (placement, gpus) in
        [(Placement::Packed, 94), (Placement::ByRail, 84), (Placement::Scattered(2), 61)]
    {
        let groups = groups::place(&fabric, &shape.lanes, placement, gpus, &[(0..gpus).collect()]);
        for seed in 0..6 {
            let balance = Balance::Ecmp { seed, connections: 2 };
            held(&fabric, &[], balance, all, &groups);
            let built = Built::new(&fabric, &shape, &[], balance, 450.0).expect("whole");
            let place = Place::new(&built, balance, &shape, 4, &groups);
            let flows = wave::flows(&place, all.0, all.1, &groups, 1e9).expect("whole");
            let mut bounds = Bounds::new(built.capacity.len());
            flows.iter().for_each(|flow| bounds.add(flow.bytes, &flow.path));
            let (bounds, end) =
                (bounds.end(&built.capacity), simulate(&built.capacity, &flows, 0.0).end_us());
            assert!(
                bounds.least_us <= end * (1.0 + 1e-9) && end <= bounds.most_us * (1.0 + 1e-9),
                "{bounds:?} {end}"
            );
            apart += usize::from(!bounds.is_within(1e-3));
        }
    }
    assert!(apart > 3, "{apart} of 18 cases: too few were simulated at all");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Any small whole fabric, any job on it, any placement.
    #[test]
    fn classes_are_what_single_links_are(
        hosts in 2usize..13, rails in prop::sample::select(vec![1usize, 2, 4]), planes in 1usize..3,
        tiers in 2usize..4, ratio in prop::sample::select(vec![1.0, 2.0, 5.0]),
        seed in 0u64..1000, placed in 0usize..3, job in 0usize..5, which in 0usize..WAYS.len(),
    ) {
        let fabric = small(hosts, rails, planes, tiers, ratio);
        let shape = Shape::of(&fabric).expect("built");
        let gpus = fabric.gpus();
        let job: Job = ["dp", "tp2,dp", "tp4,dp", "ep2", "tp2,pp2,dp"][job].parse().expect("a job");
        let job = job.fill(gpus).expect("divides");
        let placement = [Placement::Packed, Placement::Scattered(seed), Placement::ByRail][placed];
        for at in 0..job.dimensions.len() {
            let groups = groups::place(&fabric, &shape.lanes, placement, gpus, &job.groups(at, gpus));
            let by = |balance, merged| end(&fabric, &[], balance, WAYS[which], &groups, merged);
            let single = by(Balance::Spray, false);
            prop_assert!(single.is_finite());
            for other in [by(Balance::Trunks, true), by(Balance::Trunks, false), by(Balance::Spray, true)] {
                prop_assert!((other / single - 1.0).abs() < 1e-6 || single == 0.0, "{} {}", other, single);
            }
        }
    }

    /// With links and switches lost, trunks are ideal routing: never slower than even spraying over what is left, and with a
    /// plane lost the same.
    #[test]
    fn failures_cost_no_less_on_single_links(
        hosts in 2usize..13, tiers in 2usize..4, seed in 0u64..1000, which in 0usize..WAYS.len(),
        failure in prop::sample::select(vec!["link:leaf", "link:leaf*2", "switch:spine", "link:leaf@0.5", "plane", "link:host@0.25"]),
    ) {
        let fabric = small(hosts, 1, 2, tiers, 1.0);
        let shape = Shape::of(&fabric).expect("built");
        let gpus = fabric.gpus();
        let failure: Failure = format!("{failure}~{seed}").parse().expect("a failure");
        let all = [(0..gpus).collect::<Vec<_>>()];
        let groups = groups::place(&fabric, &shape.lanes, Placement::Packed, gpus, &all);
        let by = |failures: &[Failure], balance| end(&fabric, failures, balance, WAYS[which], &groups, true);
        let whole = by(&[], Balance::Trunks);
        let (trunks, single) = (by(std::slice::from_ref(&failure), Balance::Trunks), by(std::slice::from_ref(&failure), Balance::Spray));
        prop_assert!(trunks >= whole * (1.0 - 1e-9));
        prop_assert!(single >= trunks * (1.0 - 1e-6), "{} {}", single, trunks);
        if failure.to_string().starts_with("plane") {
            prop_assert!((single / trunks - 1.0).abs() < 1e-6, "{} {}", single, trunks);
        }
        let hashed = by(std::slice::from_ref(&failure), Balance::Ecmp { seed, connections: 2 });
        prop_assert!(hashed >= trunks * (1.0 - 1e-6), "{} {}", hashed, trunks);
    }
}
