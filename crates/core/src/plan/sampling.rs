//! The amount of sampling, and the rank whose time counts.
//! Not the statistics of samples (`stats`).

use serde::{Deserialize, Serialize};

/// When sampling a row ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Batches that every row gets.
    pub min_batches: u32,
    /// Continue until half the 95 % interval over the median is at most this (0.02 = 2 %).
    pub precision: Option<f64>,
    /// But no longer than this number of seconds a placement.
    pub max_time: f64,
    /// Launches of the whole sweep, each with fresh ranks.
    pub launches: u32,
    /// Lower the batches and iterations of a size to take about this number of seconds, both
    /// placements together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_time: Option<f64>,
}

impl Sampling {
    /// The batches and the iterations of each for a placement, where `wanted` iterations are
    /// requested and one takes `seconds`. Each batch begins with an untimed iteration, and two more
    /// run to learn the time and to check. Batches are lowered first: fewer iterations are another
    /// measurement, since the start of a batch weighs more in each. At least one batch of one
    /// iteration is left.
    pub fn afforded(&self, wanted: u32, seconds: f64) -> (u32, u32) {
        let all = (self.min_batches, wanted);
        let Some(row_time) = self.row_time else { return all };
        let affordable = row_time / 2.0 / seconds - 2.0;
        let each = f64::from(wanted) + 1.0;
        // NaN, and zero, restrict nothing.
        if affordable.is_nan() || affordable >= f64::from(self.min_batches) * each {
            return all;
        }
        match affordable / each {
            batches if batches >= 1.0 => (batches as u32, wanted),
            _ => (1, (affordable as u32).saturating_sub(1).max(1)),
        }
    }
}

/// The rank whose time counts (`-a`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Average {
    /// 0: that of rank 0.
    Rank0,
    /// 1: the mean over ranks.
    #[default]
    Mean,
    /// 2: the fastest rank's.
    Min,
    /// 3: the slowest rank's.
    Max,
}

impl Average {
    /// The time that counts, from every rank's time; NaN when there is none.
    pub fn of(self, times: &[f64]) -> f64 {
        match self {
            Average::Rank0 => times.first().copied().unwrap_or(f64::NAN),
            Average::Mean => times.iter().sum::<f64>() / times.len() as f64,
            Average::Min => times.iter().copied().fold(f64::NAN, f64::min),
            Average::Max => times.iter().copied().fold(f64::NAN, f64::max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_takes_batches_first() {
        let sampling = Sampling {
            min_batches: 6,
            precision: None,
            max_time: 1.0,
            launches: 1,
            row_time: Some(2.0),
        };
        let afforded = |seconds| sampling.afforded(20, seconds);
        assert_eq!(afforded(0.001), (6, 20));
        assert_eq!(afforded(0.01), (4, 20));
        assert_eq!(afforded(0.04), (1, 20));
        assert_eq!(afforded(0.1), (1, 7));
        assert_eq!(afforded(30.0), (1, 1));
        for odd in [0.0, f64::NAN] {
            assert_eq!(afforded(odd), (6, 20));
        }
        assert_eq!(Sampling { row_time: None, ..sampling }.afforded(20, 30.0), (6, 20));
    }

    #[test]
    fn averages() {
        let times = [3.0, 1.0, 2.0];
        let all = [Average::Rank0, Average::Mean, Average::Min, Average::Max].map(|a| a.of(&times));
        assert_eq!(all, [3.0, 2.0, 1.0, 3.0]);
    }
}
