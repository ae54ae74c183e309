//! The constants of the model by release. Order of protocols: LL, LL128, Simple.
//! Not their use (`bandwidth`, `latency`).

use super::communicator::{Communicator, Version};
use super::table::Protocol;
use crate::limits::Algorithm;
use crate::machine::CpuVendor;

/// Where a hop of an algorithm goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hop {
    NvLink,
    Pci,
    Net,
}

/// Base latency of an algorithm, microseconds (`baseLat`).
pub(super) fn base(version: Version, algorithm: Algorithm, protocol: Protocol) -> f32 {
    let minor = version.minor;
    let by_protocol = match algorithm {
        Algorithm::Tree if minor < 23 => [6.8, 14.0, 0.0],
        Algorithm::Tree => [6.8, 14.0, 8.4],
        Algorithm::Ring => [6.6, 14.0, 8.4],
        Algorithm::CollNetDirect | Algorithm::CollNetChain if minor < 19 => [6.8, 14.0, 0.0],
        Algorithm::Nvls | Algorithm::NvlsTree if minor < 19 => [0.0, 0.0, 23.0],
        Algorithm::Pat => [8.0, 8.0, 8.0],
        _ => [0.0; 3],
    };
    by_protocol[protocol as usize]
}

/// Latency of one hop, microseconds (`hwLat`).
pub(super) fn hop(version: Version, algorithm: Algorithm, protocol: Protocol, hop: Hop) -> f32 {
    let minor = version.minor;
    let simple = |nvlink: f32, pci: f32, net: f32| match hop {
        Hop::NvLink => [0.0, 0.0, nvlink],
        Hop::Pci => [0.0, 0.0, pci],
        Hop::Net => [0.0, 0.0, net],
    };
    let by_protocol = match (algorithm, hop) {
        (Algorithm::Ring, Hop::NvLink) => [0.6, 1.9, 3.4],
        (Algorithm::Ring, Hop::Pci) => [1.0, 2.5, 5.7],
        (Algorithm::Ring, Hop::Net) => [2.7, 4.0, 14.0],
        (Algorithm::Tree, hop) => {
            let simple = match (minor, hop) {
                (18, Hop::NvLink) => 4.0,
                (18, Hop::Pci) => 6.0,
                (18, Hop::Net) => 14.0,
                (19..=22, _) => 28.0,
                (_, Hop::Net) => 14.0,
                _ => 4.0,
            };
            match hop {
                Hop::NvLink => [0.6, 1.25, simple],
                Hop::Pci => [1.0, 1.9, simple],
                Hop::Net => [5.0, 8.5, simple],
            }
        }
        (Algorithm::CollNetDirect, _) if minor < 19 => simple(8.0, 8.0, 10.7),
        (Algorithm::CollNetDirect, _) => simple(3.7, 3.7, 31.0),
        (Algorithm::CollNetChain, _) if minor < 19 => simple(4.75, 8.0, 14.0),
        (Algorithm::CollNetChain, _) => simple(2.8, 2.8, 30.0),
        (Algorithm::Nvls, _) => simple(switch(minor), 0.0, 18.0),
        (Algorithm::NvlsTree, _) => {
            let net = match minor {
                18 => 19.0,
                _ if version.from(28, 9) => 20.9,
                _ => 14.0,
            };
            simple(switch(minor), 0.0, net)
        }
        (Algorithm::Pat, _) => simple(4.0, 4.0, 14.0),
        (Algorithm::Direct, _) => [0.0; 3],
    };
    by_protocol[protocol as usize]
}

/// A hop through NVSwitches that reduce.
fn switch(minor: u32) -> f32 {
    match minor {
        18 => 0.0,
        19 | 20 => 23.0,
        _ => 25.0,
    }
}

/// Volta and older, Ampere (and Ada), Hopper, Blackwell (a row of its own from 2.25 on).
fn generation(communicator: &Communicator) -> usize {
    match communicator.sm {
        100.. if communicator.version.minor >= 25 => 3,
        90.. => 2,
        80.. => 1,
        _ => 0,
    }
}

/// One node, two, or more.
fn nodes(communicator: &Communicator) -> usize {
    communicator.nodes.clamp(1, 3) - 1
}

