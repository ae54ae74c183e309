//! Connections over unreliable paths, as queue pairs (UC) and datagrams are: goodput, fairness, loss and dead
//! links, in virtual time.
//! Not TCP paths (`netlab`, `paths`, `properties`).
#![allow(clippy::unwrap_used, reason = "tests")]

mod choices;
mod world;

use std::time::Duration;

use busbw_multipath_sim::{Change, LinkId};
use world::World;

/// Mb/s of one connection over these links (Mb/s, loss), each of which its paths take in turn.
fn goodput(links: &[(u64, f64)], paths: &[usize], time: Duration) -> f64 {
    let mut world = World::new(7);
    let ids: Vec<LinkId> = links.iter().map(|(rate, _)| world.link(*rate, 256 << 10)).collect();
    for (id, (_, loss)) in ids.iter().zip(links) {
        world.simulation.change(*id, Change::Loss(*loss));
    }
    let taken: Vec<LinkId> = paths.iter().map(|path| ids[*path]).collect();
    world.connect(&taken, None, 0);
    world.run(Duration::from_millis(200));
    world.run(time)[0]
}

#[test]
fn one_path_fills_its_link_with_and_without_loss() {
    for (loss, least) in [(0.0, 0.93), (0.001, 0.9), (0.01, 0.85)] {
        let share = goodput(&[(1000, loss)], &[0], Duration::from_secs(1)) / 1000.0;
        println!("loss {loss}: {share:.3} of the link");
        assert!(share >= least, "loss {loss}: {share}");
    }
}

/// 16 paths over 13 links: four of them on one link, one link at a tenth, one with 1 % loss. Against the sum of
/// what each link's path delivers alone.
#[test]
fn unequal_paths_add_up() {
    let mut links = vec![(1000, 0.0); 13];
    links[1].0 = 100;
    links[2].1 = 0.01;
    let time = Duration::from_millis(500);
    let alone: f64 = links.iter().map(|link| goodput(&[*link], &[0], time)).sum();
    let paths: Vec<usize> = [0, 0, 0].into_iter().chain(0..13).collect();
    let together = goodput(&links, &paths, time);
    println!("16 paths: {together:.0} Mb/s of {alone:.0}, {:.3}", together / alone);
    assert!(together >= 0.9 * alone, "{together} of {alone}");
}

/// Share of the bottleneck and Jain's index of so many senders with so many paths each, each of which begins so long after
/// the one before: to one receiving host, or to as many whose clocks differ.
fn incast(senders: usize, paths: usize, apart: Duration, one_host: bool) -> (f64, f64) {
    let mut world = World::new(3);
    let last = world.link(10_000, 512 << 10);
    for sender in 0..senders {
        let links: Vec<LinkId> = (0..paths).map(|_| world.link(10_000, 256 << 10)).collect();
        world.connect(&links, Some(last), if one_host { 0 } else { sender });
        world.run(apart);
    }
    world.run(Duration::from_millis(200));
    let each = world.run(Duration::from_millis(500));
    let sum: f64 = each.iter().sum();
    let squares: f64 = each.iter().map(|one| one * one).sum();
    (sum / 10_000.0, sum * sum / (senders as f64 * squares))
}

/// Whether all begin at once, one while the first ones begin, or long after these have filled the queue. Between hosts whose
/// clocks differ the shares are only printed: they do not pause together.
#[test]
fn incast_is_fair_and_does_not_collapse() {
    println!(
        "| receiver | senders | paths of each | apart, us | share | Jain's index |\n|---|---|---|---|---|---|"
    );
    for one_host in [true, false] {
        let host = if one_host { "one host" } else { "other clocks" };
        for (senders, paths) in [(4, 4), (16, 1), (16, 4), (16, 16)] {
            for apart in [0, 37, 1000, 5000] {
                let (share, jain) = incast(senders, paths, Duration::from_micros(apart), one_host);
                println!("| {host} | {senders} | {paths} | {apart} | {share:.3} | {jain:.3} |");
                assert!(share >= 0.85, "{share}");
                assert!(jain >= 0.9 || !one_host, "{jain}");
            }
        }
    }
}

#[test]
fn a_dead_link_costs_its_bandwidth_and_no_message() {
    let mut world = World::new(5);
    let links: Vec<LinkId> = (0..4).map(|_| world.link(1000, 256 << 10)).collect();
    world.connect(&links, None, 0);
    let before = world.run(Duration::from_millis(300))[0];
    world.simulation.change(links[0], Change::Blackhole(true));
    world.run(Duration::from_millis(300));
    let after = world.run(Duration::from_millis(500))[0];
    println!("a dead link of four: {before:.0} Mb/s before, {after:.0} after");
    assert!(after >= 0.9 * 0.75 * before, "{before} {after}");
}
