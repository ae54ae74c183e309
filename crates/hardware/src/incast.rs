//! Incast: several senders to one port of a switch at once, as a fluid. What each gets, the queue, when it overflows or pauses.
//! Not packets, and no congestion control: what it would have to hear, and by when.
//!
//! N ports of rate R send to one of rate R, so that the queue grows by (N − 1) R while all send. A sender has at most a window W on
//! its way (HPCC, SIGCOMM 2019, section 3: a window of rate × round trip bounds the queue); RDMA's rate-based control begins at line
//! rate and has none (DCQCN, SIGCOMM 2015, section 5). Units: Gb/s, microseconds, bytes.

use serde::Serialize;

use crate::lossless::{in_flight, marking};

/// Senders to one port.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Incast {
    /// How many, each by a port of its own.
    pub senders: usize,
    /// Gb/s of every port.
    pub rate_gbps: f64,
    /// Microseconds from a sender to the receiver and back, without queues.
    pub round_trip_us: f64,
    /// Bytes that a sender may have on its way; infinite where only congestion control slows it.
    #[serde(skip)]
    pub window: f64,
    /// Bytes that each sends; infinite where they send on.
    #[serde(skip)]
    pub message: f64,
}

/// The queue before the receiver's port.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Queue {
    /// Bytes at most, in a buffer that holds them; none where nothing bounds it.
    pub peak: Option<f64>,
    /// Microseconds from the first byte in the queue to that.
    pub peak_us: Option<f64>,
}

/// Where a buffer ends or senders are told.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reached {
    /// Bytes of the queue then.
    pub queue: f64,
    /// Microseconds from its first byte.
    pub after_us: f64,
}

impl Incast {
    /// Gb/s of each sender while all send.
    pub fn share_gbps(&self) -> f64 {
        self.rate_gbps / self.senders as f64
    }

    /// Microseconds until the last byte has arrived: the port takes N messages one after the other, and half a round trip is the
    /// way of the first byte. None where they send on.
    pub fn time_us(&self) -> Option<f64> {
        let us = self.senders as f64 * self.message / self.bytes_per_us();
        us.is_finite().then_some(us + self.round_trip_us / 2.0)
    }

    /// The largest queue. Until it is there, every sender sends at its port's rate, and the port takes R away:
    ///
    /// * a message that fits the window, or that ends before the window does: (N − 1) × message;
    /// * windows up to R × round trip: (N − 1) × window, since nothing is acknowledged while they leave;
    /// * larger ones: N × window − R × round trip: what is on its way, less what the way itself holds.
    pub fn queue(&self) -> Queue {
        let (n, rate) = (self.senders as f64, self.bytes_per_us());
        if self.senders < 2 {
            return Queue { peak: Some(0.0), peak_us: Some(0.0) };
        }
        let pipe = in_flight(self.rate_gbps, self.round_trip_us);
        // Acknowledgements come back at R / N for each from a round trip on.
        let full_us = match self.window <= pipe {
            true => self.window / rate,
            false => (self.window - pipe / n) / (rate * (1.0 - 1.0 / n)),
        };
        let peak_us = full_us.min(self.message / rate);
        let bounded = peak_us.is_finite();
        Queue {
            peak: bounded.then_some((n - 1.0) * rate * peak_us),
            peak_us: bounded.then_some(peak_us),
        }
    }

    /// When the queue is so long; none where it never is.
    pub fn reaches(&self, bytes: f64) -> Option<Reached> {
        let grows = (self.senders as f64 - 1.0) * self.bytes_per_us();
        let longer = self.queue().peak.is_none_or(|peak| peak > bytes);
        (self.senders > 1 && longer).then_some(Reached { queue: bytes, after_us: bytes / grows })
    }

    /// The queue when the first sender can have slowed: marked from Kmin on (`lossless::marking`), and a round trip later it
    /// hears of it, in which (N − 1) × R × round trip more have come. None where the queue never reaches Kmin.
    pub fn slowed(&self) -> Option<Reached> {
        let marked = self.reaches(marking(self.rate_gbps, None).kmin)?;
        let grown = (self.senders as f64 - 1.0) * in_flight(self.rate_gbps, self.round_trip_us);
        let queue = marked.queue + grown;
        Some(Reached {
            queue: self.queue().peak.map_or(queue, |peak| peak.min(queue)),
            after_us: marked.after_us + self.round_trip_us,
        })
    }

    /// When ports of the senders pause them: each holds its part of the queue, which grows there by R − R/N, up to a PFC
    /// threshold. None where it never does.
    pub fn pauses(&self, threshold: f64) -> Option<Reached> {
        self.reaches(threshold * self.senders as f64)
    }

    /// The most senders whose queue fits a buffer; none where any number does, or already two without bound do not.
    pub fn senders_that_fit(&self, buffer: f64) -> usize {
        let fits = |senders: usize| {
            Incast { senders, ..*self }.queue().peak.is_some_and(|peak| peak <= buffer)
        };
        // The queue never shrinks with a sender more.
        let (mut met, mut missed) = (1, MOST_SENDERS + 1);
        while missed - met > 1 {
            let middle = (met + missed) / 2;
            match fits(middle) {
                true => met = middle,
                false => missed = middle,
            }
        }
        met
    }

    fn bytes_per_us(&self) -> f64 {
        in_flight(self.rate_gbps, 1.0)
    }
}

