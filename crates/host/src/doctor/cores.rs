//! CPU affinity: whether this process may run on cores near every GPU and NIC, and on enough of them.
//! Not the cores it runs on.

use busbw_core::finding::Finding;
use busbw_core::quantity::ranged;

use super::{
    Node,
    advice::{About, Advice},
};
use crate::machine;

const ABOUT: About = About("cores");
const NAME: &str = "affinity";
const CONFIRM: &str = "grep Cpus_allowed_list /proc/self/status; nvidia-smi topo -m";

/// Compares the cores allowed with those near each device.
pub fn check(node: &Node) -> Vec<Finding> {
    let Some(allowed) = machine::allowed_cores(&node.root) else {
        return vec![ABOUT.unknown(NAME, "/proc/self/status cannot be read", CONFIRM)];
    };
    let endpoints = node.endpoints();
    let mut far = Vec::new();
    let mut unknown = Vec::new();
    for (name, device) in &endpoints {
        let near = device.local_cores.as_deref().map(machine::processor_list).unwrap_or_default();
        if near.is_empty() {
            unknown.push(name.as_str());
        } else if near.iter().all(|core| !allowed.contains(core)) {
            far.push(name.as_str());
        }
    }
    let mut findings = Vec::new();
    if !far.is_empty() {
        findings.push(ABOUT.slow(
            NAME,
            format!("none of the {} cores allowed is near {}", allowed.len(), ranged(&far)),
            &Advice {
                cost: "NCCL's proxy threads and host buffers are on the other socket: every byte through host memory crosses between sockets",
                remedy: "widen the binding of the launcher or container (--cpuset-cpus, --cpu-bind, --bind-to numa)",
                confirm: CONFIRM,
            },
        ));
    }
    if !unknown.is_empty() {
        let why = format!("the cores near {} are not known", ranged(&unknown));
        findings.push(ABOUT.unknown(NAME, why, CONFIRM));
    }
    // One busy proxy thread and one that launches for every GPU: NCCL's src/proxy.cc.
    let wanted = 2 * node.gpu_count();
    if allowed.len() < wanted {
        findings.push(ABOUT.slow(
            NAME,
            format!("{} cores for {} GPUs", allowed.len(), node.gpu_count()),
            &Advice {
                cost: "each GPU keeps a launch thread and a proxy thread busy; with fewer cores they share one",
                remedy: &format!("allow at least {wanted} cores (--cpus-per-task, --cpus, resources of the pod)"),
                confirm: CONFIRM,
            },
        ));
    }
    if findings.is_empty() {
        let near = if endpoints.is_empty() { "" } else { ", some near every GPU and NIC" };
        findings.push(ABOUT.fine(NAME, format!("{} cores allowed{near}", allowed.len())));
    }
    findings
}
