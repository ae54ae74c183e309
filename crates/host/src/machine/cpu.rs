//! The processor: model, usable cores, sockets, NUMA nodes.
//! Not its caches and not its load.

use busbw_core::record::Cpu;
use rustix::thread::CpuSet;

use super::Root;

/// Cores that this process may run on, by number.
pub fn usable_cores() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect(),
        // The kernel has more cores than the set holds: then no rank is bound to one.
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// How many cores the process that started this one may use; 0 if the kernel does not say.
pub fn cores_of_parent() -> usize {
    let set = rustix::process::getppid()
        .and_then(|parent| rustix::thread::sched_getaffinity(Some(parent)).ok());
    set.map_or(0, |set| set.count() as usize)
}

/// Processors next to a PCI device, as the kernel lists them (`0-31,64-95`); `None` where it does
/// not say.
pub fn near(root: &Root, address: &str) -> Option<String> {
    let list = root.text(format!("sys/bus/pci/devices/{address}/local_cpulist"))?;
    (!list.is_empty()).then_some(list)
}

/// Processors of a NUMA node, as the kernel lists them; `None` where there is no such node.
pub fn of_node(root: &Root, node: u32) -> Option<String> {
    let list = root.text(format!("sys/devices/system/node/node{node}/cpulist"))?;
    (!list.is_empty()).then_some(list)
}

/// Cores that share the last-level cache of a core, as the kernel lists them; `None` where it does
/// not say.
pub fn last_cache(root: &Root, core: usize) -> Option<String> {
    let folder = format!("sys/devices/system/cpu/cpu{core}/cache");
    let level = |cache: &String| {
        let level = root.text(format!("{folder}/{cache}/level"))?.trim().parse::<u32>().ok()?;
        Some((level, cache.clone()))
    };
    let (_, cache) = root.names(&folder).iter().filter_map(level).max()?;
    let list = root.text(format!("{folder}/{cache}/shared_cpu_list"))?;
    (!list.is_empty()).then_some(list)
}

/// The processors of such a list; entries that cannot be parsed are left out.
pub fn processor_list(list: &str) -> Vec<usize> {
    let range = |text: &str| {
        let (first, last) = text.trim().split_once('-').unwrap_or((text.trim(), text.trim()));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (last < CpuSet::MAX_CPU).then_some(first..=last)
    };
    list.split(',').filter_map(range).flatten().collect()
}

pub(super) fn read(root: &Root) -> Cpu {
    let info = root.text("proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        info.lines()
            .filter_map(|l| l.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
    };
    let mut packages: Vec<String> = root
        .names("sys/devices/system/cpu")
        .iter()
        .filter(|name| name.strip_prefix("cpu").is_some_and(|n| n.parse::<usize>().is_ok()))
        .filter_map(|cpu| {
            root.text(format!("sys/devices/system/cpu/{cpu}/topology/physical_package_id"))
        })
        .collect();
    packages.sort();
    packages.dedup();
    let nodes = root.names("sys/devices/system/node");
    let is_node =
        |name: &&String| name.strip_prefix("node").is_some_and(|n| n.parse::<usize>().is_ok());
    // Arm kernels print no model name: the part number is used.
    let model = field("model name").or_else(|| {
        let (maker, part) = (field("CPU implementer")?, field("CPU part")?);
        Some(format!("{} implementer {maker} part {part}", std::env::consts::ARCH))
    });
    Cpu {
        model: model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores: usable_cores(),
        sockets: packages.len().max(1),
        numa_nodes: nodes.iter().filter(is_node).count().max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(processor_list("0-2,8,10-11"), [0, 1, 2, 8, 10, 11]);
        assert_eq!(processor_list("3"), [3]);
        assert_eq!(processor_list("x,4-,1-99999999999,5"), [5]);
        assert!(processor_list("").is_empty());
    }
}
