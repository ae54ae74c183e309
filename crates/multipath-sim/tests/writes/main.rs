//! Unreliable paths that write to the receiver's memory (UC queue pairs), in virtual time: every message arrives, each chunk is
//! written once, and none after its message is complete, whatever is lost; and what of the links is used.
//! Not paths that reorder (`datagrams`), nor reliable ones.
#![allow(clippy::unwrap_used, reason = "tests")]

mod world;

use std::time::Duration;

use busbw_multipath_sim::{Change, Random};
use world::World;

/// Mb/s over these links (Mb/s, loss) with 8 open messages of 1 MiB.
fn goodput(links: &[(u64, f64)]) -> f64 {
    let rates: Vec<u64> = links.iter().map(|(rate, _)| *rate).collect();
    let mut world = World::new(7, &rates, vec![1 << 20; 300]);
    for (path, (_, loss)) in links.iter().enumerate() {
        let link = world.link(path);
        world.simulation.change(link, Change::Loss(*loss));
    }
    let began = world.simulation.now();
    world.run(began + Duration::from_secs(100));
    assert_eq!((world.sent, world.received), (300, 300));
    300.0 * f64::from(8 << 20) / world.simulation.now().since(began).as_secs_f64() / 1e6
}

#[test]
fn paths_fill_their_links_with_and_without_loss() {
    for (loss, least) in [(0.0, 0.9), (0.001, 0.88), (0.01, 0.8)] {
        let share = goodput(&[(1000, loss); 4]) / 4000.0;
        println!("4 links, loss {loss}: {share:.3} of them");
        assert!(share >= least, "loss {loss}: {share}");
    }
    let share = goodput(&[(1000, 0.0), (1000, 0.0), (1000, 0.0), (250, 0.0)]) / 3250.0;
    println!("4 links, one at a quarter: {share:.3} of them");
    assert!(share >= 0.85, "{share}");
}

#[test]
fn every_chunk_is_written_once_and_none_late_whatever_is_lost() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(300);
    let (mut given_up, mut requeued) = (0, 0);
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let paths = random.within(1..7) as usize;
        let rates: Vec<u64> = (0..paths).map(|_| random.within(50..2000)).collect();
        let messages = (0..random.within(1..80)).map(|_| {
            let most = *random.one(&[1, 9000, 200_000, 3 << 20]);
            random.below(most) as usize
        });
        let mut world = World::new(seed, &rates, messages.collect());
        let all = world.run_through_faults(&mut random, paths);
        assert_eq!(world.sent, all, "seed {seed}");
        assert_eq!(world.received, all, "seed {seed}");
        given_up += world.given_up;
        requeued += world.requeued;
    }
    println!("{seeds} seeds: {given_up} paths given up, {requeued} chunks sent again");
    assert!(given_up > 0 && requeued > 0);
}

impl World {
    /// Links lose, and go dead, until a time; all messages arrive soon after. How many there are.
    fn run_through_faults(&mut self, random: &mut Random, paths: usize) -> usize {
        let step = Duration::from_millis(random.within(1..200));
        for _ in 0..random.within(1..12) {
            let path = random.below(paths as u64) as usize;
            let link = self.link(path);
            match random.below(3) {
                0 => {
                    let loss = *random.one(&[0.0, 0.01, 0.3, 0.9]);
                    self.simulation.change(link, Change::Loss(loss));
                }
                kind => {
                    self.simulation.change(link, Change::Blackhole(kind == 1));
                    self.dead(path, kind == 1);
                }
            }
            self.run(self.simulation.now() + step);
        }
        for path in 0..paths {
            let link = self.link(path);
            let loss = *random.one(&[0.0, 0.02]);
            self.simulation.change(link, Change::Loss(loss));
            self.simulation.change(link, Change::Blackhole(false));
            self.dead(path, false);
        }
        self.run(self.simulation.now() + Duration::from_secs(60));
        self.messages()
    }
}
