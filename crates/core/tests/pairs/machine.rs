//! A simulated machine: its hosts, what its pairs reach, and what is broken in it.
//! Not the noise.

use std::collections::BTreeMap;

use busbw_core::pairs::{Unit, figures::Figures, schedule::Schedule, subject::Subject};

use busbw_stats::Random;

use super::noise::{Noise, Weather, generator};

#[derive(Clone)]
pub struct Machine {
    pub unit: Unit,
    pub noise: Noise,
    /// The host of each rank.
    pub hosts: Vec<usize>,
    /// What is broken: bandwidth is 20 % lower there, or times are 5 us longer.
    pub faults: Vec<Subject>,
    /// Draws what stays with a cell, in the first look as in the retest.
    pub seed: u64,
}

impl Machine {
    pub fn new(unit: Unit, noise: Noise, hosts: usize, local: usize) -> Machine {
        let hosts = (0..hosts * local).map(|rank| rank / local).collect();
        Machine { unit, noise, hosts, faults: Vec::new(), seed: 0 }
    }

    pub fn schedule(&self) -> Schedule {
        let mut hosts = vec![Vec::new(); self.hosts.iter().max().map_or(0, |last| last + 1)];
        self.hosts.iter().enumerate().for_each(|(rank, host)| hosts[*host].push(rank));
        Schedule::by_hosts(&hosts)
    }

    pub fn measure(&self, schedule: &Schedule, passes: usize, rng: &mut Random) -> Figures {
        let mut cells = BTreeMap::<(usize, usize), Vec<f64>>::new();
        let mut weather = Weather::new(self.noise, self.hosts.len());
        for _ in 0..passes {
            for round in &schedule.rounds {
                weather.next_round(rng);
                for (from, to) in round.iter().flat_map(|[a, b]| [(*a, *b), (*b, *a)]) {
                    let own =
                        generator((self.seed << 32) + (from * 4099 + to) as u64).normal() * 0.01;
                    let noise = weather.sample([self.hosts[from], self.hosts[to]], rng) + own;
                    cells.entry((from, to)).or_default().push(self.sample(from, to, noise.exp()));
                }
            }
        }
        let cells = cells.iter().map(|((from, to), samples)| (*from, *to, &samples[..]));
        Figures::by_hosts(self.unit, self.hosts.clone(), cells).unwrap()
    }

    fn sample(&self, from: usize, to: usize, noise: f64) -> f64 {
        let within = self.hosts[from] == self.hosts[to];
        let broken = |fault: &&Subject| fault.slows(from, to, &self.hosts);
        let faults = self.faults.iter().filter(broken).count() as f64;
        match self.unit {
            Unit::GigabytesPerSecond => {
                let speed = if within { 370.0 } else { 48.5 };
                speed * if faults > 0.0 { 0.8 } else { 1.0 } / noise
            }
            Unit::Microseconds => (if within { 3.0 } else { 20.0 } + 5.0 * faults) * noise,
        }
    }
}
