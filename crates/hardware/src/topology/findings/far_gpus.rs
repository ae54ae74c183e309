//! GPUs of one NUMA node that are joined as if they were of two.
//! Not NICs (`far_nics`), and not which of the two statements of nvidia-smi is wrong.

use busbw_core::{
    finding::{Confidence, Finding, Severity},
    quantity::ranged,
};

use crate::topology::{Matrix, Word};

/// Pairs of GPUs at SYS whose NUMA affinity is one node: nvidia-smi writes NODE, PHB or less within a node.
pub(super) fn of_matrix(matrix: &Matrix) -> Option<Finding> {
    // A list of nodes does not say which one it is.
    let node = |gpu: usize| matrix.endpoints.get(gpu)?.numa.as_deref()?.parse::<u32>().ok();
    let gpus: Vec<usize> = matrix.gpus().collect();
    let far = |a: usize, b: usize| {
        a != b && matrix.between(a, b) == Some(Word::Sys) && node(a).is_some() && node(a) == node(b)
    };
    let found = gpus.iter().find_map(|a| Some((*a, *gpus.iter().find(|b| far(*a, **b))?)))?;
    let all = gpus.iter().filter(|a| gpus.iter().any(|b| far(**a, *b)));
    let name = |at: usize| matrix.endpoints.get(at).map_or("?", |one| one.known_as());
    let all: Vec<&str> = all.map(|at| name(*at)).collect();
    let (a, b) = (name(found.0), name(found.1));
    let numa = node(found.0).unwrap_or_default();
    let cause = format!("{a} and {b} are at SYS, though both are of NUMA node {numa}");
    Some(
        Finding::new("far-gpus", Severity::Slow, cause)
            .confidence(Confidence::Likely)
            .subject(ranged(&all))
            .evidence("nvidia-smi writes NODE or nearer within a NUMA node: the affinity or the path is not what it seems, as in a virtual machine")
            .remedy("let the hypervisor or the BIOS show the NUMA nodes as they are; NCCL takes SYS as too far for P2P")
            .confirm("cat /sys/bus/pci/devices/*/numa_node; lscpu | grep NUMA"),
    )
}
