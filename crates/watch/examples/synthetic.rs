//! Made-up jobs of 1,024 ranks (TP8 x PP8 x DP16) with one straggler each: how often it is named, and who else is.
//! `cargo run --release -p busbw-watch --example synthetic [SEEDS]` prints what bench/results/watch_synthetic.txt holds.

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use busbw_stats::Random;
use busbw_watch::{Job, View};
use synthetic::{Fault, Shape, job};

const SHAPE: Shape = Shape { tp: 8, pp: 8, dp: 16, steps: 30 };

fn main() {
    let seeds: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(50);
    let (mut right, mut victims, mut accused_in_health) = (0, 0, 0);
    println!(
        "# TP8 x PP8 x DP16, 30 steps, clocks up to 1 s and 40 ppm apart; one straggler a seed"
    );
    println!("# seed  straggler  fault  named (ranks)  seconds to look");
    for seed in 0..seeds {
        let mut rng = Random::new(seed + 1_000);
        let straggler = rng.below(1_024);
        let fault = match seed % 4 {
            0 => Fault::Compute(1.3 + 0.7 * rng.uniform()),
            1 => Fault::Host(10_000_000 + (5e6 * rng.uniform()) as u64),
            2 => Fault::Core(10_000_000 + (5e6 * rng.uniform()) as u64),
            _ => Fault::Stopped,
        };
        let (named, seconds) = look(seed, straggler, fault);
        right += usize::from(named == [straggler]);
        victims += named.iter().filter(|rank| **rank != straggler).count();
        println!("{seed} {straggler} {fault:?} {named:?} {seconds:.3}");
    }
    let healthy = seeds.min(20);
    for seed in 0..healthy {
        let (named, _) = look(seed + 500, 0, Fault::None);
        accused_in_health += usize::from(!named.is_empty());
    }
    println!("# the straggler alone: {right} of {seeds}; others named: {victims}");
    println!("# healthy jobs in which somebody is named: {accused_in_health} of {healthy}");
}

/// The ranks that are named, and the time that it took to look, s.
fn look(seed: u64, straggler: usize, fault: Fault) -> (Vec<usize>, f64) {
    let files = job(SHAPE, seed, straggler, fault);
    let begun = std::time::Instant::now();
    let jobs = Job::of(files);
    assert_eq!(jobs.len(), 1, "the files are of one job");
    let view = View::of(&jobs[0]);
    let seconds = begun.elapsed().as_secs_f64();
    let peers = view.stragglers.iter().map(|one| one.peer);
    let peers = peers.chain(view.interruptions.iter().map(|one| one.peer));
    let mut named: Vec<usize> =
        peers.map(|peer| jobs[0].peers[peer].process.pid as usize - 1_000).collect();
    named.sort_unstable();
    named.dedup();
    (named, seconds)
}