/// Maximum bandwidth of LL, GB/s: by GPU on one node, by processor on several.
pub(super) fn max_ll_bandwidth(communicator: &Communicator) -> f64 {
    let minor = communicator.version.minor;
    let amd = communicator.cpu == Some(CpuVendor::Amd) || communicator.mixed_cpu && minor >= 24;
    let row = if communicator.nodes == 1 { generation(communicator) } else { usize::from(amd) };
    let rows = [
        [39.0, 39.0, 20.4],
        [87.7, 22.5, 19.0],
        if minor < 21 { [87.7, 22.5, 19.0] } else { [141.0, 45.0, 35.0] },
        [282.0, 90.0, 70.0],
    ];
    rows[row][nodes(communicator)]
}

/// Maximum bandwidth of a ring channel with LL128, GB/s.
pub(super) fn max_ring_ll128_bandwidth(communicator: &Communicator) -> f64 {
    let blackwell = match communicator.version {
        version if version.from(29, 7) => [40.0; 3],
        version if version.from(29, 0) => [34.5, 34.6, 34.5],
        version if version.from(28, 7) => [2.0 * 36.7, 34.6, 2.0 * 36.7],
        _ => [2.0 * 36.7; 3],
    };
    let rows = [[20.0; 3], [20.0; 3], [36.7; 3], blackwell];
    rows[generation(communicator)][nodes(communicator)]
}

/// Maximum bandwidth of a tree channel with LL128, GB/s.
pub(super) fn max_tree_ll128_bandwidth(communicator: &Communicator) -> f64 {
    let blackwell = match communicator.version.minor {
        ..=27 => [2.0 * 36.7, 2.0 * 36.7, 2.0 * 29.0],
        _ => [55.6, 31.67, 20.0],
    };
    let rows = [[20.0; 3], [20.0; 3], [36.7, 36.7, 29.0], blackwell];
    rows[generation(communicator)][nodes(communicator)]
}

/// Maximum bandwidth of a tree channel, GB/s.
pub(super) fn max_tree_bandwidth(communicator: &Communicator) -> f64 {
    let blackwell = match communicator.version.minor {
        ..=27 => [2.0 * 38.7, 2.0 * 41.4, 2.0 * 36.0],
        _ => [70.0, 42.8, 24.0],
    };
    let rows = [[26.5, 18.5, 10.0], [24.0, 23.6, 17.8], [38.7, 41.4, 36.0], blackwell];
    rows[generation(communicator)][nodes(communicator)]
}

/// Maximum bandwidth of an NVLSTree channel, GB/s; from 2.28 on.
pub(super) fn max_nvls_tree_bandwidth(communicator: &Communicator) -> f32 {
    let blackwell = match communicator.version {
        version if version.from(30, 0) => [0.0, 96.0, 80.0],
        version if version.from(28, 9) => [0.0, 96.0, 43.8],
        _ => [0.0, 96.0, 43.1],
    };
    let rows = [[26.5, 18.5, 10.0], [24.0, 23.6, 17.8], [0.0, 57.7, 45.5], blackwell];
    rows[generation(communicator)][nodes(communicator)]
}

/// Share of a channel that NVLS uses; from 2.28 on.
pub(super) fn nvls_efficiency(communicator: &Communicator) -> f32 {
    [0.0, 0.0, 0.85, 0.74][generation(communicator)]
}

/// Microseconds to post to the network (NCCL_NET_OVERHEAD's default).
pub(super) fn net_overhead(communicator: &Communicator) -> f32 {
    if communicator.cpu == Some(CpuVendor::Amd) { 2.0 } else { 1.0 }
}

/// Factor on a tree's bandwidth at 64 B, 128 B, … (`treeCorrectionFactor`); the last is
/// reached by NVLSTree alone.
pub(super) const TREE_CORRECTION: [[f32; 24]; 3] = [
    [
        1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8,
        0.9, 1.0, 1.0, 1.0, 1.0, 1.0,
    ],
    [
        1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9,
        0.9, 0.9, 0.9, 1.0, 1.0, 1.0,
    ],
    [
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8,
        0.7, 0.7, 0.8, 0.9, 0.9, 0.9,
    ],
];
