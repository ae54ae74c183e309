//! The preflight of a node: what is wrong with it, what that costs, what to do, and how to see it.
//! In seconds, without a measurement; nothing on the machine is changed. Sources: docs/doctor.md.

mod addresses;
mod cores;
mod driver;
mod fabric;
mod finding;
mod fingerprint;
mod gpudirect;
mod gpus;
mod isolation;
mod libraries;
mod memory;
mod network;
mod node;
mod pcie;
mod plugins;
mod report;
mod xid;

#[cfg(test)]
pub(crate) mod tests;

pub use finding::ranged;
pub use finding::{Finding, Topic, Verdict};
pub use fingerprint::{Difference, Fingerprint, compare};
pub use node::Node;
pub use report::Report;

/// Looks at everything, topic by topic.
pub fn look(node: &Node) -> Vec<Finding> {
    [
        driver::look,
        gpus::look,
        fabric::look,
        libraries::look,
        plugins::look,
        network::look,
        pcie::look,
        isolation::look,
        gpudirect::look,
        memory::look,
        cores::look,
    ]
    .iter()
    .flat_map(|topic| topic(node))
    .collect()
}
