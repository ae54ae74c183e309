//! The transports that MPI set up, by its own log: BTLs and UCX's lanes, ranks without such a log, and
//! TCP where something faster is likely.
//! Not whether bytes went there: these lines prove only that a connection was set up.
//!
//! Sources: Open MPI's ompi/mca/bml/r2/bml_r2.c, UCX's src/ucp/core/ucp_worker.c.

use std::{cmp::Reverse, collections::BTreeMap};

use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::record::DeviceKind;
use busbw_library_logs::mpi::{MpiFacts, connections, lanes, transports_named};

use super::super::context::Context;
use busbw_core::quantity::decimal_bytes as bytes;
use busbw_core::quantity::{count, list};

/// Open MPI's BTL for TCP.
const TCP: &str = "tcp";

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let facts = &context.run.mpi;
    if facts.is_empty() {
        return Vec::new();
    }
    let rules = [tcp_within_a_host, tcp_beside_rdma, carriers];
    rules.iter().filter_map(|rule| rule(context, facts)).collect()
}

/// The transports that the log names, and the ranks for which it names none.
fn carriers(context: &Context<'_>, facts: &[MpiFacts]) -> Option<Finding> {
    let btls: Vec<&str> = connections(facts).into_keys().collect();
    let lanes: Vec<&str> = lanes(facts).into_iter().collect();
    let named = if !btls.is_empty() {
        Some(format!("Open MPI sent messages between ranks to its BTL {}", list(&btls, "and")))
    } else if facts.iter().any(MpiFacts::is_all_ucx) && !lanes.is_empty() {
        Some(format!("Open MPI sent messages to UCX, whose lanes are {}", list(&lanes, "and")))
    } else {
        None
    };
    let cause = match (named, facts.iter().all(|one| one.unknown.is_empty())) {
        (Some(named), true) => named,
        (Some(named), false) => format!("{named}; for some ranks the log names none"),
        (None, _) => "no log proves which transport carried the messages".to_owned(),
    };
    let finding = Finding::new("carriers", Severity::Note, cause)
        .confidence(Confidence::Certain)
        .evidence(transports_named(facts));
    Some(match moved(context) {
        Some(moved) => finding.evidence(format!("counters of rank 0's host: {moved}")),
        None => finding,
    })
}

/// Bytes that network devices moved while rows were measured, the busiest device first.
fn moved(context: &Context<'_>) -> Option<String> {
    let mut devices: BTreeMap<&str, u64> = BTreeMap::new();
    let counters = context.run.rows.iter().flat_map(|row| &row.counters);
    for device in counters.filter(|device| device.kind != DeviceKind::Gpu) {
        let sum = devices.entry(&device.device).or_default();
        *sum = sum.saturating_add(device.moved());
    }
    let mut devices: Vec<(&str, u64)> = devices.into_iter().collect();
    devices.sort_by_key(|(_, moved)| Reverse(*moved));
    let words = devices.iter().take(4).map(|(name, moved)| format!("{name} {}", bytes(*moved)));
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| list(&words, "and"))
}

fn tcp_within_a_host(context: &Context<'_>, facts: &[MpiFacts]) -> Option<Finding> {
    let devices = &context.run.devices;
    let host = |rank: usize| Some(devices.iter().find(|device| device.rank == rank)?.host.as_str());
    let here = |one: &MpiFacts| {
        let own = host(one.rank);
        let others = devices.iter().filter(|other| other.rank != one.rank);
        let mut others = others.filter(|other| Some(other.host.as_str()) == own);
        others.any(|other| one.reaches(other.rank, TCP))
    };
    let ranks = facts.iter().filter(|one| here(one)).count();
    (ranks > 0).then(|| {
        Finding::new("tcp-within-a-host", Severity::Slow, "ranks of one host exchange messages over TCP instead of shared memory").confidence(Confidence::Certain)
        .evidence(format!("Open MPI's log: {} to others of the same host by the BTL tcp", count(ranks as u64, "rank")))
        .remedy("allow the shared-memory BTL: vader, or sm from Open MPI 5 on (--mca btl self,vader,tcp, or unset OMPI_MCA_btl)")
        .confirm("mpirun --mca btl_base_verbose 100 …; ls -ld /dev/shm")
    })
}

fn tcp_beside_rdma(context: &Context<'_>, facts: &[MpiFacts]) -> Option<Finding> {
    let nics = &context.run.machine.as_ref()?.nics;
    let rdma: Vec<&str> =
        nics.iter().filter(|nic| nic.kind == "infiniband").map(|nic| nic.name.as_str()).collect();
    let lanes = lanes(facts);
    let over_tcp = match facts.iter().any(MpiFacts::is_all_ucx) {
        // Beside an RDMA lane, a TCP lane may only serve to set up the connection.
        true => lanes.iter().any(|lane| lane.starts_with("tcp/")) && !lanes.iter().any(is_rdma),
        false => connections(facts).contains_key(TCP),
    };
    (over_tcp && !rdma.is_empty()).then(|| {
        Finding::new("sockets-beside-rdma", Severity::Slow, "MPI uses TCP although the host has RDMA NICs").confidence(Confidence::Likely)
        .evidence(transports_named(facts))
        .evidence(format!("RDMA devices: {}", list(&rdma, "and")))
        .remedy("use an MPI that is built with UCX or libfabric for this adapter (Open MPI: --mca pml ucx), and give the container /dev/infiniband")
        .confirm("ompi_info | grep -E 'pml|mtl'; ucx_info -d | grep -E 'Transport|Device'; ibv_devinfo")
    })
}

/// A lane of an RDMA adapter, such as `rc_mlx5/mlx5_0:1`.
fn is_rdma(lane: &&str) -> bool {
    ["rc", "dc", "ud", "srd", "gga"].iter().any(|kind| lane.starts_with(kind))
}
