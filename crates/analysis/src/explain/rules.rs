//! What may stand out in a run: one file for each rule, each a pure function of the run.
//! Not their order in a report, which their weight decides.

mod agreement;
mod algorithm;
mod carriers;
mod copies;
mod counters;
mod dips;
mod failure;
mod floor;
mod machine;
mod memory;
mod network;
mod pairs;
mod paths;
mod places;
mod shortfall;
mod slot;
mod unsteady;
mod wrong;

use super::{context::Context, finding::Finding};

/// Every rule's findings.
pub(super) fn all(context: &Context<'_>) -> Vec<Finding> {
    let rules: [fn(&Context<'_>) -> Vec<Finding>; 18] = [
        wrong::look,
        failure::look,
        copies::look,
        agreement::look,
        machine::look,
        slot::look,
        network::look,
        carriers::look,
        shortfall::look,
        memory::look,
        counters::look,
        dips::look,
        unsteady::look,
        pairs::look,
        paths::look,
        places::look,
        algorithm::look,
        floor::look,
    ];
    rules.iter().flat_map(|rule| rule(context)).collect()
}

/// Latency that software costs, shown by a run with device memory and one with host memory.
pub(super) fn memory_costs(context: &Context<'_>) -> bool {
    !memory::look(context).is_empty()
}
