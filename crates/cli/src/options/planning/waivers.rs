//! Options of nccl-tests that mean nothing here: each is reported with its reason, and the run continues.
//! Not what cannot be used at all.

use busbw_core::{plan::BackendChoice, record::Waiver};

use crate::options::BenchArguments;

/// Options that only mean something on a GPU.
pub(super) fn waived_on_host(a: &BenchArguments, backend: &BackendChoice) -> Vec<Waiver> {
    let name = backend.name();
    let graphs = &format!("there are no CUDA graphs on the {name} backend");
    let streams = &format!("there are no streams on the {name} backend");
    let memory = match backend {
        BackendChoice::Mpi => "MPI registers buffers itself, where it does",
        BackendChoice::Net => "every buffer is registered with the plugin",
        _ => "host buffers are shared memory already: nothing is registered",
    };
    let kernels = &format!("the {name} backend runs no device kernels");
    of_options([
        ("-G", a.graph, graphs),
        ("-y", a.stream_null, streams),
        ("-R", a.local_register, memory),
        ("-x", a.cta_policy, kernels),
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
