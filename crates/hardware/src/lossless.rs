//! What a network that must not drop needs: buffer by rate and round trip, headroom for PFC, thresholds for ECN.
//! Not what it costs where packets are lost all the same (`loss`).
//!
//! Units: Gb/s, microseconds, metres, bytes (MB is 10^6). Every formula names its source; docs/plan.md has them beside each other.

use serde::Serialize;

/// Both directions of a port are counted, as the write-up of 128 ports of 400 Gb/s does (docs/plan.md, "Lossless").
const DIRECTIONS: f64 = 2.0;

/// Its margin on top of that.
pub const DEFAULT_MARGIN: f64 = 1.5;

/// Light in a single-mode fibre: 513 ns for 100 m (Cisco, "Priority Flow Control: Build Reliable Layer 2 Infrastructure",
/// C11-542809, page 3; copper 476 ns).
const NS_PER_METRE: f64 = 5.13;

/// Bytes of an Ethernet frame beside its payload: header 14, VLAN tag 4, check 4, preamble 8, gap 12 (IEEE 802.3 3.1.1, 4.4.2).
const FRAME_BYTES: f64 = 42.0;

/// A PFC frame of 64 bytes with preamble and gap (IEEE 802.1Q 36.2).
const PFC_FRAME_BYTES: f64 = 84.0;

/// Bytes of a pause quantum: 512 bit times (IEEE 802.3 31B.2).
const QUANTUM_BYTES: f64 = 64.0;

/// Bandwidth-delay product, bytes: what is in flight in one direction during a round trip.
pub fn in_flight(rate_gbps: f64, round_trip_us: f64) -> f64 {
    rate_gbps * 1e3 / 8.0 * round_trip_us
}

/// Buffer of a port, bytes: rate × round trip × directions × margin.
pub fn port_buffer(rate_gbps: f64, round_trip_us: f64, margin: f64) -> f64 {
    in_flight(rate_gbps, round_trip_us) * DIRECTIONS * margin
}

/// The buffer that a switch needs by round trip, beside the one that it has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BufferNeed {
    /// Bytes of one port.
    pub port: f64,
    /// Bytes of all ports.
    pub switch: f64,
    /// Bytes that the switch has, where that was said.
    pub has: Option<f64>,
    /// Whether that suffices.
    pub suffices: Option<bool>,
    /// The longest round trip in microseconds for which it would.
    pub longest_round_trip_us: Option<f64>,
    /// The ports of this rate for which it would.
    pub ports_served: Option<u64>,
}

/// The need of `ports` ports.
pub fn buffer_need(
    rate_gbps: f64,
    round_trip_us: f64,
    ports: usize,
    margin: f64,
    has: Option<f64>,
) -> BufferNeed {
    let port = port_buffer(rate_gbps, round_trip_us, margin);
    let switch = port * ports as f64;
    BufferNeed {
        port,
        switch,
        has,
        suffices: has.map(|has| switch <= has),
        longest_round_trip_us: has.map(|has| round_trip_us * has / switch),
        ports_served: has.map(|has| (has / port) as u64),
    }
}

/// Pause quanta within which a port of a rate stops after a PAUSE or PFC frame (IEEE 802.3 31B.3.7); `None` for a rate
/// whose value is not known here.
pub fn response_quanta(rate_gbps: f64) -> Option<f64> {
    let known: [(f64, f64); 6] =
        [(10.0, 60.0), (25.0, 80.0), (40.0, 118.0), (100.0, 394.0), (200.0, 905.0), (400.0, 905.0)];
    known.into_iter().find(|(rate, _)| (rate - rate_gbps).abs() < 1e-9).map(|(_, quanta)| quanta)
}

/// The headroom of one lossless class of a port: what still arrives after the port has decided to send PFC.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Headroom {
    /// Bytes in the cable, there and back.
    pub cable: f64,
    /// Bytes while a frame of the largest size leaves before the PFC frame.
    pub own_frame: f64,
    /// Bytes while the PFC frame itself leaves.
    pub pfc_frame: f64,
    /// Bytes that the other end sends until it responds.
    pub response: f64,
    /// Bytes of a frame that the other end has begun.
    pub peer_frame: f64,
    /// Sum, bytes.
    pub total: f64,
}

/// PFC headroom by cable and rate: two cable delays, a largest frame at each end, the PFC frame, and the response time
/// of the other end (IEEE 802.1Qbb Annex O, now 802.1Q Annex N; the same five parts in Cisco's C11-542809, pages 3 and 4).
/// Delays within the two ports (interface, MAC, higher layers) differ by maker and are not in it. `None` where the
/// response time of the rate is not known.
pub fn headroom(rate_gbps: f64, cable_m: f64, mtu: f64) -> Option<Headroom> {
    let response = response_quanta(rate_gbps)? * QUANTUM_BYTES;
    let cable = in_flight(rate_gbps, 2.0 * cable_m * NS_PER_METRE / 1e3);
    let frame = mtu + FRAME_BYTES;
    let total = cable + frame + PFC_FRAME_BYTES + response + frame;
    Some(Headroom {
        cable,
        own_frame: frame,
        pfc_frame: PFC_FRAME_BYTES,
        response,
        peer_frame: frame,
        total,
    })
}

