//! Simulated machines, healthy and with planted faults: who is named, and how often rightly.
//! Not the rules by themselves, which are tested beside them. docs/pairs.md has the rates, which
//! `cargo test --release -p busbw-core --test pairs -- --ignored --nocapture` prints.

#![allow(clippy::unwrap_used)]

mod pairs {
    pub mod machine;
    pub mod noise;
}

use busbw_core::pairs::{
    Unit,
    assessment::{Mover, PairsAssessment, Rule},
    judge::{confirm, judge},
    retest::{FIRST_PASSES, PASSES, plan},
    subject::Subject,
};
use pairs::{
    machine::Machine,
    noise::{Noise, generator},
};

/// Hosts, and ranks of each.
const MACHINES: [(usize, usize); 6] = [(4, 1), (8, 1), (16, 1), (1, 8), (2, 8), (4, 8)];

const UNITS: [Unit; 2] = [Unit::GigabytesPerSecond, Unit::Microseconds];

/// A fault for a seed.
type Draw = fn(hosts: usize, local: usize, seed: u64) -> Subject;

const FAULTS: [(&str, Draw); 9] = [
    ("cell", |h, l, s| Subject::Cell { from: two(h * l, s)[0], to: two(h * l, s)[1] }),
    ("link", |h, l, s| Subject::Link { between: sorted(two(h * l, s)) }),
    ("sender", |h, l, s| Subject::Sender { rank: two(h * l, s)[0] }),
    ("receiver", |h, l, s| Subject::Receiver { rank: two(h * l, s)[0] }),
    ("rank", |h, l, s| Subject::Rank { rank: two(h * l, s)[0] }),
    // From here on of hosts.
    ("host sends", |h, _, s| Subject::HostSends { host: two(h, s)[0] }),
    ("host receives", |h, _, s| Subject::HostReceives { host: two(h, s)[0] }),
    ("path", |h, _, s| Subject::Path { from: two(h, s)[0], to: two(h, s)[1] }),
    ("host", |h, _, s| Subject::Host { host: two(h, s)[0] }),
];

/// Two different numbers below `n`.
fn two(n: usize, seed: u64) -> [usize; 2] {
    let first = seed as usize * 7 % n;
    [first, (first + 1 + seed as usize * 5 % (n - 1)) % n]
}

fn sorted([a, b]: [usize; 2]) -> [usize; 2] {
    [a.min(b), a.max(b)]
}

/// Those of [`FAULTS`] that can be told on such a machine. Of two hosts, one that is slow in all it
/// does slows every pair between them.
fn tellable(hosts: usize, local: usize) -> &'static [(&'static str, Draw)] {
    match (hosts, local) {
        (1, _) | (_, 1) => &FAULTS[..5],
        (2, _) => &FAULTS[..8],
        _ => &FAULTS,
    }
}

/// A first look, and what is left of it after a retest.
fn look(machine: &Machine, passes: [usize; 2], seed: u64) -> [PairsAssessment; 2] {
    let mut rng = generator(seed);
    let (schedule, hosts) = (machine.schedule(), &machine.hosts);
    let first = judge(
        &machine.measure(&schedule, passes[0], &mut rng),
        &Rule::liberal(machine.unit, Mover::Devices),
    );
    let class = |a: usize, b: usize| Some(usize::from(hosts[a] != hosts[b]));
    let Some(retest) = plan(&first, &schedule, class) else { return [first.clone(), first] };
    assert!(retest.schedule.is_sound(hosts.len()));
    let again = machine.measure(&retest.schedule, passes[1], &mut rng);
    let last = confirm(&first, &again, &Rule::strict(machine.unit, Mover::Devices));
    [first, last]
}

const USUAL: [usize; 2] = [FIRST_PASSES, PASSES];

/// How many of `seeds` healthy machines have suspects, and named subjects.
fn healthy(machine: &Machine, passes: [usize; 2], seeds: u64) -> [usize; 2] {
    let mut count = [0, 0];
    for seed in 0..seeds {
        let verdicts = look(&Machine { seed, ..machine.clone() }, passes, seed);
        for (count, verdict) in count.iter_mut().zip(verdicts) {
            *count += usize::from(!verdict.slow.is_empty());
        }
    }
    count
}

/// How many of 50 machines have all faults named and nobody else, and how many somebody else.
fn found(
    machine: &Machine,
    passes: [usize; 2],
    draw: impl Fn(u64) -> Vec<Subject>,
) -> (usize, usize) {
    let (mut right, mut wrong) = (0, 0);
    for seed in 0..50 {
        let faults = draw(seed);
        let machine = Machine { faults: faults.clone(), seed, ..machine.clone() };
        let [_, last] = look(&machine, passes, 1000 + seed);
        let named = |fault: &Subject| {
            last.slow.iter().any(|f| f.subject == *fault || f.alternatives.contains(fault))
        };
        let of_fault = |subject: &Subject| faults.contains(subject);
        let innocent = (last.slow.iter())
            .any(|f| !of_fault(&f.subject) && !f.alternatives.iter().any(of_fault));
        wrong += usize::from(innocent);
        right += usize::from(!innocent && faults.iter().all(named));
    }
    (right, wrong)
}

