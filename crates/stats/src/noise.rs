//! Simulated launch times for the tests: the noise models.
//! Not part of the program: it is compiled for tests only, and every seed is fixed.

pub use crate::random::Random as Rng;

/// How launch times vary around 1.0, in the order in which the launches were made.
#[derive(Debug, Clone, Copy)]
pub enum Noise {
    /// Independent, 2 % lognormal.
    Lognormal,
    /// As `Lognormal`, and one launch in ten is slower by up to 60 %.
    HeavyTailed,
    /// Stationary first-order autoregression of the log, 2 % spread, with this coefficient.
    Autoregressive(f64),
    /// The log takes an independent 1 % step from one launch to the next.
    RandomWalk,
    /// 2 % noise around a level that rises by 0.5 % with every launch.
    LinearDrift,
    /// 1 % noise around one of two levels 8 % apart, chosen anew for every launch.
    Bimodal,
    /// As `Bimodal`, but the level of the launch before is kept in four cases of five.
    StickyBimodal,
}

impl Noise {
    /// `count` launch times in launch order.
    pub fn launches(self, rng: &mut Rng, count: usize) -> Vec<f64> {
        let mut state = match self {
            Self::Autoregressive(_) => rng.normal(),
            Self::Bimodal | Self::StickyBimodal => f64::from(rng.uniform() < 0.5),
            _ => 0.0,
        };
        let mut times = Vec::with_capacity(count);
        for index in 0..count {
            let log = match self {
                Self::Lognormal => 0.02 * rng.normal(),
                Self::HeavyTailed => {
                    let slow = f64::from(rng.uniform() < 0.1);
                    0.02 * rng.normal() + slow * (0.6 * rng.uniform()).ln_1p()
                }
                Self::Autoregressive(rho) => {
                    state = rho * state + (1.0 - rho * rho).sqrt() * rng.normal();
                    0.02 * state
                }
                Self::RandomWalk => {
                    state += rng.normal();
                    0.01 * state
                }
                Self::LinearDrift => 0.005 * index as f64 + 0.02 * rng.normal(),
                Self::Bimodal | Self::StickyBimodal => {
                    let switch = if matches!(self, Self::Bimodal) { 0.5 } else { 0.2 };
                    if rng.uniform() < switch {
                        state = 1.0 - state;
                    }
                    0.08 * state + 0.01 * rng.normal()
                }
            };
            times.push(f64::exp(log));
        }
        times
    }
}
