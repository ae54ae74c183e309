//! The alpha-beta cost model of the `fake` backend: a time for every case, without a machine.
//! Not a limit and not NCCL's tuning model: it only has to be plausible, exact and repeatable.

use serde::{Deserialize, Serialize};

use crate::{Collective, collective::Counts};

/// A ring with a fixed latency a step and a fixed bandwidth a link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// Latency of one step, microseconds.
    pub alpha_us: f64,
    /// Bandwidth of one link and direction, GB/s (1e9 bytes a second).
    pub gbps: f64,
}

impl Default for CostModel {
    fn default() -> Self {
        CostModel { alpha_us: 6.0, gbps: 370.0 }
    }
}

impl CostModel {
    /// Seconds of one operation: alpha × steps + bytes over the busiest link / bandwidth
    /// (Thakur, Rabenseifner, Gropp 2005, section 3, for the ring).
    pub fn seconds(
        &self,
        collective: Collective,
        counts: &Counts,
        element_bytes: usize,
        ranks: usize,
    ) -> f64 {
        let size = counts.bytes(element_bytes) as f64;
        let (steps, bytes) = (collective.spec().cost)(ranks as f64, size);
        (self.alpha_us * 1e-6) * steps.max(1.0) + bytes / (self.gbps * 1e9)
    }
}
