//! GPUs that have fewer NVLinks than the others of their host, as NCCL's topology in the log has it.
//! Not links that are slow, and not what a matrix or /sys shows (`busbw topo`).

use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::rate;
use busbw_library_logs::nccl::{DumpedGpu, TopologyDump};

use super::super::context::Context;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let dumps = context.facts().flat_map(|facts| &facts.topologies);
    dumps.filter_map(uneven).take(1).collect()
}

/// The GPUs with the fewest and the most links, where a whole host must have them alike: at switches, or of two GPUs the links
/// to each other. Of several GPUs that are joined by plain links, those that ran need not be alike.
fn uneven(dump: &TopologyDump) -> Option<Finding> {
    let alike = dump.gpus.len() == 2 || dump.gpus.iter().all(|gpu| gpu.switched);
    let by_links = |a: &&DumpedGpu, b: &&DumpedGpu| a.nvlink.total_cmp(&b.nvlink);
    let least = dump.gpus.iter().min_by(by_links).filter(|_| alike)?;
    let most = dump.gpus.iter().max_by(by_links)?;
    // NCCL prints one decimal.
    (most.nvlink - least.nvlink > 0.1).then(|| {
        Finding::new(
            "uneven-links",
            Severity::Slow,
            format!(
                "a GPU of {} has fewer NVLinks than another: NCCL reckons with {} GB/s of GPU {} and {} of GPU {}",
                dump.host,
                rate(least.nvlink),
                least.id,
                rate(most.nvlink),
                most.id
            ),
        )
        .confidence(Confidence::Certain)
        .evidence("NCCL's topology in the log: NVL[…] below these GPUs")
        .remedy("find out which links are down and why; resetting the GPUs or reseating the bridge often brings them back")
        .confirm("nvidia-smi nvlink --status; nvidia-smi nvlink -e; dmesg | grep -i nvlink")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(links: &[f64], switched: bool) -> TopologyDump {
        let gpu = |nvlink: &f64| DumpedGpu { nvlink: *nvlink, switched, ..DumpedGpu::default() };
        TopologyDump { gpus: links.iter().map(gpu).collect(), ..TopologyDump::default() }
    }

    #[test]
    fn only_links_that_must_be_alike() {
        assert!(uneven(&dump(&[20.0, 240.0], false)).is_some());
        assert!(uneven(&dump(&[370.8, 370.8, 350.2], true)).is_some());
        assert!(uneven(&dump(&[370.8, 370.8, 370.8], true)).is_none());
        // Three GPUs of a cube.
        assert!(uneven(&dump(&[40.0, 60.0, 60.0], false)).is_none());
        assert!(uneven(&dump(&[], false)).is_none());
    }
}
