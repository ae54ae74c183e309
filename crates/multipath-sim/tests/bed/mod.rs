//! The bed of tests/netlab.sh, simulated: parallel links between two hosts, and a last hop if need be.
#![allow(dead_code, clippy::unwrap_used, reason = "tests; not each needs all of it")]

use std::time::Duration;

use busbw_multipath::Time;
use busbw_multipath_sim::{
    Change, Label, Link, LinkId, Route, Simulation, Ways,
    tcp::{self, Algorithm},
    transport::{Endless, Settings, World},
};

pub const MILLI: Duration = Duration::from_millis(1);
pub const MIB: usize = 1 << 20;
/// From one host to the other, as the kernel's work on two cores takes.
pub const DELAY: Duration = Duration::from_micros(40);
pub const BURST: u32 = 128 << 10;

pub struct Bed {
    pub world: World,
    /// There and back.
    pub links: Vec<[LinkId; 2]>,
    pub ways: usize,
    pub tcp: tcp::Settings,
}

impl Bed {
    /// Links of these bits a second with queues of so long; a last hop, if there is one.
    pub fn new(
        seed: u64,
        links: &[(u64, Duration)],
        last: Option<(u64, Duration)>,
        burst: u32,
    ) -> Bed {
        let mut simulation = Simulation::new(seed);
        let tbf = |&(rate, queue): &(u64, Duration)| Link::tbf(rate, burst, queue, DELAY / 2);
        let links: Vec<[LinkId; 2]> =
            links.iter().map(|link| [(); 2].map(|()| simulation.link(tbf(link)))).collect();
        let [mut forward, backward] = [0, 1]
            .map(|way| Route::over_any(&links.iter().map(|link| link[way]).collect::<Vec<_>>()));
        if let Some(last) = last {
            forward = forward.then(simulation.link(tbf(&last)));
        }
        let ways = simulation.ways(Ways { forward, backward });
        let tcp = tcp::Settings { algorithm: Algorithm::Bbr, ..tcp::Settings::default() };
        Bed { world: World::new(simulation, seed), links, ways, tcp }
    }

    /// Four links as in the bed.
    pub fn four(seed: u64) -> Bed {
        Bed::new(seed, &[(1_000_000_000, 8 * MILLI); 4], None, BURST)
    }

    pub fn settings(&self) -> Settings {
        Settings { ways: self.ways, paths: 16, chunk: 64 << 10, labels: Vec::new(), tcp: self.tcp }
    }

    pub fn change(&mut self, link: usize, change: Change) {
        self.links[link].iter().for_each(|link| self.world.simulation.change(*link, change));
    }

    pub fn change_at(&mut self, at: Time, link: usize, change: Change) {
        self.links[link].iter().for_each(|link| self.world.simulation.change_at(at, *link, change));
    }

    /// A connection of which each path takes the link of this number, both ways.
    pub fn connect(&mut self, labels: &[usize]) -> usize {
        let labels = labels.iter().map(|link| [Label::Link(*link); 2]).collect();
        let settings = Settings { labels, ..self.settings() };
        self.world.connect(settings)
    }
}

/// Gb/s from the first message on.
pub fn goodput(bed: &mut Bed, endless: &mut Endless, skipped: Duration, time: Duration) -> f64 {
    let from = endless.begin(&mut bed.world) + skipped;
    endless.run(&mut bed.world, from);
    let before: u64 = endless.received().iter().sum();
    endless.run(&mut bed.world, from + time);
    let bytes = endless.received().iter().sum::<u64>() - before;
    bytes as f64 * 8e-9 / time.as_secs_f64()
}
