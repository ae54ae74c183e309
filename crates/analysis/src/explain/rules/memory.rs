//! Latency of device memory against that of host memory, given both.
//! Not bandwidth: at a few bytes none of it is needed.

use busbw_logs::measurement::{Figure, Measurement, Memory};

use super::super::{
    context::Context,
    finding::{Confidence, Finding, Weight},
};
use busbw_core::quantity::{bytes, time};

/// Messages up to this size have no bytes to speak of.
const SMALL: u64 = 64;

pub(super) fn look(context: &Context<'_>) -> Vec<Finding> {
    let run = context.run;
    let memory = run.test.memory.map(|memory| memory.value);
    if run.test.figure != Figure::Latency || memory != Some(Memory::Device) {
        return Vec::new();
    }
    let Some((size, device)) = smallest(run) else { return Vec::new() };
    let other = |other: &&Measurement| {
        other.test.figure == Figure::Latency
            && other.test.memory.is_some_and(|memory| memory.value == Memory::Host)
    };
    let Some((host_size, host)) = context.all.iter().find(other).and_then(smallest) else {
        return Vec::new();
    };
    if device < host * 3.0 {
        return Vec::new();
    }
    let cause = if size == 0 {
        "no GPU data moves at 0 B, so it is not PCIe, and host memory shows that it is not the network: it is software"
    } else {
        "a few bytes take next to no time on PCIe, and host memory shows that it is not the network: it is software"
    };
    vec![
        Finding::new("device-memory-latency", Weight::Slow, Confidence::Likely, cause)
            .evidence(format!("device memory {} at {}, host memory {} at {}", time(device), bytes(size), time(host), bytes(host_size)))
            .evidence("suspects: each message launches an operation on the GPU (a NCCL operation, a copy), or UCX_TLS lacks the CUDA transports, so that UCX stages every message")
            .remedy("with UCX: UCX_TLS must name cuda_copy, cuda_ipc and gdr_copy, or not be set; with NCCL underneath, small messages cost a launch each")
            .confirm("UCX_LOG_LEVEL=info UCX_PROTO_INFO=y osu_latency D D (which transports are chosen); nsys profile osu_latency D D (launches for each message)"),
    ]
}

/// The smallest message and its time, microseconds.
fn smallest(run: &Measurement) -> Option<(u64, f64)> {
    let rows = run.rows.iter().filter(|row| row.size <= SMALL);
    let row = rows.min_by_key(|row| row.size)?;
    Some((row.size, row.out_of_place.as_ref()?.time_us?))
}
