//! What healthy runs print too, though it reads like a failure.
//! Not whether it costs bandwidth: rules about transports say that.
//!
//! Sources: real logs of runs that ended well (tests/failed_runs, shared collections), NCCL's src/ of 2.18 to 2.32,
//! Open MPI's help-mpi-btl-tcp.txt and help-opal-shmem-mmap.txt.

use super::{
    kind::Kind,
    line::number,
    rule::{Field, Rule, keep, rule, word},
};

pub(super) const RULES: &[Rule] = &[
    rule("/Plugin: Could not find: ", Kind::PluginMissing).in_info().read(
        |incident, line, after| {
            incident.details.variable = line
                .text
                .split("/Plugin: Could")
                .next()
                .and_then(|before| before.rsplit(' ').next().map(keep));
            incident.details.name = word(after);
            true
        },
    ),
    rule("/Plugin: No plugin found (", Kind::PluginMissing).in_info().read(|incident, _, after| {
        incident.details.name = after.split(')').next().map(keep);
        true
    }),
    rule("NET/IB : No device found", Kind::NoRdmaDevice).in_info(),
    rule("Failed to open libibverbs.so", Kind::NoRdmaDevice).in_info(),
    // 2.32.3 at every start with its socket network; NCCL goes on without one-sided transfers.
    rule("requires GDRCopy", Kind::GdrCopyMissing).in_info(),
    rule("ncclTopoGetCpuAffinity: Affinity for GPU ", Kind::AffinityEmpty)
        .in_info()
        .read(|_, _, after| after.contains(" is empty")),
    rule("destroy_process_group() was not called", Kind::GroupNotDestroyed),
    rule("Setting OMP_NUM_THREADS environment variable", Kind::OmpThreads),
    rule(" is not bound (or bound to all available processors)", Kind::NotBound),
    rule("no authorization protocol specified", Kind::NoDisplay),
    rule("No protocol specified", Kind::NoDisplay),
    rule("An invalid value was given for btl_", Kind::InterfaceIgnored).opens().read(
        |incident, _, after| {
            incident.details.variable = word(after).map(|name| format!("btl_{name}"));
            true
        },
    ),
    rule("not enough space for ", Kind::MpiShmFull).opens().read(|incident, _, after| {
        let path = word(after).unwrap_or_default();
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        incident.details.name =
            Some(if folder.is_empty() { path.clone() } else { folder.to_owned() });
        true
    }),
    rule("Missing \"", Kind::HostSetting).read(|incident, line, after| {
        incident.details.name = after.split('"').next().map(keep);
        line.warning.is_some()
    }),
];

pub(super) const FIELDS: &[Field] = &[
    Field {
        needle: "Value: ",
        of: &[Kind::InterfaceIgnored],
        read: |i, after| i.details.name = word(after),
    },
    Field {
        needle: "Local host: ",
        of: &[Kind::InterfaceIgnored, Kind::MpiShmFull],
        read: |i, after| i.host(after.trim()),
    },
    Field {
        needle: "Space Requested: ",
        of: &[Kind::MpiShmFull],
        read: |i, after| i.details.asked = bytes(after),
    },
    Field {
        needle: "Space Available: ",
        of: &[Kind::MpiShmFull],
        read: |i, after| i.details.there = bytes(after),
    },
];

fn bytes(text: &str) -> Option<String> {
    number::<u64>(text).map(|bytes| bytes.to_string())
}
