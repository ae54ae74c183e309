//! Transports in NCCL's log that cost bandwidth: sockets beside RDMA, sockets without helper threads,
//! bounce buffers in host memory, one NIC of several, shared memory instead of P2P.
//! Not whether bytes went there: these lines prove only that a connection was set up.
//!
//! Sources: NCCL's src/transport/net_socket.cc, net.cc, p2p.cc, src/graph/paths.cc.

use busbw_library_logs::nccl::{NcclFacts, Transport, path_word};

use busbw_hardware::machine::{models, ready};

use crate::machine_argument::of_run::ranks_share_gpus;

use super::super::{
    context::{Context, plural},
    placement::setting,
};
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::list;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let facts: Vec<&NcclFacts> = context.facts().collect();
    if facts.is_empty() {
        return Vec::new();
    }
    let transports: Vec<&Transport> =
        facts.iter().flat_map(|facts| &facts.transports).map(|ends| &ends.transport).collect();
    let rules = [sockets_beside_rdma, sockets_alone, bounce, one_nic, shared_memory, more_nodes];
    rules.iter().filter_map(|rule| rule(context, &facts, &transports)).collect()
}

/// The model of the run's GPUs.
fn model(context: &Context<'_>) -> Option<&'static models::Model> {
    models::find(&context.run.devices.first()?.name)
}

type Facts<'a> = &'a [&'a NcclFacts];
type Transports<'a> = &'a [&'a Transport];

fn uses_sockets(facts: Facts<'_>, transports: Transports<'_>) -> bool {
    let connected = transports
        .iter()
        .any(|one| matches!(one, Transport::Net { plugin, .. } if plugin == "Socket"));
    let any_connection = transports.iter().any(|one| matches!(one, Transport::Net { .. }));
    let several = facts
        .iter()
        .flat_map(|facts| &facts.communicators)
        .any(|one| one.nodes.is_some_and(|nodes| nodes > 1));
    connected
        || (several
            && !any_connection
            && facts.iter().any(|facts| facts.networks.contains_key("Socket")))
}

fn rdma_devices(facts: Facts<'_>, context: &Context<'_>) -> Vec<String> {
    let mut found: Vec<String> = facts
        .iter()
        .flat_map(|facts| &facts.net_devices)
        .filter(|device| device.what.network == "IB")
        .map(|device| device.what.name.clone())
        .collect();
    if let Some(machine) = &context.run.machine {
        found.extend(
            machine.nics.iter().filter(|nic| nic.kind == "infiniband").map(|nic| nic.name.clone()),
        );
    }
    found.sort();
    found.dedup();
    found
}

fn sockets_beside_rdma(
    context: &Context<'_>,
    facts: Facts<'_>,
    transports: Transports<'_>,
) -> Option<Finding> {
    let mut rdma = rdma_devices(facts, context);
    if let Some(known) = &context.machine
        && rdma.is_empty()
        && known.machine.node.nics.iter().any(|nics| nics.kind.rdma())
    {
        rdma.push("in the machine's description".to_owned());
    }
    if rdma.is_empty() || !uses_sockets(facts, transports) {
        return None;
    }
    let disabled = setting(context.run, "NCCL_IB_DISABLE").is_some();
    let (confidence, remedy) = if disabled {
        (Confidence::Certain, "unset NCCL_IB_DISABLE")
    } else {
        (
            Confidence::Likely,
            "give the container /dev/infiniband and libibverbs; NCCL's log says why NET/IB found no device or a plugin failed",
        )
    };
    Some(
        Finding::new(
            "sockets-beside-rdma",
            Severity::Slow,
            "NCCL uses TCP sockets although the host has RDMA NICs",
        )
        .confidence(confidence)
        .evidence("NCCL's log: network Socket")
        .evidence(format!("RDMA devices: {}", list(&rdma, "and")))
        .remedy(remedy)
        .confirm("NCCL_DEBUG=INFO … | grep -E 'NET/(IB|Plugin)|Using network'; ibv_devinfo"),
    )
}

fn sockets_alone(_: &Context<'_>, facts: Facts<'_>, transports: Transports<'_>) -> Option<Finding> {
    if !uses_sockets(facts, transports)
        || facts.iter().any(|facts| !facts.socket_threads.is_empty())
    {
        return None;
    }
    Some(
        Finding::new("sockets-without-threads", Severity::Slow, "each connection is one TCP stream, driven by NCCL's proxy thread alone: about 15 to 25 Gb/s, whatever the NIC").confidence(Confidence::Likely)
        .evidence("no line \"NET/Socket: Using N threads and M sockets per thread\"")
        .remedy("NCCL_NET_PLUGIN=$(busbw plugin path), whose threads share every message; or NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4 (their product at most 64), which costs latency at small sizes")
        .confirm("busbw all_reduce --net busbw -b 1M -e 1G -f 4; busbw sweep -x NCCL_SOCKET_NTHREADS=1,4 -x NCCL_NSOCKS_PERTHREAD=1,4 all_reduce -b 1M -e 1G -f 4"),
    )
}

fn bounce(context: &Context<'_>, facts: Facts<'_>, transports: Transports<'_>) -> Option<Finding> {
    // Socket and busbw are TCP: their NICs read host memory only.
    let rdma = |one: &&&Transport| matches!(one, Transport::Net { plugin, .. } if !["Socket", "busbw"].contains(&plugin.as_str()));
    let all = transports.iter().filter(rdma).count();
    let without = transports
        .iter()
        .filter(rdma)
        .filter(|one| matches!(one, Transport::Net { gdrdma: false, .. }))
        .count();
    if without == 0 {
        return None;
    }
    if let Some(far) = too_far(context, facts, without < all) {
        return Some(far.evidence(lacking(without, all)));
    }
    let refused = facts.iter().flat_map(|facts| &facts.gpu_direct).filter(|one| !one.what.enabled);
    let mut disabled: Vec<&str> = refused.map(|one| one.what.name.as_str()).collect();
    disabled.retain(|name| *name != "busbw");
    disabled.sort_unstable();
    disabled.dedup();
    // NVIDIA, DGX Spark user guide: GPUDirect RDMA is not supported.
    if let Some(model) = model(context).filter(|model| ready::of_chip(model).is_some()) {
        let cause = format!(
            "the NICs do not read GPU memory directly, as on every {}: the memory of its GPU is the host's",
            model.name
        );
        let note = Finding::new("no-gpudirect-rdma", Severity::Note, cause);
        return Some(note.confidence(Confidence::Certain));
    }
    let mut finding = Finding::new("no-gpudirect-rdma", Severity::Slow, if without == all {
            "the NICs do not read GPU memory directly: data is staged in host memory"
        } else {
            "some NICs do not read GPU memory directly: their data is staged in host memory"
        }).confidence(Confidence::Certain)
    .evidence(lacking(without, all))
    .remedy("load nvidia-peermem or use DMA-BUF (open kernel modules, Linux 5.12 on); raise NCCL_NET_GDR_LEVEL where the NIC is farther from the GPU than its default allows")
    .confirm("lsmod | grep nvidia_peermem; NCCL_DEBUG=INFO … | grep 'GPU Direct RDMA'; busbw doctor");
    if !disabled.is_empty() {
        finding =
            finding.evidence(format!("GPU Direct RDMA Disabled for {}", list(&disabled, "and")));
    }
    Some(finding)
}

fn lacking(without: usize, all: usize) -> String {
    format!(
        "{without} of {all} {} of network connections {} /GDRDMA",
        plural(all, "kind"),
        if without == 1 { "lacks" } else { "lack" }
    )
}

/// NICs that could read GPU memory, but are farther from the GPU than NCCL_NET_GDR_LEVEL allows.
fn too_far(context: &Context<'_>, facts: Facts<'_>, some: bool) -> Option<Finding> {
    let mut distances = facts.iter().flat_map(|facts| &facts.gdr_distances).map(|one| &one.what);
    let far = distances.find(|one| !one.enabled)?;
    let version = &facts.iter().flat_map(|facts| &facts.versions).next()?.what;
    let word = |length| path_word(version.code, length);
    let (distance, allowed) = (word(far.distance)?, word(far.allowed)?);
    let meet = match distance {
        "PXB" => " over several PCIe switches",
        "PHB" => " at the processor",
        "SYS" => " over the link between processors",
        _ => "",
    };
    let set = match setting(context.run, "NCCL_NET_GDR_LEVEL") {
        Some(_) => "as it is set",
        None => "its default",
    };
    let off = if some { "off for some connections" } else { "off" };
    let release = version.text.split('+').next().unwrap_or_default();
    Some(
        Finding::new("no-gpudirect-rdma", Severity::Slow, format!("GPUDirect RDMA is {off}, data is staged in host memory: GPU and NIC meet{meet} ({distance}), farther than NCCL_NET_GDR_LEVEL allows ({allowed}, {set})"))
            .confidence(Confidence::Certain)
            .evidence(format!(
                "GPU Direct RDMA Disabled for GPU {} / HCA {} (distance {} > {}): {distance} and {allowed} in NCCL {release}",
                far.gpu, far.device, far.distance, far.allowed
            ))
            .remedy(format!("try NCCL_NET_GDR_LEVEL={distance}; where that is no faster, move the NIC below a PCIe switch that it shares with the GPU"))
            .confirm(format!("NCCL_NET_GDR_LEVEL={distance} NCCL_DEBUG=INFO … | grep -e GDRDMA -e distance; nvidia-smi topo -m")),
    )
}

fn one_nic(_: &Context<'_>, facts: Facts<'_>, transports: Transports<'_>) -> Option<Finding> {
    let mut used: Vec<u32> = transports
        .iter()
        .filter_map(|one| match one {
            Transport::Net { device, .. } => Some(*device),
            _ => None,
        })
        .collect();
    used.sort_unstable();
    used.dedup();
    let sockets = uses_sockets(facts, transports);
    let network = if sockets { "Socket" } else { "IB" };
    let mut found: Vec<&str> = facts
        .iter()
        .flat_map(|facts| &facts.net_devices)
        .filter(|device| device.what.network == network)
        .map(|device| device.what.name.as_str())
        .collect();
    found.sort_unstable();
    found.dedup();
    if used.len() != 1 || found.len() < 2 {
        return None;
    }
    Some(
        Finding::new("one-nic-of-several", Severity::Slow, format!("connections use one NIC of {}", found.len())).confidence(Confidence::Likely)
        .evidence(format!("every `via NET/{network}/{}`; devices: {}", used.first().unwrap_or(&0), list(&found, "and")))
        .remedy("check NCCL_IB_HCA and NCCL_CROSS_NIC, whether the NICs share a PCI root with the GPUs, and, for sockets, whether all interfaces are in one subnet")
        .confirm("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET …; nvidia-smi topo -m"),
    )
}

fn shared_memory(
    context: &Context<'_>,
    _: Facts<'_>,
    transports: Transports<'_>,
) -> Option<Finding> {
    if !transports.iter().any(|one| matches!(one, Transport::Shm { .. })) {
        return None;
    }
    let asked = setting(context.run, "NCCL_P2P_DISABLE").is_some();
    if let Some(model) = model(context).filter(|model| model.is_without_peers()) {
        let cause = format!(
            "GPUs exchange data through host memory: the driver of the {} has no P2P, and the board no NVLink",
            model.name
        );
        return Some(
            Finding::new("shared-memory", Severity::Note, cause)
                .confidence(Confidence::Certain)
                .evidence("NCCL's log: via SHM")
                .remedy("look at the lanes of each GPU's slot, which then set the limit, and name them (--machine FILE with pcie)")
                .confirm("nvidia-smi topo -p2p r; sudo lspci -vv | grep LnkSta"),
        );
    }
    let finding = Finding::new(
        "shared-memory",
        Severity::Slow,
        "GPUs of one host exchange data through host memory instead of P2P",
    )
    .confidence(if asked { Confidence::Certain } else { Confidence::Likely })
    .evidence("NCCL's log: via SHM");
    Some(if asked {
        finding.remedy("unset NCCL_P2P_DISABLE").confirm("busbw transports all_reduce")
    } else {
        finding
            .remedy("check the IOMMU, ACS, the P2P capability of the GPUs, and NCCL_P2P_LEVEL")
            .confirm("nvidia-smi topo -p2p r; sudo busbw doctor")
    })
}

fn more_nodes(context: &Context<'_>, facts: Facts<'_>, _: Transports<'_>) -> Option<Finding> {
    let nodes =
        facts.iter().flat_map(|facts| &facts.communicators).filter_map(|one| one.nodes).max()?;
    let mut hosts: Vec<&str> =
        context.run.devices.iter().map(|device| device.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    // Ranks that share a GPU have host identities of their own: NCCL refuses them otherwise.
    if hosts.is_empty() || nodes as usize <= hosts.len() || ranks_share_gpus(context.run) {
        return None;
    }
    Some(
        Finding::new("more-nodes-than-hosts", Severity::Slow, format!("NCCL counts {nodes} nodes, but there {} {} {}", if hosts.len() == 1 { "is" } else { "are" }, hosts.len(), plural(hosts.len(), "host"))).confidence(Confidence::Certain)
        .evidence(format!("nNodes {nodes}; hosts: {}", list(&hosts, "and")))
        .remedy("give containers of one host the same hostname and boot_id; check whether NCCL_HOSTID is set on purpose")
        .confirm("cat /proc/sys/kernel/random/boot_id; hostname; env | grep NCCL_HOSTID, in each container"),
    )
}
