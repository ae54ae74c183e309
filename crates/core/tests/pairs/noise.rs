//! Noise of simulated machines: how samples vary.
//! Not the machines.

use busbw_stats::Random;

/// The generator of a case: cases are numbered one after another, and their sequences must have nothing in common.
pub fn generator(seed: u64) -> Random {
    Random::new(seed.wrapping_mul(0xD129_0D3A_5F4E_62C5))
}

/// How samples vary. Each has 3 % lognormal noise a sample and 1 % that stays with a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Noise {
    /// No more than that.
    Lognormal,
    /// One sample in twenty is 1.3 to 3 times slower.
    HeavyTailed,
    /// Everything gets slower or faster by 1 % from round to round.
    Drifting,
    /// Each host is disturbed one round in sixty, for four rounds: 10 to 40 % slower.
    Disturbed,
}

impl Noise {
    pub const ALL: [Noise; 4] =
        [Noise::Lognormal, Noise::HeavyTailed, Noise::Drifting, Noise::Disturbed];
}

/// The state of noise from round to round.
pub struct Weather {
    noise: Noise,
    drift: f64,
    /// Rounds that each host is still disturbed for, and by what.
    disturbed: Vec<(usize, f64)>,
}

impl Weather {
    pub fn new(noise: Noise, hosts: usize) -> Weather {
        Weather { noise, drift: 0.0, disturbed: vec![(0, 0.0); hosts] }
    }

    pub fn next_round(&mut self, rng: &mut Random) {
        match self.noise {
            Noise::Drifting => self.drift = 0.98 * self.drift + 0.01 * rng.normal(),
            Noise::Disturbed => {
                for host in &mut self.disturbed {
                    host.0 = host.0.saturating_sub(1);
                    if host.0 == 0 && rng.uniform() < 1.0 / 60.0 {
                        *host = (4, (1.1 + 0.3 * rng.uniform()).ln());
                    }
                }
            }
            _ => {}
        }
    }

    /// Logarithm of how much slower a sample between these hosts is.
    pub fn sample(&self, hosts: [usize; 2], rng: &mut Random) -> f64 {
        let tail = self.noise == Noise::HeavyTailed && rng.uniform() < 0.05;
        let tail = if tail { (1.3 + 1.7 * rng.uniform()).ln() } else { 0.0 };
        let disturbed = hosts.map(|host| self.disturbed[host]).into_iter();
        let disturbed =
            disturbed.filter(|(left, _)| *left > 0).map(|(_, by)| by).fold(0.0, f64::max);
        0.03 * rng.normal() + self.drift + tail + disturbed
    }
}
