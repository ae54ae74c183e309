//! What of a plan changes what is measured, by the names of nccl-tests' options: comparable with what a
//! table's head or another plan says.
//! Not sizes, types, operators and roots, which every row says, and not what is printed.

use std::collections::BTreeMap;

use busbw_core::plan::{Average, Blocking, BufferMemory, Memory, Plan, Registration};

/// The options of a plan.
pub(super) fn options(plan: &Plan) -> BTreeMap<String, String> {
    let digit = |value: usize| value.to_string();
    let on = |value: bool| if value { "1" } else { "0" }.to_owned();
    let blocking = match plan.blocking {
        Blocking::None => 0,
        Blocking::InnerBarrier => 1,
        Blocking::Inner => 2,
        Blocking::Outer => 3,
    };
    let average = match plan.average {
        Average::Rank0 => 0,
        Average::Mean => 1,
        Average::Min => 2,
        Average::Max => 3,
    };
    let mut options = vec![
        ("backend", plan.backend.name().to_owned()),
        ("-t", plan.threads.to_string()),
        ("-g", plan.devices.to_string()),
        ("-n", plan.iterations.to_string()),
        ("-m", plan.aggregated.to_string()),
        ("-w", plan.warmup.to_string()),
        ("-c", plan.check.to_string()),
        ("-z", digit(blocking)),
        ("-a", digit(average)),
        ("-G", plan.graph.to_string()),
        ("-C", on(plan.cpu_time)),
        ("-I", on(plan.per_iteration)),
        ("-u", plan.unalign.to_string()),
        ("--bind", on(plan.bind)),
        ("--virtual-nodes", plan.virtual_nodes.to_string()),
        ("processes", plan.launched.to_string()),
    ];
    if let Some(gpu) = plan.backend.gpu_options() {
        let register = match gpu.register {
            Registration::None => 0,
            Registration::Local => 1,
            Registration::Symmetric => 2,
        };
        options.push(("-R", digit(register)));
        options.push(("-y", on(gpu.default_stream)));
        options
            .push(("-x", gpu.cta_policy.map_or("unset".to_owned(), |policy| policy.to_string())));
    }
    if plan.backend.spec().buffers == BufferMemory::Chosen {
        // Records from before there was a choice are of host memory.
        let buffers = plan.buffers.unwrap_or_default().map(Memory::name);
        options.push(("--buffers", buffers.join(",")));
    }
    if let Some(verbs) = plan.backend.verbs_options() {
        options.push(("--disable_pcie_relaxed", on(verbs.strict_ordering)));
    }
    let fault = if plan.fault.is_some() { "on purpose" } else { "none" };
    options.push(("fault", fault.to_owned()));
    options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
