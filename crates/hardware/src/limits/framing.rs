//! What is left of a NIC's line rate for data: sizes of the headers round every packet.
//! Not congestion, retransmission or what a PCIe slot leaves (`machine::pcie`).

use crate::machine::{NicKind, Nics};

/// Ethernet round a packet: preamble and start 8, header 14, check 4, gap 12 (IEEE 802.3, 4.4.2).
const ETHERNET_OVERHEAD_BYTES: f64 = 38.0;

/// RoCEv2 in it: IPv4 20, UDP 8, base transport header 12, invariant check 4 (InfiniBand
/// Architecture Specification 1.4, annex A17; 9.2 for the transport header).
pub(crate) const ROCE_OVERHEAD_BYTES: f64 = ETHERNET_OVERHEAD_BYTES + 20.0 + 8.0 + 12.0 + 4.0;

/// InfiniBand: local route header 8, base transport header 12, checks 4 and 2 (volume 1, 5.2).
const INFINIBAND_OVERHEAD_BYTES: f64 = 8.0 + 12.0 + 4.0 + 2.0;

/// Within the MTU: IPv4 20, TCP_HEADER_BYTES 20 and its timestamps 12 (RFC 791, 9293, 7323).
const TCP_HEADER_BYTES: f64 = 20.0 + 20.0 + 12.0;

/// GB/s of one NIC in one direction, line rate; `None` where its rate is not known.
pub fn line(nics: &Nics) -> Option<f64> {
    nics.rate.map(|gigabits| gigabits / 8.0)
}

/// GB/s of data in one direction in full packets; `None` where rate or MTU are not known.
pub fn payload(nics: &Nics) -> Option<f64> {
    let mtu = f64::from(nics.mtu?);
    let share = match nics.kind {
        NicKind::InfiniBand => mtu / (mtu + INFINIBAND_OVERHEAD_BYTES),
        NicKind::Roce => mtu / (mtu + ROCE_OVERHEAD_BYTES),
        NicKind::Ethernet => (mtu - TCP_HEADER_BYTES).max(0.0) / (mtu + ETHERNET_OVERHEAD_BYTES),
    };
    Some(line(nics)? * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares of field-reports: 0.993, 0.980, 0.926, 0.94, 0.99.
    #[test]
    fn shares_by_kind_and_mtu() {
        for (kind, mtu, share) in [
            (NicKind::InfiniBand, 4096, 0.9937),
            (NicKind::Roce, 4096, 0.9804),
            (NicKind::Roce, 1024, 0.9259),
            (NicKind::Ethernet, 1500, 0.9415),
            (NicKind::Ethernet, 9000, 0.9900),
        ] {
            let nics =
                Nics { count: 1, rate: Some(8.0), kind, mtu: Some(mtu), slot: None, sharing: 1 };
            let got = payload(&nics).expect("known");
            assert!((got - share).abs() < 1e-4, "{kind:?} {mtu}: {got}");
            assert_eq!(payload(&Nics { mtu: None, ..nics.clone() }), None);
            assert_eq!(line(&Nics { rate: None, ..nics }), None);
        }
    }
}