/// The most senders that are counted.
pub const MOST_SENDERS: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EIGHT: Incast = Incast {
        senders: 8,
        rate_gbps: 400.0,
        round_trip_us: 8.0,
        window: 400e3,
        message: f64::INFINITY,
    };

    /// 400 Gb/s are 50 KB a microsecond; a round trip of 8 us holds 400 KB.
    #[test]
    fn by_hand() {
        assert_eq!(EIGHT.share_gbps(), 50.0);
        // Seven windows wait while one has left: 2.8 MB, after 8 us.
        assert_eq!(EIGHT.queue(), Queue { peak: Some(2.8e6), peak_us: Some(8.0) });
        // Windows of 1 MB: 8 MB on their way, less 400 KB.
        let wide = Incast { window: 1e6, ..EIGHT };
        assert!((wide.queue().peak.expect("bounded") - 7.6e6).abs() < 1e-3, "{wide:?}");
        // Messages of 100 KB: seven of them, after 2 us; all are there after 16 us and half a round trip.
        let short = Incast { message: 100e3, ..wide };
        assert_eq!(short.queue(), Queue { peak: Some(700e3), peak_us: Some(2.0) });
        assert_eq!(short.time_us(), Some(20.0));
        // 1.4 MB of buffer are full after 4 us; five senders' windows are 1.6 MB, four 1.2 MB.
        assert_eq!(EIGHT.reaches(1.4e6).map(|at| at.after_us), Some(4.0));
        assert_eq!(EIGHT.reaches(2.8e6), None);
        assert_eq!(EIGHT.senders_that_fit(1.4e6), 4);
        // Marks from 1.6 MB on (4.57 us); a round trip later 2.8 MB more, if windows allowed it.
        let free = Incast { window: f64::INFINITY, ..EIGHT };
        assert_eq!(free.queue().peak, None);
        let slowed = free.slowed().expect("marked");
        assert!(
            (slowed.queue - 4.4e6).abs() < 1e-3
                && (slowed.after_us - (1.6e6 / 350e3 + 8.0)).abs() < 1e-9
        );
        assert_eq!(EIGHT.slowed().map(|at| at.queue), Some(2.8e6));
        // A threshold of 100 KB at each of eight ports: 800 KB in all; each grows by 43.75 KB a microsecond.
        let paused = EIGHT.pauses(100e3).expect("paused");
        assert!((paused.after_us - 100e3 / 43.75e3).abs() < 1e-9);
        assert_eq!(free.senders_that_fit(1e9), 1);
    }

    /// One after the other by time steps: each sender at R while its window and its message allow, what leaves the queue is
    /// acknowledged a round trip after it would have left an empty one.
    fn stepped(incast: &Incast, steps: usize) -> f64 {
        let (n, rate) = (incast.senders as f64, in_flight(incast.rate_gbps, 1.0));
        let step_us = 4.0 * incast.round_trip_us.max(incast.window / rate) / steps as f64;
        let delay = (incast.round_trip_us / step_us).round() as usize;
        let (mut sent, mut left, mut peak) = (0.0f64, vec![0.0f64], 0.0f64);
        for at in 0..steps {
            let acknowledged = if at >= delay { left[at - delay] } else { 0.0 };
            let may = (acknowledged / n + incast.window).min(incast.message);
            sent = (sent + rate * step_us).min(may).max(sent);
            let out = (left[at] + rate * step_us).min(n * sent);
            left.push(out);
            peak = peak.max(n * sent - out);
        }
        peak
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// The closed form is what steps in time give, for 1 to 17 senders and odd sizes.
        #[test]
        fn the_queue_step_by_step(
            senders in 1usize..18, round_trip_us in 0.5f64..20.0, window in 1_001.0f64..3e6, message in 1_001.0f64..3e6,
            rate in prop::sample::select(vec![25.0, 100.0, 400.0, 800.0]), endless in any::<bool>(),
        ) {
            let message = if endless { f64::INFINITY } else { message };
            let incast = Incast { senders, rate_gbps: rate, round_trip_us, window, message };
            let peak = incast.queue().peak.expect("bounded");
            let steps = stepped(&incast, 40_000);
            let rounding = senders as f64 * in_flight(rate, round_trip_us.max(window / in_flight(rate, 1.0)) * 4.0) / 40_000.0;
            prop_assert!((peak - steps).abs() <= 2.0 * rounding, "{} {} {:?}", peak, steps, incast);
        }

        /// A sender, a byte of window or of message more never shortens the queue; a buffer that fits N senders fits fewer.
        #[test]
        fn more_is_never_less(
            senders in 1usize..18, round_trip_us in 0.5f64..20.0, window in 1_001.0f64..3e6, message in 1_001.0f64..3e6,
            buffer in 1_001.0f64..50e6,
        ) {
            let incast = Incast { senders, rate_gbps: 400.0, round_trip_us, window, message };
            let peak = incast.queue().peak.expect("bounded");
            for more in [
                Incast { senders: senders + 1, ..incast },
                Incast { window: window + 17.0, ..incast },
                Incast { message: message + 17.0, ..incast },
            ] {
                prop_assert!(more.queue().peak.expect("bounded") >= peak - 1e-6);
            }
            let fit = incast.senders_that_fit(buffer);
            prop_assert_eq!(incast.reaches(buffer).is_none(), senders <= fit);
            prop_assert!((incast.share_gbps() * senders as f64 - 400.0).abs() < 1e-9);
        }
    }
}
