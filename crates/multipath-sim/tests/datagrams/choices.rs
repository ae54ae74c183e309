//! Which path takes the next chunk: the earliest of all, as the transport chooses, against the better of two drawn ones.
//! Not one choice alone (`main`).

use std::time::Duration;

use busbw_multipath_sim::{Change, LinkId, Random};

use crate::world::{Choice, World};

/// What UCCL does against what the transport does, over eight links of 10 Gb/s on which hashes put the paths, as
/// ECMP does; and in an incast behind these. With --nocapture: goodput in Gb/s, and the 99th percentile of the time of
/// a message, medians of BUSBW_SIM_SEEDS seeds (1).
#[test]
fn the_earliest_of_16_paths_against_two_drawn_of_many() {
    let seeds = std::env::var("BUSBW_SIM_SEEDS").map_or(1, |seeds| seeds.parse().unwrap());
    println!("| case | choice | paths | Gb/s | message, p99 us |\n|---|---|---|---|---|");
    // Its name, senders, and the least goodput: of 80, of which hashes leave some links to few paths and a dead link takes 10;
    // of 10 behind an incast.
    for (case, senders, least) in [
        ("hashes collide", 1, 55.0),
        ("one link is dead", 1, 55.0),
        ("four senders", 4, 55.0),
        ("incast", 16, 8.5),
    ] {
        for choice in [Choice::Earliest, Choice::PowerOfTwo] {
            for paths in [16, 64, 256] {
                // More take minutes, which are by hand; in an incast they are more than one link bears at the least window.
                if paths * senders > 256 && (seeds == 1 || case == "incast") {
                    continue;
                }
                let run = |seed| measured(case, choice, paths, senders, seed);
                let (mut rates, mut late): (Vec<f64>, Vec<_>) = (0..seeds).map(run).unzip();
                rates.sort_by(f64::total_cmp);
                late.sort();
                let (rate, late) = (rates[rates.len() / 2], late[late.len() / 2].as_micros());
                println!("| {case} | {choice:?} | {paths} | {rate:.1} | {late} |");
                assert!(rate > least, "{case}, {choice:?} of {paths}: {rate}");
            }
        }
    }
}

/// Gb/s, and the 99th percentile of the time of a message.
fn measured(
    case: &str,
    choice: Choice,
    paths: usize,
    senders: usize,
    seed: u64,
) -> (f64, Duration) {
    let mut world = World::new(seed);
    world.choice = choice;
    let links: Vec<LinkId> = (0..8).map(|_| world.link(10_000, 1 << 20)).collect();
    let is_incast = case == "incast";
    let last = is_incast.then(|| world.link(10_000, 1 << 20));
    let mut hash = Random::new(seed);
    for sender in 0..senders {
        let taken: Vec<LinkId> = (0..paths).map(|_| *hash.one(&links)).collect();
        world.connect(&taken, last, if is_incast { 0 } else { sender });
    }
    world.run(Duration::from_millis(20));
    if case == "one link is dead" {
        world.simulation.change(links[0], Change::Blackhole(true));
        world.run(Duration::from_millis(20));
    }
    // 16 messages at once over one link take a while.
    let time = Duration::from_millis(if is_incast { 200 } else { 30 });
    let rate = world.run(time).iter().sum::<f64>() / 1e3;
    world.times.sort();
    assert!(!world.times.is_empty(), "{case}, {choice:?} of {paths}: no message");
    (rate, world.times[world.times.len() * 99 / 100])
}