/// All noises on a machine, the units in turns.
fn cases(hosts: usize, local: usize) -> impl Iterator<Item = (Machine, String)> {
    Noise::ALL.into_iter().enumerate().map(move |(number, noise)| {
        let unit = UNITS[(number + hosts + local) % 2];
        let name = format!("{hosts}x{local} {noise:?} {}", unit.name());
        (Machine::new(unit, noise, hosts, local), name)
    })
}

#[test]
fn healthy_machines_are_not_accused() {
    for (hosts, local) in MACHINES {
        for (machine, name) in cases(hosts, local) {
            let seeds = if hosts * local > 16 { 100 } else { 500 };
            let [_, accused] = healthy(&machine, USUAL, seeds);
            assert!(accused as u64 * 50 <= seeds, "{name}: {accused} of {seeds}");
        }
    }
}

fn faults_are_found(hosts: usize, local: usize) {
    for (machine, name) in cases(hosts, local) {
        for (fault, draw) in tellable(hosts, local) {
            let (right, wrong) = found(&machine, USUAL, |seed| vec![draw(hosts, local, seed)]);
            assert!(right >= 48, "{name}, {fault}: {right} of 50, {wrong} wrong");
        }
    }
}

#[test]
fn faults_of_few_ranks_are_found() {
    faults_are_found(4, 1);
    faults_are_found(1, 8);
    faults_are_found(16, 1);
}

#[test]
fn faults_of_two_hosts_are_found() {
    faults_are_found(2, 8);
}

#[test]
fn faults_of_four_hosts_are_found() {
    faults_are_found(4, 8);
}

/// Two faults of any kinds at different ranks, or hosts.
fn pair_of_faults(hosts: usize, local: usize, seed: u64) -> Vec<Subject> {
    let kinds = tellable(hosts, local);
    let draw = |kind: u64, seed: u64| kinds[kind as usize % kinds.len()].1(hosts, local, seed);
    let ranks: Vec<usize> = (0..hosts * local).map(|rank| rank / local).collect();
    let first = draw(seed, seed);
    let apart = |other: &Subject| {
        let of_first = first.ranks(&ranks);
        !other.ranks(&ranks).iter().any(|rank| of_first.contains(rank))
    };
    let second = (seed + 1..seed + 200).map(|next| draw(seed / 3 + seed, next)).find(apart);
    [first].into_iter().chain(second).collect()
}

#[test]
fn of_two_faults_nobody_else_is_accused() {
    for (hosts, local) in [(8, 1), (1, 8), (2, 8), (4, 8)] {
        for (machine, name) in cases(hosts, local) {
            let (right, wrong) = found(&machine, USUAL, |s| pair_of_faults(hosts, local, s));
            assert!(wrong <= 2 && right >= 40, "{name}: {right} of 50 right, {wrong} wrong");
        }
    }
}

#[test]
#[ignore = "minutes; prints the rates of docs/pairs.md"]
fn rates() {
    for (hosts, local) in MACHINES {
        for noise in Noise::ALL {
            let machine = Machine::new(Unit::GigabytesPerSecond, noise, hosts, local);
            let [suspected, accused] = healthy(&machine, USUAL, 500);
            print!("{hosts}x{local} {noise:?}: {suspected} suspected, {accused} accused;");
            for (fault, draw) in tellable(hosts, local) {
                let (right, _) = found(&machine, USUAL, |seed| vec![draw(hosts, local, seed)]);
                print!(" {fault} {right}");
            }
            let (right, wrong) = found(&machine, USUAL, |s| pair_of_faults(hosts, local, s));
            println!("; two {right}, {wrong} wrong");
        }
    }
}

#[test]
#[ignore = "minutes; prints the rates of docs/pairs.md"]
fn rates_by_passes() {
    for passes in [[1, 1], [1, 3], [3, 5], [5, 7], [7, 9], [11, 15]] {
        for (hosts, local) in [(4, 1), (1, 8), (2, 8)] {
            for noise in Noise::ALL {
                let machine = Machine::new(Unit::GigabytesPerSecond, noise, hosts, local);
                let [suspected, accused] = healthy(&machine, passes, 500);
                print!(
                    "{passes:?} {hosts}x{local} {noise:?}: {suspected} suspected, {accused} accused;"
                );
                for (fault, draw) in tellable(hosts, local) {
                    let (right, _) = found(&machine, passes, |seed| vec![draw(hosts, local, seed)]);
                    print!(" {fault} {right}");
                }
                println!();
            }
        }
    }
}
