//! How long a lost path holds a job up, and whether the job ends: NCCL's own network, and busbw's net plugin.
//! Not what is left of the bandwidth (`forecast`). Nothing here was measured: each time names where it is written.

use serde::Serialize;

use crate::tuning::Version;

/// NCCL_IB_TIMEOUT where it is unset, up to 2.22 and from 2.23 on (NCCL's src/transport/net_ib, parameters of each release).
const IB_TIMEOUT: [u32; 2] = [18, 20];

/// The first minor release with the second.
const IB_TIMEOUT_CHANGED: u32 = 23;

/// NCCL_IB_RETRY_CNT where it is unset.
const IB_RETRIES: u32 = 7;

/// Microseconds of the unit of InfiniBand's acknowledge timeout: 4.096 us × 2^exponent (InfiniBand Architecture 1, 9.7.6.1.3).
const IB_TIMEOUT_UNIT_US: f64 = 4.096;

/// Who carries the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// NCCL's own transport over RDMA.
    NcclRdma,
    /// NCCL's own sockets.
    NcclSockets,
    /// busbw's net plugin over TCP.
    BusbwTcp,
    /// busbw's net plugin over RDMA.
    BusbwRdma,
}

/// What follows the loss of a link that other links could replace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recovery {
    /// Who carries the bytes.
    pub network: Network,
    /// Microseconds until the bytes of a path that is gone silently are sent over others.
    pub moved_us: Option<f64>,
    /// How.
    pub how: String,
    /// Microseconds after which the job ends if no way comes back; none: it is not known here.
    pub ends_us: Option<f64>,
    /// Where both are written.
    pub source: &'static str,
}

impl Network {
    /// As people say it.
    pub const fn name(self) -> &'static str {
        match self {
            Network::NcclRdma => "NCCL, RDMA",
            Network::NcclSockets => "NCCL, sockets",
            Network::BusbwTcp => "busbw, TCP",
            Network::BusbwRdma => "busbw, RDMA",
        }
    }
}

/// Microseconds of one acknowledge timeout of NCCL's queue pairs, and of all until a queue pair gives up: the first and
/// NCCL_IB_RETRY_CNT more. Adapters may wait up to four times as long (the same section).
pub fn ib_timeouts_us(version: Version) -> (f64, f64) {
    let exponent = IB_TIMEOUT[usize::from(version.minor >= IB_TIMEOUT_CHANGED)];
    let one = IB_TIMEOUT_UNIT_US * f64::from(1u32 << exponent);
    (one, one * f64::from(IB_RETRIES + 1))
}

/// All networks, for a release of NCCL.
pub fn recoveries(version: Version) -> [Recovery; 4] {
    let (one, all) = ib_timeouts_us(version);
    [
        Recovery {
            network: Network::NcclRdma,
            moved_us: Some(one),
            how: "sent again on the same queue pair, if routing has moved it by then".to_owned(),
            ends_us: Some(all),
            source: "NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT; InfiniBand 9.7.6.1.3",
        },
        Recovery {
            network: Network::NcclSockets,
            moved_us: None,
            how: "sent again on the same connection, if routing has moved it by then".to_owned(),
            ends_us: Some(924.6e6),
            source: "Linux, ip-sysctl: tcp_retries2 is 15",
        },
        Recovery {
            network: Network::BusbwTcp,
            moved_us: Some(20e3),
            how: "copies over other paths after 20 ms, lost after 0.6 s".to_owned(),
            ends_us: Some(20e6),
            source: "docs/plugin.md, When a path fails",
        },
        Recovery {
            network: Network::BusbwRdma,
            moved_us: Some(0.5e6),
            how: "over other paths when it is lost; at once where the port says so".to_owned(),
            ends_us: Some(20e6),
            source: "docs/plugin.md, Over RDMA",
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4.096 us × 2^20 are 4.29 s, eight of them 34.4 s; 2^18 before 2.23.
    #[test]
    fn timeouts_by_hand() {
        let (one, all) = ib_timeouts_us(Version::last_of(30));
        assert!((one - 4.294_967_296e6).abs() < 1e-3 && (all - 34.359_738_368e6).abs() < 1e-2);
        let (one, all) = ib_timeouts_us(Version::last_of(22));
        assert!((one - 1.073_741_824e6).abs() < 1e-3 && (all - 8.589_934_592e6).abs() < 1e-2);
    }

    /// The defaults are those of NCCL's releases.
    #[test]
    fn defaults_of_releases() {
        let known =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../nccl-releases/src/generated/parameters.tsv");
        let known = std::fs::read_to_string(known).expect("parameters of releases");
        for line in [
            "NCCL_IB_TIMEOUT\t2.3.5\t-\tparameter\t2.16.2=18;2.23.4=20",
            "NCCL_IB_RETRY_CNT\t2.3.5\t-\tparameter\t2.16.2=7",
        ] {
            assert!(known.lines().any(|known| known == line), "{line}");
        }
    }

    /// The plugin's page has the figures, in these words.
    #[test]
    fn figures_are_those_of_the_plugins_page() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plugin.md"))
                .expect("the page");
        for words in [
            "no acknowledgement for 20 ms and four times the expected time",
            "two retransmission timeouts (RTO) of TCP in a row (0.6 s)",
            "seven retransmissions unanswered (0.5 s)",
            "the connection waits 20 s for one to come back",
        ] {
            assert!(page.contains(words), "{words}");
        }
    }
}
