//! Simulated machines, healthy and with planted faults: who is accused, and how often rightly.
//! Not the rules by themselves, which are tested beside them. docs/pairs.md has the rates.

mod pairs {
    pub mod machine;
    pub mod noise;
}

use model::pairs::{
    Unit,
    figures::Figures,
    judge::{confirm, judge},
    retest::{FIRST_PASSES, plan},
    subject::Subject,
    verdict::{Rule, Verdict},
};
use pairs::{
    machine::{Fault, Machine},
    noise::{Noise, Rng},
};

/// Hosts, and ranks of each.
const MACHINES: [(usize, usize); 6] = [(4, 1), (8, 1), (16, 1), (1, 8), (2, 8), (4, 8)];

fn verdict(machine: &Machine, rng: &mut Rng) -> (Verdict, Verdict) {
    let schedule = machine.schedule();
    let figures = machine.measure(&schedule, FIRST_PASSES, rng);
    let first = judge(&figures, &Rule::LIBERAL);
    let hosts = &machine.hosts;
    let class = |a: usize, b: usize| Some(usize::from(hosts[a] != hosts[b]));
    let Some(retest) = plan(&first, &schedule, class) else { return (first.clone(), first) };
    assert!(retest.schedule.is_sound(hosts.len()));
    let again: Figures = machine.measure(&retest.schedule, retest.passes, rng);
    let second = confirm(&first, &again, &Rule::STRICT);
    (first, second)
}

/// How often of `seeds` healthy machines somebody is suspected, and accused.
fn healthy(machine: &Machine, seeds: u64) -> (usize, usize) {
    let (mut suspected, mut accused) = (0, 0);
    for seed in 0..seeds {
        let machine = Machine { seed, ..machine.clone() };
        let (first, last) = verdict(&machine, &mut Rng::new(seed));
        suspected += usize::from(!first.findings.is_empty());
        accused += usize::from(!last.findings.is_empty());
    }
    (suspected, accused)
}

#[test]
fn healthy_machines_are_not_accused() {
    for (unit, noise) in both_units() {
        for (hosts, local) in MACHINES {
            let machine = Machine::new(unit, noise, hosts, local);
            let (suspected, accused) = healthy(&machine, 500);
            println!("{unit:?} {noise:?} {hosts}x{local}: suspected {suspected} accused {accused}");
            assert!(accused <= 10, "{unit:?} {noise:?} {hosts}x{local}: {accused} of 500");
        }
    }
}

fn both_units() -> impl Iterator<Item = (Unit, Noise)> {
    let units = [Unit::GigabytesPerSecond, Unit::Microseconds];
    units.into_iter().flat_map(|unit| Noise::ALL.map(|noise| (unit, noise)))
}

/// How often of 50 the faults, and nothing else, are named; and how often anybody else is.
fn found(machine: &Machine, draw: impl Fn(u64) -> Vec<Fault>) -> (usize, usize) {
    let (mut right, mut wrong) = (0, 0);
    for seed in 0..50 {
        let machine = Machine { faults: draw(seed), seed, ..machine.clone() };
        let (first, last) = verdict(&machine, &mut Rng::new(1000 + seed));
        let truth: Vec<Subject> = machine.faults.iter().map(|fault| fault.subject).collect();
        let named = |subject: &Subject| {
            last.findings.iter().any(|f| f.subject == *subject || f.alternatives.contains(subject))
        };
        let innocent = last.findings.iter().any(|finding| {
            !truth.contains(&finding.subject)
                && !finding.alternatives.iter().any(|other| truth.contains(other))
        });
        wrong += usize::from(innocent);
        right += usize::from(truth.iter().all(named) && !innocent);
        if (innocent || !truth.iter().all(named)) && std::env::var_os("SHOW").is_some() {
            println!("{seed} {truth:?}\n first {:?}\n last {:?}", first.findings, last.findings);
        }
    }
    (right, wrong)
}

/// Two different numbers below `n`.
fn two(n: usize, seed: u64) -> [usize; 2] {
    let first = seed as usize * 7 % n;
    [first, (first + 1 + seed as usize * 5 % (n - 1)) % n]
}

fn subjects(hosts: usize, local: usize, seed: u64) -> Vec<Subject> {
    let n = hosts * local;
    let [a, b] = two(n, seed);
    let mut all = vec![
        Subject::Cell { from: a, to: b },
        Subject::Link { between: [a.min(b), a.max(b)] },
        Subject::Sender { rank: a },
        Subject::Receiver { rank: a },
        Subject::Rank { rank: a },
    ];
    if hosts > 1 && local > 1 {
        let [a, b] = two(hosts, seed);
        all.extend([
            Subject::HostSends { host: a },
            Subject::HostReceives { host: a },
            Subject::Path { from: a, to: b },
        ]);
        if hosts > 2 {
            all.push(Subject::Host { host: a });
        }
    }
    all
}

#[test]
fn planted_faults_are_found() {
    for (unit, noise) in both_units() {
        for (hosts, local) in MACHINES {
            let machine = Machine::new(unit, noise, hosts, local);
            for kind in 0..subjects(hosts, local, 0).len() {
                if let Ok(only) = std::env::var("SHOW") && !format!("{unit:?} {noise:?} {hosts}x{local}").contains(&only) { continue; }
                let name = format!("{unit:?} {noise:?} {hosts}x{local} {:?}", subjects(hosts, local, 0)[kind]);
                let (right, wrong) =
                    found(&machine, |seed| vec![Fault::on(subjects(hosts, local, seed)[kind])]);
                println!("{name}: right {right} wrong {wrong}");
                if std::env::var_os("SHOW").is_none() { assert!(right >= 48, "{name}: {right} of 50, wrong {wrong}"); }
            }
        }
    }
}
