//! The rules: one file for each, each a pure function from a run to findings.
//! Not their order in a report, which their severity decides.

mod agreement;
mod algorithm;
mod counters;
mod degraded;
mod diagnostics;
mod dips;
mod ends_early;
mod failure;
mod floor;
mod half_port;
mod left_out;
mod log_alone;
mod machine;
mod memory;
mod mpi_transports;
mod network;
mod not_there_yet;
mod pairs;
mod paths;
mod placements_differ;
mod queue_pairs;
mod separate_runs;
mod set_up;
mod shortfall;
mod slot;
mod uneven_links;
mod unsteady;
mod wrong;

use busbw_core::finding::Finding;

use super::context::Context;

/// The rule that explains a log without a table.
pub(super) const LOG_ALONE: &str = "log-without-table";

/// The rule that finds sockets that one thread drives.
pub(super) const SOCKETS: &str = "sockets-without-threads";
/// The rule that says what NCCL's log tells of a result without a limit.
pub(super) const SET_UP: &str = "set-up";
/// The rules about some sizes or samples, beside which the largest size may be as good as ever.
pub(super) const OF_SOME_SIZES: [&str; 2] = ["dip", "unsteady"];
/// The rule of wrong elements.
pub(super) const WRONG_DATA: &str = "wrong-results";
/// The rule that finds one half of a port in use.
pub(super) const HALF_PORT: &str = "half-of-a-port";

/// Every rule's findings.
pub(super) fn all(context: &Context<'_>) -> Vec<Finding> {
    let rules: &[fn(&Context<'_>) -> Vec<Finding>] = &[
        wrong::check,
        failure::check,
        log_alone::check,
        not_there_yet::check,
        ends_early::check,
        separate_runs::check,
        agreement::check,
        machine::check,
        left_out::check,
        slot::check,
        half_port::check,
        network::check,
        uneven_links::check,
        degraded::check,
        diagnostics::check,
        queue_pairs::check,
        mpi_transports::check,
        shortfall::check,
        memory::check,
        counters::check,
        dips::check,
        unsteady::check,
        pairs::check,
        paths::check,
        placements_differ::check,
        algorithm::check,
        set_up::check,
        floor::check,
    ];
    rules.iter().flat_map(|rule| rule(context)).collect()
}

/// Whether NCCL's own diagnostics show a healthy machine; none where they measured nothing that has a known limit, and lost nothing.
pub(super) fn healthy_by_diagnostics(context: &Context<'_>) -> Option<bool> {
    diagnostics::healthy(context)
}

/// Whether NCCL uses one half of a port that shows as two NICs.
pub(super) fn uses_half_a_port(context: &Context<'_>) -> bool {
    !half_port::check(context).is_empty()
}

/// The smallest message of a latency test in bytes, and its time with device memory and with host memory
/// in microseconds, where the difference is software's. None where the rule `memory` finds nothing.
pub(super) fn device_and_host_latency(context: &Context<'_>) -> Option<(u64, f64, f64)> {
    memory::device_and_host_latency(context)
}

/// Whether a latency test with host memory stands beside the run.
pub(super) fn has_host_memory_latency(context: &Context<'_>) -> bool {
    memory::of_host_memory(context).is_some()
}
