//! One half of a port: of a GB10's ConnectX-7, whose port of 200 Gb/s shows as two NICs.
//! Not NICs that no connection uses although NCCL lists them (`network`).
//!
//! Source: NVIDIA/dgx-spark-playbooks#102 and its pull request #103. The second NIC of a port has the same name in PCI domain 2:
//! rocep1s0f0 and roceP2p1s0f0, rocep1s0f1 and roceP2p1s0f1.

use std::collections::BTreeSet;

use busbw_core::{
    finding::{Confidence, Finding, Severity},
    quantity::list,
};
use busbw_hardware::machine::{models, ready};

use super::{super::context::Context, HALF_PORT};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let model = context.run.devices.first().and_then(|device| models::find(&device.name));
    if model.and_then(ready::of_chip).is_none() {
        return Vec::new();
    }
    let devices = context.facts().flat_map(|facts| &facts.net_devices);
    let names: BTreeSet<&str> = devices
        .filter(|device| device.what.network == "IB")
        .map(|device| device.what.name.as_str())
        .collect();
    let alone: Vec<(&str, String)> = names
        .iter()
        .filter_map(|name| Some((*name, twin(name)?)))
        .filter(|(_, twin)| !names.contains(twin.as_str()))
        .collect();
    let Some((name, twin)) = alone.first() else { return Vec::new() };
    let used = list(&alone.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "and");
    vec![
        Finding::new(
            HALF_PORT,
            Severity::Slow,
            format!("NCCL uses one half of the GB10's port: {used} without {twin}"),
        )
        .confidence(Confidence::Certain)
        .evidence(format!("NET/IB : Using lists {}", list(&names.iter().copied().collect::<Vec<_>>(), "and")))
        .evidence("a DGX Spark shows each port of 200 Gb/s as two NICs, each on PCIe 5.0 x4: one alone carries about 100 Gb/s")
        .remedy(format!("NCCL_IB_HCA={name},{twin} (NCCL_SOCKET_IFNAME names the bootstrap's interface only)"))
        .confirm("ibdev2netdev; NCCL_DEBUG=INFO … | grep 'NET/IB : Using'"),
    ]
}

/// The name of the other half of a port; none of a NIC that is not of this ConnectX-7.
fn twin(name: &str) -> Option<String> {
    let rest = name.strip_prefix("roce")?;
    match rest.strip_prefix("P2") {
        Some(first) if first.starts_with("p1s0f") => Some(format!("roce{first}")),
        None if rest.starts_with("p1s0f") => Some(format!("roceP2{rest}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_have_each_other_s_name() {
        for (one, other) in [("rocep1s0f0", "roceP2p1s0f0"), ("rocep1s0f1", "roceP2p1s0f1")] {
            assert_eq!(twin(one).as_deref(), Some(other));
            assert_eq!(twin(other).as_deref(), Some(one));
        }
        for other in ["mlx5_0", "rocep65s0f0", "roceP3p1s0f0", "roce"] {
            assert_eq!(twin(other), None, "{other}");
        }
    }
}
