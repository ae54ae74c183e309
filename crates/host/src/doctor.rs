//! The preflight of a node: what is wrong, what it costs, what to do, and how to confirm it.
//! It takes seconds, measures nothing and changes nothing on the machine. Sources: docs/doctor.md.

mod addresses;
mod advice;
mod cores;
mod devlink;
mod driver;
mod fabric;
mod fingerprint;
mod firmware;
mod gpudirect;
mod gpus;
mod isolation;
mod libraries;
mod memory;
mod network;
mod node;
mod ordering;
mod output;
mod pcie;
mod plugins;
mod pod;
mod priorities;
mod verbs;
mod xid;

#[cfg(test)]
pub(crate) mod tests;

use busbw_core::finding::Finding;

pub use fingerprint::{Difference, Fingerprint, compare};
pub use node::Node;
pub use output::Report;
pub use pod::lacking;

/// Runs all checks, topic by topic.
pub fn check(node: &Node) -> Vec<Finding> {
    [
        driver::check,
        gpus::check,
        fabric::check,
        libraries::check,
        plugins::check,
        network::check,
        firmware::check,
        devlink::check,
        priorities::check,
        verbs::check,
        pcie::check,
        ordering::check,
        isolation::check,
        gpudirect::check,
        memory::check,
        cores::check,
    ]
    .iter()
    .flat_map(|topic| topic(node))
    .collect()
}
