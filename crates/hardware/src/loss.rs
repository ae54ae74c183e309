//! Throughput where packets are lost, by how the transport recovers: go-back-N or selective repeat.
//! Not why they are lost, and not congestion control, which slows a sender beside that.
//!
//! A sender always has something to send. Each packet is lost independently with probability p. A lost packet is noticed when
//! the next one arrives, and is sent again a round trip after it was first: W packet times later. Derivation: docs/plan.md, "Loss".

use serde::{Deserialize, Serialize};

use crate::limits::framing::ROCE_OVERHEAD_BYTES;

/// What the sender sends again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// The lost packet and all after it: RoCE NICs by default.
    GoBackN,
    /// The lost packet alone.
    SelectiveRepeat,
}

impl Recovery {
    /// Both.
    pub const ALL: [Recovery; 2] = [Recovery::GoBackN, Recovery::SelectiveRepeat];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Recovery::GoBackN => "go-back-N",
            Recovery::SelectiveRepeat => "selective repeat",
        }
    }
}

/// Packet times in a round trip: how many packets go-back-N sends in vain for one that is lost, that one included.
/// `mtu` is payload in bytes, of RoCEv2 (82 bytes of headers and gaps); at least 1.
pub fn window(rate_gbps: f64, round_trip_us: f64, mtu: f64) -> f64 {
    let packet_us = (mtu + ROCE_OVERHEAD_BYTES) * 8.0 / rate_gbps / 1e3;
    (round_trip_us / packet_us).max(0.0) + 1.0
}

/// The share of its rate that a sender attains.
///
/// Of go-back-N, a delivered packet takes 1 + p/(1−p) · W packet times: (1−p) / (1 − p + pW) (Bertsekas and Gallager, Data
/// Networks, 2.4.1, with W = 1 + β). Of selective repeat 1/(1−p): 1 − p, if buffers hold what comes out of order.
pub fn goodput(recovery: Recovery, lost: f64, window: f64) -> f64 {
    match recovery {
        Recovery::GoBackN => (1.0 - lost) / (1.0 - lost + lost * window),
        Recovery::SelectiveRepeat => 1.0 - lost,
    }
}

/// The share of a step's time that loss costs where `exposed` of a lossless step is communication that nothing hides: the
/// communication takes 1/goodput times as long.
pub fn cost_of_step(goodput: f64, exposed: f64) -> f64 {
    let more = exposed * (1.0 / goodput - 1.0);
    more / (1.0 + more)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in [0, 1), the same every time (Steele, Lea and Flood: SplitMix64).
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// Packet by packet: slots, what is in flight, and when the receiver's complaint arrives.
    fn simulate(recovery: Recovery, lost: f64, window: usize, slots: usize) -> f64 {
        let mut random = Random(7);
        let mut delivered = 0usize;
        // Of go-back-N: slots that are still sent in vain.
        let mut in_vain = 0usize;
        for _ in 0..slots {
            if in_vain > 0 {
                in_vain -= 1;
                continue;
            }
            if random.next() >= lost {
                delivered += 1;
            } else if recovery == Recovery::GoBackN {
                in_vain = window - 1;
            }
        }
        delivered as f64 / slots as f64
    }

    #[test]
    fn packets_one_by_one_agree_with_the_closed_form() {
        for (lost, window) in [(0.0001, 900), (0.001, 900), (0.01, 100), (0.01, 900), (0.1, 20)] {
            for recovery in Recovery::ALL {
                let wanted = goodput(recovery, lost, window as f64);
                let got = simulate(recovery, lost, window, 4_000_000);
                assert!(
                    (got / wanted - 1.0).abs() < 0.03,
                    "{recovery:?} {lost} {window}: {got} {wanted}"
                );
            }
        }
    }

    /// "Loss of 0.1 % costs over 10 % of GPU time, 1 % over 90 % of throughput": both hold with one set of assumptions: 400 Gb/s, packets
    /// of 4096 bytes, 80 us until a lost packet is sent again, go-back-N, and a seventh of a step in communication.
    #[test]
    fn the_field_reports_shares() {
        let window = window(400.0, 80.0, 4096.0);
        let at = |lost| goodput(Recovery::GoBackN, lost, window);
        assert!(1.0 - at(0.01) > 0.90, "{}", at(0.01));
        let cost = cost_of_step(at(0.001), 1.0 / 7.0);
        assert!(cost > 0.10 && cost < 0.15, "{cost}");
        // Within one rack, 9 us, the same loss costs far less.
        let near = super::window(400.0, 9.0, 4096.0);
        assert!(goodput(Recovery::GoBackN, 0.001, near) > 0.89);
        assert!(goodput(Recovery::GoBackN, 0.01, near) > 0.47);
        for lost in [0.001, 0.01] {
            assert!(goodput(Recovery::SelectiveRepeat, lost, window) > 0.98);
        }
    }

    #[test]
    fn ends() {
        assert!((goodput(Recovery::GoBackN, 0.0, 900.0) - 1.0).abs() < 1e-12);
        assert!((goodput(Recovery::GoBackN, 0.01, 1.0) - 0.99).abs() < 1e-12);
        assert!(cost_of_step(1.0, 0.5).abs() < 1e-12);
    }
}
