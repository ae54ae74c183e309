//! How a start-up cost and a cost per byte grow with the number of hosts, and what of that is not known.
//! Not what was measured.

use busbw_core::Collective;
use busbw_hardware::limits::{Algorithm, crossed};
use busbw_hardware::prediction::Span;
use busbw_stats::affine::Stretch;
use serde::{Deserialize, Serialize};

use super::Scale;

/// Factors from one scale to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// Of the start-up cost.
    pub alpha: Span,
    /// Of the cost per byte.
    pub beta: Span,
}

/// Algorithms that NCCL may choose at both scales. Those in which switches reduce would send less with more hosts, and a
/// machine that has them has them at both scales; PAT and direct sends are left where nothing else is.
const USUAL: [Algorithm; 3] = [Algorithm::Ring, Algorithm::Tree, Algorithm::NvlsTree];

impl Growth {
    /// From one scale to another.
    ///
    /// The start-up cost: least, that of algorithms whose steps do not depend on the hosts (1); most, that of a ring over all
    /// ranks, n − 1 steps; between, a step for a host's own ranks and one for each doubling of hosts, as in a tree. The cost
    /// per byte follows what a GPU and what a host send, of which either may be what limits.
    ///
    /// # Errors
    /// Why the bytes that cross are not known.
    pub fn of(
        collective: Collective,
        from: Scale,
        to: Scale,
        algorithm: Option<Algorithm>,
    ) -> Result<Growth, String> {
        let (Some(per_host), true) = (from.per_host(), from.ranks > 1) else {
            return Err("hosts must have equally many ranks".to_owned());
        };
        let depth = |hosts: usize| 1.0 + (hosts.max(1) as f64).log2();
        let alpha = Span {
            low: 1.0,
            middle: depth(to.hosts) / depth(from.hosts),
            high: (to.ranks as f64 - 1.0) / (from.ranks as f64 - 1.0),
        };
        let tuned = collective.spec().tuned_by_nccl;
        let possible: Vec<Algorithm> = match algorithm {
            Some(one) => vec![one],
            None if tuned => USUAL.into_iter().filter(|one| one.serves(collective)).collect(),
            None => vec![Algorithm::Direct],
        };
        let mut factors = Vec::new();
        let mut of_hosts = Vec::new();
        let mut why = format!("no algorithm does {}", collective.name());
        for one in possible {
            let sent = |scale: Scale| crossed(collective, one, scale.hosts, per_host);
            match (sent(from), sent(to)) {
                (Ok(before), Ok(after)) => {
                    factors.push(after.gpu / before.gpu);
                    of_hosts.push((before.host, after.host));
                }
                (Err(reason), _) | (_, Err(reason)) => why = reason,
            }
        }
        // NCCL may change the algorithm between the scales.
        for (before, _) in &of_hosts {
            factors.extend(of_hosts.iter().map(|(_, after)| after / before));
        }
        let low = factors.iter().copied().fold(f64::INFINITY, f64::min);
        let high = factors.iter().copied().fold(0.0, f64::max);
        if !(low > 0.0 && low.is_finite()) {
            return Err(why);
        }
        let middle = match of_hosts.as_slice() {
            // Sends and receives, or one algorithm: the network between hosts is taken to be slower than a GPU's links.
            [(before, after)] => after / before,
            _ => (low * high).sqrt(),
        };
        Ok(Growth { alpha, beta: Span { low, middle, high } })
    }

    /// Microseconds of a size, with the error of the fit.
    pub(super) fn time_us(&self, stretch: &Stretch, bytes: f64) -> Span {
        let at = |alpha: f64, beta: f64| stretch.alpha_us * alpha + stretch.beta_us * bytes * beta;
        let error = 1.0 + stretch.error_95();
        Span {
            low: at(self.alpha.low, self.beta.low) / error,
            middle: at(self.alpha.middle, self.beta.middle),
            high: at(self.alpha.high, self.beta.high) * error,
        }
    }
}
