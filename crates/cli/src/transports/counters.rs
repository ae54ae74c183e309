//! Evidence from devices' byte counters, compared with the bytes that had to move.
//! Not which ranks moved them, and not NCCL's log.

use std::collections::BTreeMap;

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
        (TransportKind::Socket(device), _) if !moved.hosts.is_empty() => {
            on_each_host(moved, &|name| name == device, device)
        }
        (TransportKind::Rdma { ports, .. } | TransportKind::Verbs { ports }, _)
            if !moved.hosts.is_empty() =>
        {
            let names: Vec<String> =
                ports.iter().map(|(device, port)| format!("{device}/{port}")).collect();
            on_each_host(moved, &|name| names.iter().any(|own| own == name), &names.join(", "))
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
        (TransportKind::Rdma { ports, .. }, _) => {
            let names: Vec<String> =
                ports.iter().map(|(device, port)| format!("{device}/{port}")).collect();
            let each: Option<Vec<u64>> = names.iter().map(|name| moved.over(name)).collect();
            let Some(each) = each else {
                return EvidenceSource::no_data("the port was not read");
            };
            let source = judged(&names.join(", "), each.into_iter().fold(0, u64::saturating_add));
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

/// The evidence of the devices that `is_meant` selects on every host: each has to move its host's part of the bytes.
fn on_each_host(moved: &Moved, is_meant: &dyn Fn(&str) -> bool, shown: &str) -> EvidenceSource {
    if !moved.read.iter().any(|name| is_meant(name)) {
        return EvidenceSource::no_data(&format!("{shown} was not read on every host"));
    }
    let part = moved.required / moved.hosts.len() as f64;
    let of_host = |devices: &BTreeMap<String, u64>| {
        let meant = devices.iter().filter(|(name, _)| is_meant(name));
        meant.fold(0, |sum: u64, (_, by)| sum.saturating_add(*by))
    };
    let each: Vec<(&String, u64)> =
        moved.hosts.iter().map(|(host, devices)| (host, of_host(devices))).collect();
    let carried = |by: u64| by as f64 >= CARRIED_SHARE * part;
    let idle: Vec<&(&String, u64)> =
        each.iter().filter(|(_, by)| (*by as f64) < IDLE_SHARE * part).collect();
    let sum = each.iter().fold(0, |sum: u64, (_, by)| sum.saturating_add(*by));
    let detail = format!("{shown} {} of {}", bytes(sum), bytes(moved.required as u64));
    let few = |support| {
        let named = idle
            .iter()
            .map(|(host, by)| format!("{} of {} on {host}", bytes(*by), bytes(part as u64)));
        let named = named.collect::<Vec<_>>().join(", ");
        EvidenceSource { support, detail: format!("{shown} moved {named} only") }
    };
    if each.iter().all(|(_, by)| carried(*by)) {
        EvidenceSource { support: Support::Confirms, detail }
    } else if idle.len() == each.len() {
        EvidenceSource { support: Support::Contradicts, detail }
    } else if !idle.is_empty() && each.iter().any(|(_, by)| carried(*by)) {
        few(Support::Partial)
    } else {
        EvidenceSource { support: Support::NoData, detail }
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
            hosts: BTreeMap::new(),
        }
    }

    #[test]
    fn counters_speak_for_what_they_count() {
        let socket = TransportKind::Socket("eth0".to_owned());
        let rdma = TransportKind::Rdma { ports: vec![("mlx5_0".to_owned(), 1)], gpudirect: None };
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

    /// Each host's device has to move its part; a host where it was idle is named.
    #[test]
    fn every_host_counts() {
        let socket = TransportKind::Socket("eth0".to_owned());
        for (a, b, support) in [
            (510, 510, Support::Confirms),
            (2, 3, Support::Contradicts),
            (1000, 2, Support::Partial),
            (510, 100, Support::NoData),
        ] {
            let hosts = [("a", a), ("b", b)].map(|(host, by)| {
                (host.to_owned(), BTreeMap::from([("eth0".to_owned(), by * 1_000_000)]))
            });
            let moved = Moved { hosts: hosts.into(), ..moved(None, &[("eth0", a + b)]) };
            let source = evidence(&socket, Scope::Between, &moved);
            assert_eq!(source.support, support, "{a} {b}: {}", source.detail);
            assert_eq!(source.detail.contains("on b"), support == Support::Partial);
        }
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
        let rdma = TransportKind::Rdma { ports: vec![("mlx5_0".to_owned(), 1)], gpudirect: None };
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
