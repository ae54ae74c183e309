//! Endless streams over one link, for tests of TCP.
#![allow(dead_code, clippy::unwrap_used, reason = "tests; not each needs all of it")]

use std::time::Duration;

use busbw_multipath_sim::{
    Change, Content, Label, Link, LinkId, Read, Route, Simulation, Socket, Wake, Ways,
    tcp::{Info, Settings},
};

pub struct Streams {
    pub simulation: Simulation,
    settings: Settings,
    links: [LinkId; 2],
    listener: usize,
    ways: usize,
    sockets: Vec<Socket>,
    read: Vec<u64>,
    pub events: u64,
}

impl Streams {
    pub fn new(seed: u64, link: Link, settings: Settings) -> Streams {
        let mut simulation = Simulation::new(seed);
        let links = [simulation.link(link.clone()), simulation.link(link)];
        let [forward, backward] = links.map(Route::over);
        let ways = simulation.ways(Ways { forward, backward });
        let listener = simulation.listen();
        Streams {
            simulation,
            settings,
            links,
            listener,
            ways,
            sockets: Vec::new(),
            read: Vec::new(),
            events: 0,
        }
    }

    pub fn one_way_loss(&mut self) {
        self.simulation.change(self.links[1], Change::Loss(0.0));
    }

    pub fn change(&mut self, change: Change) {
        self.links.iter().for_each(|link| self.simulation.change(*link, change));
    }

    pub fn open(&mut self, count: usize) {
        for _ in 0..count {
            let labels = [Label::Link(0); 2];
            self.sockets.push(self.simulation.connect(
                self.ways,
                labels,
                self.listener,
                self.settings,
            ));
            self.read.push(0);
        }
    }

    pub fn info(&mut self, stream: usize) -> Info {
        self.simulation.info(self.sockets[stream]).unwrap()
    }

    /// Bits a second of each, in the time from `skipped` on.
    pub fn run(&mut self, skipped: Duration, measured: Duration) -> Vec<f64> {
        let from = self.simulation.now() + skipped;
        self.until(from);
        let before = self.read.clone();
        self.until(from + measured);
        let bytes = self.read.iter().zip(before).map(|(after, before)| after - before);
        bytes.map(|bytes| bytes as f64 * 8.0 / measured.as_secs_f64()).collect()
    }

    fn until(&mut self, until: busbw_multipath::Time) {
        while let Some(wake) = self.simulation.next(until) {
            self.events += 1;
            let (Wake::Connected(socket) | Wake::Accepted(socket, _) | Wake::Ready(socket)) = wake
            else {
                continue;
            };
            if self.sockets.get(socket.connection()) == Some(&socket) {
                while self.simulation.write(socket, &Content::zeros(1 << 20)) == 1 << 20 {}
            } else {
                while let Read::Bytes(content) = self.simulation.read(socket, 1 << 30) {
                    self.read[socket.connection()] += content.bytes() as u64;
                }
            }
        }
    }
}

/// Jain's index of fairness.
pub fn jain(values: &[f64]) -> f64 {
    let (sum, squares) =
        (values.iter().sum::<f64>(), values.iter().map(|value| value * value).sum::<f64>());
    sum * sum / squares / values.len() as f64
}
