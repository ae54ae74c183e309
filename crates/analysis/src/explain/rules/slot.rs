//! A NIC that is faster than its PCIe slot.
//! Not a link that trained below its capability: `busbw topo` and `busbw doctor` find that on the machine.

use busbw_hardware::{
    limits::{Bottleneck, Resource},
    machine::PcieLink,
};

use super::super::context::Context;
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::{list, rate};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let (Some(machine), Some(ceiling)) = (&context.machine, &context.ceiling) else {
        return Vec::new();
    };
    if ceiling.crossed(Resource::NicSlot).is_none() {
        return Vec::new();
    }
    let limiting =
        context.judgement.bottleneck == Bottleneck::SetBy { resource: Resource::NicSlot };
    let mut findings = Vec::new();
    for nics in &machine.machine.node.nics {
        let (Some(slot), Some(rate_gbit)) = (nics.slot, nics.rate) else { continue };
        let slot_rate = slot.line() / nics.sharing.max(1) as f64;
        let nic_rate = rate_gbit / 8.0;
        if slot_rate >= nic_rate {
            continue;
        }
        // NCCL's topology in the log tells how fast a slot is, not its lanes.
        let told = machine.named;
        let cure = match (nics.sharing > 1, slot.width < 16) {
            (true, _) => "a slot of its own",
            _ if !told => "a faster slot",
            (false, true) => "a slot with 16 lanes",
            (false, false) => "a slot of a newer generation",
        };
        let fit = fitting(nic_rate);
        let confidence = if limiting { Confidence::Likely } else { Confidence::Certain };
        findings.push(
            Finding::new("slot-narrower-than-nic", Severity::Slow, format!("the PCIe slot ({slot}, {} GB/s) is slower than the NIC ({rate_gbit} Gb/s, {} GB/s)", rate(slot_rate), rate(nic_rate))).confidence(confidence)
            .evidence(if told {
                format!("machine description: link {slot} for a NIC of {rate_gbit} Gb/s")
            } else {
                let (pci, net) = (slot.nccl(), nic_rate);
                format!("NCCL's topology in the log: PCI[{pci:.1}] before NET[{net:.1}], as of {slot} or of half as many lanes of the next generation{}", unread(pci))
            })
            .remedy(format!("move the NIC to {cure}; a NIC of {rate_gbit} Gb/s needs {fit}"))
            .confirm("ib_write_bw -d mlx5_0 --report_gbits between the hosts (it reaches the same rate); sudo lspci -vv -s <NIC> | grep LnkSta"),
        );
    }
    findings
}

/// NCCL reckons with as much where it cannot read a link (its src/graph/topo.cc).
fn unread(pci: f64) -> &'static str {
    if pci == 12.0 { "; NCCL also writes 12.0 for a link that it cannot read" } else { "" }
}

/// The narrowest slot of each PCIe generation whose line rate carries `nic_rate`, GB/s.
fn fitting(nic_rate: f64) -> String {
    let narrowest = |generation| {
        let carries = |width: &u8| {
            PcieLink { generation, width: *width, max_payload: None }.line() >= nic_rate
        };
        let width = [4u8, 8, 16].into_iter().find(carries)?;
        Some(format!("{width} lanes of PCIe {generation}.0"))
    };
    let fit: Vec<String> = (3..=6).filter_map(narrowest).take(2).collect();
    if fit.is_empty() {
        "more than one slot of any PCIe generation".to_owned()
    } else {
        list(&fit, "or")
    }
}
