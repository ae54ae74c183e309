//! Relaxed ordering: whether an adapter may let its PCIe writes pass each other, as NCCL asks it to.
//! Not whether a memory region was registered for it: only the program knows.

use busbw_core::{finding::Finding, quantity::ranged};

use super::{Node, advice::About};

const ABOUT: About = About("pcie");
const NAME: &str = "relaxed ordering";

/// One finding on all adapters. NCCL asks for it where the device has it (NCCL_IB_PCI_RELAXED_ORDERING=2, its default).
pub fn check(node: &Node) -> Vec<Finding> {
    judge(node).into_iter().collect()
}

fn judge(node: &Node) -> Option<Finding> {
    // A virtual function follows its physical one (PCI Express Base Specification 6.0, 9.3.5.4).
    let is_virtual =
        |address: &str| node.root.exists(format!("sys/bus/pci/devices/{address}/physfn"));
    let adapters: Vec<(&str, Option<bool>, &str)> = node
        .adapters()
        .filter(|(_, pci)| !is_virtual(&pci.address))
        .map(|(rdma, pci)| (rdma.name.as_str(), pci.relaxed_ordering, pci.address.as_str()))
        .collect();
    let named = |wanted: Option<bool>| -> Vec<&str> {
        adapters.iter().filter(|(_, may, _)| *may == wanted).map(|(name, ..)| *name).collect()
    };
    let (on, off, hidden) = (named(Some(true)), named(Some(false)), named(None));
    let first = adapters.iter().find(|(_, may, _)| *may != Some(true)).or(adapters.first())?.2;
    let confirm = format!("sudo lspci -vv -s {first} | grep RlxdOrd");
    if !off.is_empty() {
        let seen = format!("{} may not use it", ranged(&off));
        // NCCL user guide, NCCL_IB_PCI_RELAXED_ORDERING.
        let cost = "writes to memory wait for each other; NVIDIA says that relaxed ordering can greatly help in \
                    virtualized environments";
        let remedy = "turn it on in the BIOS (PCIe relaxed ordering), or in the adapter (mlxconfig, PCI_WR_ORDERING)";
        return Some(ABOUT.note(NAME, seen, &confirm).cost(cost).remedy(remedy));
    }
    if !hidden.is_empty() {
        let why = format!(
            "{} do not show it: the configuration space takes root to read",
            ranged(&hidden)
        );
        return Some(ABOUT.unknown(NAME, why, &confirm));
    }
    if node.variable("NCCL_IB_PCI_RELAXED_ORDERING").is_some_and(|text| text.trim() == "0") {
        let seen = format!("{} may use it; NCCL_IB_PCI_RELAXED_ORDERING=0 does not", ranged(&on));
        return Some(ABOUT.note(NAME, seen, "env | grep RELAXED"));
    }
    Some(ABOUT.fine(NAME, format!("{} may use it", ranged(&on))))
}
