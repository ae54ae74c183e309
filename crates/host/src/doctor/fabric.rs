//! NVLink: links that are down, the fabric of NVSwitches, NVLink between nodes (IMEX).
//! Not their bandwidth.

use busbw_core::finding::Finding;
use busbw_ffi::nvml::{Fabric, FabricState, Gpu, NvLinks, Reading};

use super::{
    Node,
    advice::{About, Advice},
};

const ABOUT: About = About("fabric");
const LINKS: &str = "nvidia-smi nvlink -s";
const FABRIC: &str = "nvidia-smi -q | grep -A 12 Fabric";

/// Checks every GPU's links and registration, then what NVLink between nodes needs.
pub fn check(node: &Node) -> Vec<Finding> {
    let most = node.gpus().filter_map(|gpu| gpu.nvlinks.value()).map(|links| links.all).max();
    let mut findings = Vec::new();
    for gpu in node.gpus() {
        let name = &format!("GPU {}", gpu.index);
        findings.extend(links(&gpu.nvlinks, most, node.gpu_count(), name));
        findings.extend(registration(&gpu.fabric, name));
    }
    findings.extend(cliques(node));
    findings.extend(imex(node));
    findings
}

fn links(read: &Reading<NvLinks>, most: Option<u32>, gpus: usize, name: &str) -> Vec<Finding> {
    let links = match read {
        Reading::Value(links) => links,
        // Others have links and this one says it has none.
        Reading::Unsupported if most.is_some() && gpus > 1 => &NvLinks::default(),
        Reading::Unsupported => return vec![ABOUT.absent(name, "no NVLink")],
        Reading::Unknown(why) => return vec![ABOUT.unknown(name, format!("NVLink: {why}"), LINKS)],
        Reading::Unasked => return Vec::new(),
    };
    let all = most.unwrap_or(links.all);
    let mut findings = Vec::new();
    if links.up < all {
        let cause = format!("{} of {all} NVLinks are up", links.up);
        // Every link carries the same; NCCL's own model multiplies by their number (src/graph/topo.cc).
        let cost = match links.up * 100 / all.max(1) {
            0 => "no NVLink: NCCL uses PCIe or host memory".to_owned(),
            rest => {
                format!("at most {rest} % of its NVLink bandwidth, and every ring waits for it")
            }
        };
        findings.push(ABOUT.slow(
            name,
            cause,
            &Advice {
                cost: &cost,
                remedy: "look for XID 74 and 144-150 in dmesg; reset all GPUs together, or reboot; else the baseboard or bridge",
                confirm: LINKS,
            },
        ));
    } else {
        findings.push(ABOUT.fine(name, format!("all {all} NVLinks up")));
    }
    if let Some(errors) = links.errors.filter(|errors| *errors > 0) {
        let seen = format!("{errors} NVLink replays and recoveries so far");
        findings.push(ABOUT.note(name, seen, "nvidia-smi nvlink -e"));
    }
    findings
}

/// docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide: CUDA starts on NVSwitch systems only when
/// registration is complete (cudaErrorSystemNotReady, 802). Health bits: nvml.h, fabric definitions.
fn registration(read: &Reading<Fabric>, name: &str) -> Option<Finding> {
    let fabric = match read {
        Reading::Value(fabric) => fabric,
        Reading::Unsupported | Reading::Unasked => return None,
        Reading::Unknown(why) => {
            return Some(ABOUT.unknown(name, format!("NVLink fabric: {why}"), FABRIC));
        }
    };
    let error = |cause: String, cost, remedy| {
        Some(ABOUT.error(name, cause, &Advice { cost, remedy, confirm: FABRIC }))
    };
    match (fabric.state, fabric.failed) {
        (FabricState::NotSupported, _) => return None,
        (FabricState::NotStarted | FabricState::InProgress, _) => {
            return error(
                "it is not registered with the NVLink fabric".to_owned(),
                "CUDA does not start on NVSwitch systems before that (error 802, system not yet ready)",
                "sudo systemctl start nvidia-fabricmanager, of the same version as the driver; see /var/log/fabricmanager.log",
            );
        }
        (FabricState::Completed, Some(code)) => {
            return error(
                format!("registration with the NVLink fabric failed: NVML error {code}"),
                "no peer access over NVLink",
                "sudo systemctl restart nvidia-fabricmanager; see /var/log/fabricmanager.log",
            );
        }
        (FabricState::Completed, None) => {}
    }
    if fabric.misconfigured() || fabric.route_unhealthy() {
        return error(
            format!("the NVLink fabric reports bad health, mask {:#x}", fabric.health),
            "traffic over it stops or fails",
            "check the log of the fabric manager or NVLink subnet manager, and the partition",
        );
    }
    if fabric.bandwidth_degraded() {
        let advice = Advice {
            cost: "less NVLink bandwidth than the GPU has",
            remedy: "find links that are down; see the fabric manager's log",
            confirm: FABRIC,
        };
        return Some(ABOUT.slow(name, "the NVLink fabric reports degraded bandwidth", &advice));
    }
    let seen = format!("NVLink fabric registration completed, clique {}", fabric.clique);
    Some(ABOUT.fine(name, seen))
}

/// GPUs of one node in several cliques do not reach each other over NVLink.
fn cliques(node: &Node) -> Option<Finding> {
    let mut all: Vec<([u8; 16], u32)> =
        registered(node).map(|(_, f)| (f.cluster, f.clique)).collect();
    all.sort_unstable();
    all.dedup();
    (all.len() > 1).then(|| {
        ABOUT.slow(
            "cliques",
            format!("this node's GPUs are in {} NVLink cliques", all.len()),
            &Advice {
                cost: "between cliques there is no NVLink: PCIe or network instead",
                remedy: "put them into one partition (fabric manager or NMX), unless this is intended",
                confirm: FABRIC,
            },
        )
    })
}

fn registered(node: &Node) -> impl Iterator<Item = (&Gpu, &Fabric)> {
    let fabrics = node.gpus().filter_map(|gpu| Some((gpu, gpu.fabric.value()?)));
    fabrics.filter(|(_, fabric)| fabric.state == FabricState::Completed)
}

/// docs.nvidia.com/multi-node-nvlink-systems/imex-guide, "IMEX Channels": the device files are made by the
/// administrator, do not outlast a reboot, and without them CUDA refuses with a permission error.
fn imex(node: &Node) -> Option<Finding> {
    const NAME: &str = "IMEX";
    // All zeros: NVLink ends within the node.
    registered(node).find(|(_, fabric)| fabric.cluster != [0; 16])?;
    let channels = node.root.names("dev/nvidia-caps-imex-channels");
    if channels.is_empty() {
        return Some(ABOUT.slow(
            NAME,
            "NVLink spans nodes, but there is no channel in /dev/nvidia-caps-imex-channels",
            &Advice {
                cost: "no memory is shared between nodes: NCCL uses the network instead of NVLink",
                remedy: "start nvidia-imex on every node and make channel0 (mknod with the major number of /proc/devices); in containers, request a channel",
                confirm: "ls /dev/nvidia-caps-imex-channels; nvidia-imex-ctl -N; NCCL_DEBUG=INFO shows MNNVL 1",
            },
        ));
    }
    Some(ABOUT.fine(NAME, format!("{} in /dev/nvidia-caps-imex-channels", channels.join(", "))))
}
