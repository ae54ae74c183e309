//! Options of nccl-tests that mean nothing here: each is reported with its reason, and the run continues.
//! Not what cannot be used at all.

use busbw_core::{
    plan::{BackendSpec, GpuOptionUse},
    record::Waiver,
};

use crate::options::BenchArguments;

/// Options of nccl-tests that a backend has no use for.
pub(super) fn of_backend(a: &BenchArguments, backend: &BackendSpec) -> Vec<Waiver> {
    match backend.gpu_options {
        GpuOptionUse::Modelled => Vec::new(),
        GpuOptionUse::Used => on_gpus(a),
        GpuOptionUse::Waived { registration } => without_gpus(a, backend.name, registration),
    }
}

/// Options that are not built for GPUs.
fn on_gpus(a: &BenchArguments) -> Vec<Waiver> {
    let kernels = "kernels on NCCL's device API must be compiled against its headers; NCCL's own collectives run";
    of_options([
        ("-D", a.device_implementation, kernels),
        ("-V", a.device_cta_count.filter(|_| a.device_implementation.is_some()), kernels),
    ])
}

/// Options that only mean something on a GPU; `registration` is the reason for `-R`.
fn without_gpus(a: &BenchArguments, name: &str, registration: &str) -> Vec<Waiver> {
    let graphs = &format!("there are no CUDA graphs on the {name} backend");
    let streams = &format!("there are no streams on the {name} backend");
    let kernels = &format!("the {name} backend runs no device kernels");
    of_options([
        ("-G", a.graph, graphs),
        ("-y", a.stream_null, streams),
        ("-R", a.local_register, registration),
        ("-x", a.cta_policy.as_ref().and_then(|all| all.first().copied()), kernels),
        ("-D", a.device_implementation, kernels),
        ("-V", a.device_cta_count, kernels),
        (
            "--virtual-nodes",
            a.virtual_nodes,
            &format!(
                "--virtual-nodes changes what NCCL sees, and the {name} backend does not use NCCL"
            ),
        ),
    ])
}

/// Those of `options` that were given, and not as 0.
pub(super) fn of_options<const N: usize>(options: [(&str, Option<i64>, &str); N]) -> Vec<Waiver> {
    let waived = options.into_iter().filter_map(|(option, value, reason)| {
        let value = value.filter(|v| *v != 0)?;
        Some(Waiver { option: format!("{option} {value}"), reason: reason.to_owned() })
    });
    waived.collect()
}
