//! From a measured time to algbw and busbw, as nccl-tests defines them.
//! Not a limit: what the hardware allows is a different figure.

use crate::{Collective, collective::Counts};

/// Algorithm and bus bandwidth of one measurement, GB/s (1e9 bytes a second).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bandwidth {
    /// Bytes of the operation over its time.
    pub algbw: f64,
    /// algbw times the factor that makes ranks comparable (nccl-tests doc/PERFORMANCE.md).
    pub busbw: f64,
}

/// Bandwidth of a collective that took `seconds`. The numerators and factors are `getBw` of the
/// program of that name in nccl-tests 2.19.6; alltoallv uses the busiest rank's bytes.
///
/// ```
/// use busbw_core::{Collective, alltoallv::Traffic, bandwidth::bandwidth};
/// let counts = Collective::AllReduce.counts(8 << 30, 4, 8, &Traffic::default());
/// let measured = bandwidth(Collective::AllReduce, &counts, 4, 8, 40_989.3e-6);
/// assert!((measured.busbw - 366.74).abs() < 0.01);
/// ```
pub fn bandwidth(
    collective: Collective,
    counts: &Counts,
    element_bytes: usize,
    ranks: usize,
    seconds: f64,
) -> Bandwidth {
    let spec = collective.spec();
    let bytes = if spec.counts_own_chunk {
        counts.bytes(element_bytes) as f64
    } else {
        counts.param as f64 * element_bytes as f64 * (ranks as f64 - 1.0)
    };
    let algbw = bytes / 1e9 / seconds;
    Bandwidth { algbw, busbw: algbw * spec.bus_factor.of(ranks) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alltoallv::Traffic;

    /// Rows of our own 8 × H200 tables (measured/h200x8): size, time, printed algbw and busbw.
    #[test]
    fn agrees_with_published_rows() {
        let rows = [
            (Collective::AllReduce, 1_073_741_824, 8, 5228.13, 205.38, 359.41),
            (Collective::AllToAll, 1_073_741_824, 8, 2827.52, 379.75, 332.28),
            (Collective::SendRecv, 1_073_741_824, 8, 2991.76, 358.90, 358.90),
        ];
        for (collective, size, ranks, us, algbw, busbw) in rows {
            let counts = collective.counts(size, 4, ranks, &Traffic::default());
            let got = bandwidth(collective, &counts, 4, ranks, us * 1e-6);
            assert!((got.algbw - algbw).abs() < 0.006, "{collective:?} {got:?}");
            assert!((got.busbw - busbw).abs() < 0.006, "{collective:?} {got:?}");
        }
    }
}
