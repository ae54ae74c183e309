//! Evidence from devices' byte counters, compared with the bytes that had to move.
//! Not which ranks moved them, and not NCCL's log.

use super::profile::TransportKind;
use busbw_analysis::sweep::{EvidenceSource, Moved, Scope, Support};
use busbw_core::quantity::decimal_bytes as bytes;

/// From this share of the required bytes on, a device carried the data: reduction in switches
/// halves what a ring would move, and nothing needs less.
const CARRIED_SHARE: f64 = 0.5;
/// Below this share it did not carry the data: the ranks' control traffic is less.
const IDLE_SHARE: f64 = 0.05;
/// With fewer required bytes nothing follows: control traffic, and other programs of the host, move
/// as much meanwhile.
const MIN_REQUIRED_BYTES: f64 = 16e6;

/// The evidence of the counters for a transport. The network's counters are no evidence for ranks
/// within nodes: they count the traffic between nodes.
pub(super) fn evidence(kind: &TransportKind, scope: Scope, moved: &Moved) -> EvidenceSource {
    if moved.required < MIN_REQUIRED_BYTES {
        let detail =
            format!("only {} had to move: too few for evidence", bytes(moved.required as u64));
        return EvidenceSource::no_data(&detail);
    }
    let busiest = moved.busiest().filter(|_| scope != Scope::Within);
    let of = |name: &str, bytes_moved: u64| {
        format!("{name} {} of {}", bytes(bytes_moved), bytes(moved.required as u64))
    };
    let judged = |name: &str, amount: u64| {
        let part = moved.part(amount);
        let support = if part >= CARRIED_SHARE {
            Support::Confirms
        } else if part < IDLE_SHARE {
            Support::Contradicts
        } else {
            Support::NoData
        };
        EvidenceSource { support, detail: of(name, amount) }
    };
    match (kind, moved.nvlink) {
        (TransportKind::P2p, Some(nvlink)) => {
            let source = judged("NVLink", nvlink);
            if source.support == Support::Contradicts {
                // Peers reach each other over PCIe as well, which no counter shows.
                let network =
                    busiest.is_some_and(|(_, amount)| moved.part(amount) >= CARRIED_SHARE);
                let support = if network { Support::Contradicts } else { Support::NoData };
                return EvidenceSource { support, detail: source.detail };
            }
            source
        }
        // Bytes over NVLink do not tell who reduced them, nor where the peer was.
        (TransportKind::Nvls | TransportKind::Mnnvl, Some(nvlink)) => {
            match judged("NVLink", nvlink) {
                against @ EvidenceSource { support: Support::Contradicts, .. } => against,
                other => {
                    EvidenceSource::no_data(&format!("{}, which P2P moves as well", other.detail))
                }
            }
        }
        (TransportKind::P2p | TransportKind::Nvls | TransportKind::Mnnvl, None) => {
            EvidenceSource::no_data("NVLink was not read")
        }
        (TransportKind::Shm, nvlink) => {
            let most = busiest.map_or(0, |(_, amount)| amount).max(nvlink.unwrap_or(0));
            if moved.part(most) >= CARRIED_SHARE {
                let (name, amount) = match busiest {
                    Some((name, amount)) if amount == most => (name, amount),
                    _ => ("NVLink", most),
                };
                return EvidenceSource { support: Support::Contradicts, detail: of(name, amount) };
            }
            // Idle devices do not tell host memory from PCIe: neither is counted.
            EvidenceSource::no_data("no device counts host memory")
        }
        (TransportKind::Socket(device), _) => {
            // Between addresses of one host the kernel takes lo.
            let names = [device.as_str(), "lo"];
            let read = names.iter().filter_map(|name| Some((*name, moved.over(name)?)));
            let Some((name, amount)) = read.max_by_key(|(_, amount)| *amount) else {
                return EvidenceSource::no_data("the interface was not read");
            };
            match judged(name, amount) {
                // The one that was not read may have carried it.
                against @ EvidenceSource { support: Support::Contradicts, .. }
                    if names.iter().any(|name| moved.over(name).is_none()) =>
                {
                    EvidenceSource { support: Support::NoData, ..against }
                }
                source => source,
            }
        }
        (TransportKind::Rdma { device, port }, _) => {
            let port = format!("{device}/{port}");
            let Some(amount) = moved.over(&port) else {
                return EvidenceSource::no_data("the port was not read");
            };
            let source = judged(&port, amount);
            // Within one adapter bytes need not pass its port.
            let support = if source.support == Support::Contradicts {
                Support::NoData
            } else {
                source.support
            };
            EvidenceSource { support, ..source }
        }
        _ => EvidenceSource::no_data("nothing that counts this was read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(nvlink: Option<u64>, network: &[(&str, u64)]) -> Moved {
        Moved {
            required: 1000.0 * 1e6,
            nvlink: nvlink.map(|by| by * 1_000_000),
            network: network
                .iter()
                .map(|(name, by)| ((*name).to_owned(), by * 1_000_000))
                .collect(),
            read: ["lo", "eth0", "mlx5_0/1", "mlx5_1/1"].map(str::to_owned).into(),
        }
    }

    #[test]
    fn counters_speak_for_what_they_count() {
        let socket = TransportKind::Socket("eth0".to_owned());
        let rdma = TransportKind::Rdma { device: "mlx5_0".to_owned(), port: 1 };
        for (kind, counters, support) in [
            (&TransportKind::P2p, moved(Some(980), &[("lo", 3)]), Support::Confirms),
            // Half of a ring's bytes are enough where switches reduce, and P2P would move them as well.
            (&TransportKind::Nvls, moved(Some(570), &[]), Support::NoData),
            (&TransportKind::Nvls, moved(Some(10), &[]), Support::Contradicts),
            (&TransportKind::P2p, moved(None, &[]), Support::NoData),
            // Over PCIe, possibly.
            (&TransportKind::P2p, moved(Some(0), &[("lo", 3)]), Support::NoData),
            (&TransportKind::P2p, moved(Some(0), &[("mlx5_0/1", 1200)]), Support::Contradicts),
            // It may have been PCIe.
            (&TransportKind::Shm, moved(Some(0), &[("lo", 3)]), Support::NoData),
            (&TransportKind::Shm, moved(None, &[("lo", 3)]), Support::NoData),
            (&TransportKind::Shm, moved(Some(900), &[]), Support::Contradicts),
            (&TransportKind::Shm, moved(Some(0), &[("lo", 1001)]), Support::Contradicts),
            (&socket, moved(Some(0), &[("lo", 1010)]), Support::Confirms),
            (&socket, moved(Some(0), &[("eth0", 1010), ("lo", 1)]), Support::Confirms),
            (&socket, moved(Some(0), &[("lo", 10)]), Support::Contradicts),
            (&socket, moved(Some(0), &[("lo", 200)]), Support::NoData),
            (&rdma, moved(Some(0), &[("mlx5_0/1", 1010)]), Support::Confirms),
            (&rdma, moved(Some(0), &[("mlx5_1/1", 1010)]), Support::NoData),
        ] {
            let source = evidence(kind, Scope::All, &counters);
            assert_eq!(source.support, support, "{kind:?} {counters:?}: {}", source.detail);
        }
        // Between nodes the network is to be busy, whatever runs within them.
        let busy = moved(Some(0), &[("lo", 1001)]);
        assert_eq!(evidence(&TransportKind::Shm, Scope::Within, &busy).support, Support::NoData);
        assert_eq!(evidence(&TransportKind::P2p, Scope::Within, &busy).support, Support::NoData);
        assert_eq!(
            evidence(&TransportKind::Shm, Scope::Within, &moved(Some(800), &[])).support,
            Support::Contradicts
        );
    }

    /// With small sizes the ranks' control traffic is as large as the data.
    #[test]
    fn few_bytes_tell_nothing() {
        let little = Moved { required: 8.1e3, nvlink: Some(0), ..moved(Some(0), &[("lo", 24)]) };
        for kind in [
            TransportKind::P2p,
            TransportKind::Nvls,
            TransportKind::Shm,
            TransportKind::Socket("eth0".to_owned()),
        ] {
            assert_eq!(evidence(&kind, Scope::All, &little).support, Support::NoData, "{kind:?}");
        }
    }

    /// A device that was not read is no device that was idle.
    #[test]
    fn what_was_not_read_says_nothing() {
        let socket = TransportKind::Socket("eth0".to_owned());
        let rdma = TransportKind::Rdma { device: "mlx5_0".to_owned(), port: 1 };
        for read in [vec![], vec!["lo"], vec!["eth0"]] {
            let moved = Moved {
                read: read.iter().map(|name| (*name).to_owned()).collect(),
                ..moved(Some(0), &[])
            };
            assert_eq!(evidence(&socket, Scope::All, &moved).support, Support::NoData, "{read:?}");
            assert_eq!(evidence(&rdma, Scope::All, &moved).support, Support::NoData, "{read:?}");
        }
    }
}
