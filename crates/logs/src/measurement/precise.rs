//! A figure's time and bus bandwidth from whichever column of its row says more: a time of four digits
//! tells more than a bandwidth of `0.01`, and a bandwidth more than a time of `1.0e+07`.
//! Not whether the columns agree (`check`): where they do not, they are taken as written.

use super::{Figure, Measurement, Row, check::expected, deduction::rounding};
use busbw_core::record::Figures;

impl Measurement {
    /// Time of one operation, microseconds, and bus bandwidth, GB/s, of a half of one of its rows; the
    /// bandwidth of a program that knows one only. What is not positive is nothing.
    pub fn figures(&self, row: &Row, half: &Figures) -> (Option<f64>, Option<f64>) {
        let positive = |value: &f64| value.is_finite() && *value > 0.0;
        let written = match self.test.figure {
            Figure::Bandwidths | Figure::Latency => half.time_us.filter(positive),
            // A bandwidth's time is that which its bytes take.
            _ => None,
        };
        let of_bandwidth =
            || half.algbw.filter(positive).map(|algbw| row.size as f64 / 1e3 / algbw);
        let time = written.or_else(of_bandwidth).filter(positive);
        let busbw = half.busbw.or(half.algbw).filter(positive);
        self.refined(row, half).unwrap_or((time, busbw))
    }

    fn refined(&self, row: &Row, half: &Figures) -> Option<(Option<f64>, Option<f64>)> {
        if self.test.figure != Figure::Bandwidths {
            return None;
        }
        let ranks = self.ranks_of(row).filter(|ranks| *ranks > 1)?;
        let (bytes, factor) = expected(row, self.collective()?, ranks);
        let time = half.time_us.filter(|time| *time > 0.0 && time.is_finite())?;
        let computed = bytes / 1e3 / time * factor;
        let Some(printed) = half.busbw.filter(|busbw| busbw.is_finite()) else {
            return Some((Some(time), Some(computed).filter(|busbw| *busbw > 0.0)));
        };
        let (slack, step) = (half.rounding_us / time, rounding(printed.max(computed)));
        if (printed - computed).abs() > computed * (slack + 0.002) + step {
            return None;
        }
        if slack * computed <= step || printed <= 0.0 {
            return Some((Some(time), Some(computed).filter(|busbw| *busbw > 0.0)));
        }
        Some((Some(bytes * factor / 1e3 / printed), Some(printed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::Known;
    use busbw_core::Collective;

    /// Bus bandwidth and time of all_reduce on 8 ranks.
    fn figures(size: u64, time: f64, rounding_us: f64, busbw: f64) -> (f64, f64) {
        let half = Figures {
            time_us: Some(time),
            rounding_us,
            busbw: Some(busbw),
            algbw: Some(busbw / 1.75),
            ..Figures::default()
        };
        let mut run = Measurement { ranks: Some(Known::stated(8)), ..Measurement::default() };
        run.test.collective = Some(Known::stated(Collective::AllReduce));
        let (time, busbw) = run.figures(&Row { size, ..Row::default() }, &half);
        (busbw.unwrap(), time.unwrap())
    }

    #[test]
    fn the_column_that_says_more_counts() {
        // 256 B in 30.12 us: 0.0149 GB/s, printed 0.01.
        let (busbw, time) = figures(256, 30.12, 0.005, 0.01);
        assert!((busbw - 0.014_874).abs() < 1e-6 && time == 30.12, "{busbw} {time}");
        // 1 GiB in `1.0e+07` us tells less than 0.19 GB/s.
        let (busbw, time) = figures(1 << 30, 1.0e7, 5e5, 0.19);
        assert!(busbw == 0.19 && (time - 9_889_727.3).abs() < 1.0, "{busbw} {time}");
        // Somebody changed one of them: as written.
        assert_eq!(figures(1 << 30, 5000.0, 0.5, 100.0), (100.0, 5000.0));
    }
}