/// Thresholds of a switch with a shared buffer, bytes, after DCQCN (Zhu et al., SIGCOMM 2015, section 4).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Thresholds {
    /// The most that a static PFC threshold of a port's class may be, so that headroom remains for all:
    /// (B − n·c·headroom) / (n·c).
    pub pfc: f64,
    /// The most that the ECN threshold may be, so that ECN comes before PFC where the PFC threshold is a dynamic share β
    /// of what is free: β(B − n·c·headroom) / (n·c·(β + 1)).
    pub ecn: f64,
}

/// DCQCN's β.
const DYNAMIC_SHARE: f64 = 8.0;

/// PFC's and ECN's thresholds for a buffer of `bytes`, shared by `ports` with `classes` lossless classes each; `None` where
/// the headroom alone does not fit.
pub fn thresholds(bytes: f64, ports: usize, classes: usize, headroom: f64) -> Option<Thresholds> {
    let queues = ports as f64 * classes as f64;
    let free = bytes - queues * headroom;
    (free > 0.0).then(|| Thresholds {
        pfc: free / queues,
        ecn: DYNAMIC_SHARE * free / (queues * (DYNAMIC_SHARE + 1.0)),
    })
}

/// Marking thresholds of ECN, bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Marking {
    /// Below this nothing is marked.
    pub kmin: f64,
    /// From this on everything is.
    pub kmax: f64,
    /// The least for DCTCP, for which one threshold marks: C × RTT / 7.
    pub dctcp: Option<f64>,
}

/// Kmin and Kmax by rate: 100 KB and 400 KB at 25 Gb/s, in proportion to the rate (HPCC, Li et al., SIGCOMM 2019, section
/// 5.1, for DCQCN). DCTCP: K > C × RTT / 7 (Alizadeh et al., SIGCOMM 2010, equation 13).
pub fn marking(rate_gbps: f64, round_trip_us: Option<f64>) -> Marking {
    let times = rate_gbps / 25.0;
    Marking {
        kmin: 100e3 * times,
        kmax: 400e3 * times,
        dctcp: round_trip_us.map(|us| in_flight(rate_gbps, us) / 7.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOMAHAWK_5_BYTES: f64 = 165.2e6;

    /// A write-up's arithmetic, number by number: 400 Gb/s, 128 ports, a factor of 1.5, and a switch with 165.2 MB.
    #[test]
    fn the_field_reports_arithmetic() {
        for (round_trip, port, switch, suffices) in [
            (2.0, 300e3, 38.4e6, true),
            // Six hops of 1.5 us, there and back.
            (6.0 * 1.5, 1.35e6, 172.8e6, false),
            (10.0, 1.5e6, 192e6, false),
        ] {
            let need = buffer_need(400.0, round_trip, 128, DEFAULT_MARGIN, Some(TOMAHAWK_5_BYTES));
            assert!((need.port - port).abs() < 1e-3, "{round_trip} us: {need:?}");
            assert!((need.switch - switch).abs() < 1e-3, "{round_trip} us: {need:?}");
            assert_eq!(need.suffices, Some(suffices), "{round_trip} us");
        }
        let need = buffer_need(400.0, 9.0, 128, DEFAULT_MARGIN, Some(TOMAHAWK_5_BYTES));
        assert!((need.longest_round_trip_us.expect("said") - 8.604).abs() < 0.001);
        assert_eq!(need.ports_served, Some(122));
    }

    /// DCQCN section 4: 12 MB, 32 ports, 8 classes, 22.4 KB of headroom: PFC at 24.47 KB at most, ECN below 21.75 KB.
    #[test]
    fn dcqcns_own_figures() {
        let known = thresholds(12e6, 32, 8, 22.4e3).expect("it fits");
        assert!((known.pfc - 24.475e3).abs() < 1.0, "{known:?}");
        assert!((known.ecn - 21.755e3).abs() < 1.0, "{known:?}");
        assert_eq!(thresholds(1e6, 128, 8, 22.4e3), None);
    }

    /// Cisco's sum for 10 Gb/s and 100 m: 60 quanta are 3840 bytes, the fibre holds 641 bytes one way.
    #[test]
    fn headroom_has_its_five_parts() {
        let ten = headroom(10.0, 100.0, 2300.0).expect("known");
        assert!((ten.response - 3840.0).abs() < 1e-9);
        assert!((ten.cable - 2.0 * 641.25).abs() < 1e-6, "{ten:?}");
        let parts = ten.cable + ten.own_frame + ten.pfc_frame + ten.response + ten.peer_frame;
        assert!((ten.total - parts).abs() < 1e-9);
        let long = headroom(400.0, 300.0, 4096.0).expect("known");
        let short = headroom(400.0, 3.0, 4096.0).expect("known");
        assert!((long.total - short.total - in_flight(400.0, 2.0 * 297.0 * 5.13e-3)).abs() < 1e-6);
        assert_eq!(headroom(800.0, 3.0, 4096.0), None, "802.3df's value is not known here");
    }

    #[test]
    fn thresholds_grow_with_the_rate() {
        let marks = marking(400.0, Some(9.0));
        assert_eq!((marks.kmin, marks.kmax), (1.6e6, 6.4e6));
        assert!((marks.dctcp.expect("a round trip") - 450e3 / 7.0).abs() < 1e-6);
    }
}
