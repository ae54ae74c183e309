//! Which path takes the next chunk: the earliest of all, as the transport chooses, against the better of two drawn ones.
//! Not one choice alone (`main`).

use std::time::Duration;

use busbw_multipath_sim::{Change, LinkId, Random};

use crate::world::{Choice, World};

/// What UCCL does against what the transport does, over eight links of 10 Gb/s on which hashes put the paths, as
/// ECMP does. With
/// --nocapture: goodput in Gb/s, and the 99th percentile of the time of a message, medians of BUSBW_SIM_SEEDS seeds (1).
#[test]
fn the_earliest_of_16_paths_against_two_drawn_of_many() {
    let seeds = std::env::var("BUSBW_SIM_SEEDS").map_or(1, |seeds| seeds.parse().unwrap());
    println!("| case | choice | paths | Gb/s | message, p99 us |\n|---|---|---|---|---|");
    for (case, dead, senders) in
        [("collisions", 0, 1), ("a dead link", 1, 1), ("four senders", 0, 4)]
    {
        let mut all = Vec::new();
        for (choice, paths) in [
            (Choice::Earliest, 16),
            (Choice::Earliest, 64),
            (Choice::Earliest, 256),
            (Choice::PowerOfTwo, 16),
            (Choice::PowerOfTwo, 64),
            (Choice::PowerOfTwo, 256),
        ] {
            // They take a minute: by hand.
            if paths > 64 && case != "collisions" && seeds == 1 {
                continue;
            }
            let (mut rates, mut late) = (Vec::new(), Vec::new());
            for seed in 0..seeds {
                let mut world = World::new(seed);
                world.choice = choice;
                let links: Vec<LinkId> = (0..8).map(|_| world.link(10_000, 1 << 20)).collect();
                let mut hash = Random::new(seed);
                for sender in 0..senders {
                    let taken: Vec<LinkId> = (0..paths).map(|_| *hash.one(&links)).collect();
                    world.connect(&taken, None, sender);
                }
                world.run(Duration::from_millis(20));
                if dead > 0 {
                    world.simulation.change(links[0], Change::Blackhole(true));
                    world.run(Duration::from_millis(20));
                }
                rates.push(world.run(Duration::from_millis(30)).iter().sum::<f64>() / 1e3);
                world.times.sort();
                late.extend(world.times.get(world.times.len() * 99 / 100).copied());
            }
            rates.sort_by(f64::total_cmp);
            late.sort();
            assert_eq!(late.len() as u64, seeds, "{case}, {choice:?} of {paths}: no message");
            let (rate, late) = (rates[rates.len() / 2], late[late.len() / 2].as_micros());
            println!("| {case} | {choice:?} | {paths} | {rate:.1} | {late} |");
            all.push(rate);
        }
        // Of 80, of which a dead link takes 10; hashes leave some links to few paths.
        assert!(all.iter().all(|rate| *rate > 55.0), "{case}: {all:?}");
    }
}
