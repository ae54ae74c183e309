//! Transports that the command line or the environment keeps out: P2P beside NVLink, RDMA and helper threads of sockets.
//! Not what NCCL's log says of transports (`network`): where there is one, it decides.
//!
//! Sources: NCCL's src/transport/p2p.cc and net_socket.cc; docs of NCCL_P2P_DISABLE and NCCL_SOCKET_NTHREADS.

use busbw_hardware::limits::{Inside, Rating};

use super::super::{
    context::Context,
    placement::{by_sockets, inside, setting},
};
use super::SOCKETS;
use busbw_core::finding::{Confidence, Finding, Severity};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    if !context.by_nccl() || context.facts().next().is_some() {
        return Vec::new();
    }
    [sockets(context), p2p(context)].into_iter().flatten().collect()
}

/// Sockets far below the NIC, with no thread but the proxy's.
fn sockets(context: &Context<'_>) -> Option<Finding> {
    let run = context.run;
    let below = matches!(context.judgement.rating, Some(Rating::Below | Rating::FarBelow));
    let threads = ["NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"];
    let plugin = setting(run, "NCCL_NET_PLUGIN").is_some();
    if !below
        || plugin
        || !by_sockets(run)
        || threads.iter().any(|name| setting(run, name).is_some())
    {
        return None;
    }
    let cause = "each connection is one TCP stream, driven by NCCL's proxy thread alone: about 15 to 25 Gb/s, whatever the NIC";
    let asked = ["NCCL_IB_DISABLE", "NCCL_NET"];
    let asked = asked.iter().filter_map(|name| Some(format!("{name}={}", setting(run, name)?)));
    Some(
        Finding::new(SOCKETS, Severity::Slow, cause)
            .confidence(Confidence::Likely)
            .evidence(format!("set: {}; NCCL_SOCKET_NTHREADS is not", asked.collect::<Vec<_>>().join(", ")))
            .remedy("use RDMA (RoCE) where the NIC has it; else NCCL_NET_PLUGIN=$(busbw plugin path), or NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4 (their product at most 64)")
            .confirm("busbw sweep -x NCCL_SOCKET_NTHREADS=1,4 -x NCCL_NSOCKS_PERTHREAD=1,4 all_reduce -b 1M -e 1G -f 4"),
    )
}

/// P2P is off although NVLink joins the GPUs.
fn p2p(context: &Context<'_>) -> Option<Finding> {
    let machine = &context.machine.as_ref()?.machine;
    let several =
        context.machine.as_ref()?.placement.as_ref().is_ok_and(|placed| placed.per_node > 1);
    machine.node.nvlink.as_ref().filter(|_| several)?;
    let way = match inside(context.run) {
        Inside::Best => return None,
        Inside::HostMemory => "host memory carries their data",
        Inside::Network => "the network carries their data",
    };
    let links = machine.links_called();
    Some(
        Finding::new(
            "p2p-disabled",
            Severity::Slow,
            format!("NCCL_P2P_DISABLE keeps the GPUs of a host from {links}: {way}"),
        )
        .confidence(Confidence::Certain)
        .evidence("NCCL_P2P_DISABLE=1")
        .remedy("unset NCCL_P2P_DISABLE, unless the test is about the other way")
        .confirm(context.repeat_command("-b 1G -e 8G -f 2")),
    )
}
