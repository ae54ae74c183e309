//! The addresses (GIDs) of a RoCE port: whether one is RoCEv2 over IPv4, and whether NCCL uses it.
//! Not InfiniBand's: there the first address is right.

use busbw_core::finding::Finding;

use super::{Node, advice::Advice, network::ABOUT};
use crate::machine::{Gid, Port, RdmaDevice};
use busbw_core::nccl_version::Version;

/// The first NCCL release that chooses the index itself: its troubleshooting page, "RDMA over Converged Ethernet".
const FIRST_NCCL_THAT_CHOOSES: Version = Version::new(2, 21, 0);

/// Judges one port's addresses against NCCL_IB_GID_INDEX and the NCCL in use.
pub(super) fn judge(node: &Node, device: &RdmaDevice, port: &Port, name: &str) -> Finding {
    let confirm = &format!("show_gids {}", device.name);
    let table = &port.gids;
    if !table.is_empty() && table.iter().all(|gid| gid.version_two.is_none()) {
        return ABOUT.unknown(name, "the kernel does not show the types of its addresses", confirm);
    }
    let Some(right) = table.iter().find(|g| g.version_two == Some(true) && g.ipv4().is_some())
    else {
        return ABOUT.slow(
            name,
            "it has no RoCEv2 address for IPv4",
            &Advice {
                cost: "RoCEv1 or a link-local address is used: neither is routed between subnets; ibv_modify_qp may fail",
                remedy: &format!("give {} an IPv4 address", interfaces(device)),
                confirm,
            },
        );
    };
    let index = right.index;
    let address = right.ipv4().map_or_else(String::new, |address| address.to_string());
    let seen = format!("RoCEv2 address {address} at index {index}");
    let nccl = node.nccl_version();
    match node.variable("NCCL_IB_GID_INDEX").and_then(|text| text.trim().parse::<i64>().ok()) {
        // -1 is the default.
        Some(chosen) if chosen >= 0 => chosen_index(table, chosen, &seen, name, confirm, nccl),
        _ if index == 0 || nccl.is_some_and(|nccl| nccl >= FIRST_NCCL_THAT_CHOOSES) => ABOUT.fine(name, seen),
        _ => match nccl {
            Some(nccl) => ABOUT.error(
                name,
                format!("{seen}; NCCL {nccl} uses index 0"),
                &Advice {
                    cost: "ibv_modify_qp fails with Invalid argument, or RoCEv1 is used",
                    remedy: &format!("NCCL_IB_GID_INDEX={index}, or NCCL 2.21 or later, which choose the index themselves"),
                    confirm,
                },
            ),
            None => {
                let seen = format!("{seen}; NCCL before 2.21 needs NCCL_IB_GID_INDEX={index}");
                ABOUT.note(name, seen, confirm)
            }
        },
    }
}

/// The user chose.
fn chosen_index(
    table: &[Gid],
    chosen: i64,
    seen: &str,
    name: &str,
    confirm: &str,
    nccl: Option<Version>,
) -> Finding {
    let entry = table.iter().find(|gid| i64::from(gid.index) == chosen);
    let wrong = match entry {
        None => "which is empty",
        Some(gid) if gid.version_two != Some(true) => "which is RoCEv1",
        Some(_) if nccl.is_some_and(|nccl| nccl >= FIRST_NCCL_THAT_CHOOSES) => {
            let seen = format!(
                "{seen}; NCCL_IB_GID_INDEX={chosen} is not needed from NCCL 2.21 on, and may be wrong on another node"
            );
            return ABOUT.note(name, seen, confirm);
        }
        Some(_) => return ABOUT.fine(name, format!("{seen}; NCCL_IB_GID_INDEX={chosen}")),
    };
    ABOUT.error(
        name,
        format!("NCCL_IB_GID_INDEX={chosen}, {wrong}; {seen}"),
        &Advice {
            cost: "ibv_modify_qp fails with Invalid argument, or traffic is not routed",
            remedy: "unset NCCL_IB_GID_INDEX (NCCL 2.21 and later), or set it to that index",
            confirm,
        },
    )
}

fn interfaces(device: &RdmaDevice) -> String {
    if device.interfaces.is_empty() {
        "its interface".to_owned()
    } else {
        device.interfaces.join(" and ")
    }
}
