//! Latency of device memory against that of host memory, given both.
//! Not bandwidth: a few bytes need none.

use busbw_logs::measurement::{Figure, Measurement, Memory};

use super::super::context::Context;
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::{bytes, time};

/// Largest message whose time is latency alone, bytes.
const LATENCY_BOUND_BYTES: u64 = 64;

/// Device memory is this many times slower than host memory, at least, where software is to blame.
const SOFTWARE_FACTOR: f64 = 3.0;

/// The smallest message in bytes, and its time with device memory and with host memory in microseconds,
/// where they differ by [`SOFTWARE_FACTOR`] or more.
pub(super) fn device_and_host_latency(context: &Context<'_>) -> Option<(u64, f64, f64)> {
    let run = context.run;
    let memory = run.test.memory.map(|memory| memory.value);
    if run.test.figure != Figure::Latency || memory != Some(Memory::Device) {
        return None;
    }
    let (size, device) = smallest(run)?;
    let (_, host) = of_host_memory(context)?;
    (device >= host * SOFTWARE_FACTOR).then_some((size, device, host))
}

/// The smallest message of the first run with host memory, and its time in microseconds.
pub(super) fn of_host_memory(context: &Context<'_>) -> Option<(u64, f64)> {
    let other = |other: &&Measurement| {
        other.test.figure == Figure::Latency
            && other.test.memory.is_some_and(|memory| memory.value == Memory::Host)
    };
    context.all.iter().find(other).and_then(smallest)
}

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let Some((size, device, host)) = device_and_host_latency(context) else { return Vec::new() };
    let host_size = of_host_memory(context).map_or(size, |(size, _)| size);
    let cause = if size == 0 {
        "software causes the latency: at 0 B no GPU data crosses PCIe, and host memory is fast over the same network"
    } else {
        "software causes the latency: a few bytes take almost no time on PCIe, and host memory is fast over the same network"
    };
    vec![
        Finding::new("device-memory-latency", Severity::Slow, cause).confidence(Confidence::Likely)
            .evidence(format!("device memory {} at {}, host memory {} at {}", time(device), bytes(size), time(host), bytes(host_size)))
            .evidence("possible reasons: each message launches an operation on the GPU (a NCCL operation, a copy), or UCX_TLS lacks the CUDA transports, so that UCX stages every message")
            .remedy("with UCX, add cuda_copy, cuda_ipc and gdr_copy to UCX_TLS or unset it; with NCCL, send fewer and larger messages, because each costs a kernel launch")
            .confirm("UCX_LOG_LEVEL=info UCX_PROTO_INFO=y osu_latency D D (which transports are chosen); nsys profile osu_latency D D (launches for each message)"),
    ]
}

/// The smallest message and its time, microseconds.
fn smallest(run: &Measurement) -> Option<(u64, f64)> {
    let rows = run.rows.iter().filter(|row| row.size <= LATENCY_BOUND_BYTES);
    let row = rows.min_by_key(|row| row.size)?;
    Some((row.size, row.out_of_place.as_ref()?.time_us?))
}
