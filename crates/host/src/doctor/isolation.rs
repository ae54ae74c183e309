//! What redirects traffic between devices: ACS on PCIe ports, translation by the IOMMU.
//! NCCL's troubleshooting page, "PCI Access Control Services (ACS)": either sends peer traffic up to the
//! CPU's root complex, "causing a significant performance reduction or even a hang".

use std::collections::BTreeSet;

use busbw_core::finding::Finding;
use busbw_core::quantity::ranged;

use super::{
    Node,
    advice::{About, Advice},
};
use crate::machine::Access;

const ABOUT: About = About("isolation");

/// Looks at the ports above GPUs and adapters, and at their IOMMU groups.
pub fn check(node: &Node) -> Vec<Finding> {
    if node.endpoints().is_empty() {
        return vec![ABOUT.absent("ACS and IOMMU", "no GPU or RDMA adapter on the bus")];
    }
    vec![access_control(node), iommu(node)]
}

fn access_control(node: &Node) -> Finding {
    const NAME: &str = "ACS";
    const CONFIRM: &str = "sudo lspci -vvv | grep -e '^[0-9a-f]' -e ACSCtl";
    let endpoints = node.endpoints();
    let above: BTreeSet<&String> = endpoints.iter().flat_map(|(_, device)| &device.above).collect();
    let ports: Vec<_> = above.iter().filter_map(|address| node.pci(address)).collect();
    if ports.is_empty() && !node.sees_the_bus() {
        return ABOUT.unknown(NAME, "/sys does not show the GPUs' place on the bus", CONFIRM);
    }
    if ports.is_empty() {
        return ABOUT.absent(
            NAME,
            "no PCIe port above the devices: a virtual machine, or a root complex alone",
        );
    }
    let on: Vec<&str> =
        ports.iter().filter(|p| p.access.redirects()).map(|p| p.address.as_str()).collect();
    let hidden = ports.iter().filter(|p| p.access == Access::Hidden).count();
    if on.is_empty() && hidden > 0 {
        let why =
            format!("{hidden} ports do not show it: the configuration space takes root to read");
        return ABOUT.unknown(NAME, why, CONFIRM);
    }
    if on.is_empty() {
        return ABOUT.fine(NAME, format!("{} PCIe ports redirect nothing", ports.len()));
    }
    let first: Vec<&str> = on.iter().copied().take(4).collect();
    let more = if on.len() > first.len() { " and more" } else { "" };
    ABOUT.slow(
        NAME,
        format!("{} of {} PCIe ports redirect peer traffic: {}{more}", on.len(), ports.len(), first.join(", ")),
        &Advice {
            cost: "GPU to GPU and GPU to NIC traffic over PCIe goes up to the CPU: much slower, or it hangs",
            remedy: &format!("bare metal: sudo setpci -s {} ECAP_ACS+0x6.w=0000 for each, at every boot, or off in the BIOS; a VM host needs ACS, with ATS on the NICs", on[0]),
            confirm: CONFIRM,
        },
    )
}

/// The kernel's default domain types: Documentation/ABI/testing/sysfs-kernel-iommu_groups.
fn iommu(node: &Node) -> Finding {
    const NAME: &str = "IOMMU";
    const CONFIRM: &str = "cat /sys/kernel/iommu_groups/*/type | sort | uniq -c; cat /proc/cmdline";
    let endpoints = node.endpoints();
    let translated: Vec<&str> = endpoints
        .iter()
        .filter(|(_, device)| device.iommu.as_deref().is_some_and(|kind| kind.starts_with("DMA")))
        .map(|(name, _)| name.as_str())
        .collect();
    if !translated.is_empty() {
        let seen = format!("it translates the addresses of {}", ranged(&translated));
        // Grace and its like translate by design, with ATS.
        if node.root.text("proc/cpuinfo").is_some_and(|info| info.contains("CPU implementer")) {
            return ABOUT.note(NAME, format!("{seen}; usual on Arm with ATS"), CONFIRM);
        }
        return ABOUT.slow(
            NAME,
            seen,
            &Advice {
                cost: "peer traffic over PCIe is redirected to the CPU's root complex: much slower, or it hangs",
                remedy: "bare metal: boot with iommu=pt, or turn VT-d / AMD-Vi off in the BIOS",
                confirm: CONFIRM,
            },
        );
    }
    if endpoints.iter().any(|(_, device)| device.iommu.is_some()) {
        return ABOUT.fine(NAME, "on, and passes these devices' addresses through");
    }
    if !node.sees_the_bus() {
        return ABOUT.unknown(NAME, "/sys does not show the GPUs' place on the bus", CONFIRM);
    }
    ABOUT.fine(NAME, "none in the way of these devices")
}
