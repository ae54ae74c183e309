//! GPUs whose links join them in groups that do not meet.
//! Not pairs on a bridge, which is how PCIe cards are sold, and not missing links (`gpu_links`).

use busbw_core::{
    finding::{Finding, Severity},
    quantity::{list, ranged},
};

use crate::topology::{GpuLinkKind, System};

/// The fewest GPUs of a group.
const MIN_GROUP: usize = 3;

pub(super) fn of_system(system: &System) -> Option<Finding> {
    let gpus = system.gpus();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for gpu in &gpus {
        let near = neighbours(system, &gpus, *gpu)?;
        let (mut joined, rest): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.iter().any(|one| near.contains(one)));
        joined.push(vec![*gpu]);
        groups = rest;
        groups.push(joined.concat());
    }
    if groups.len() < 2 || groups.iter().any(|group| group.len() < MIN_GROUP) {
        return None;
    }
    let all = system.devices.iter().filter_map(|device| device.gpu.as_ref());
    let xgmi = all.flat_map(|gpu| &gpu.links).any(|link| link.kind == GpuLinkKind::Xgmi);
    let (links, confirm) =
        if xgmi { ("xGMI", "amd-smi topology") } else { ("NVLink", "nvidia-smi topo -m") };
    let names = |group: &Vec<usize>| {
        let members = gpus.iter().filter(|gpu| group.contains(gpu));
        ranged(&members.map(|gpu| system.gpu_name(*gpu)).collect::<Vec<_>>())
    };
    let names: Vec<String> = groups.iter().map(names).collect();
    let cause = format!(
        "{links} joins the GPUs in {} groups that do not meet: {}",
        groups.len(),
        list(&names, "and")
    );
    Some(
        Finding::new("gpu-groups", Severity::Slow, cause)
            .subject("GPUs")
            .evidence(format!("no {links} leads from one group to another: what crosses goes by PCIe and the processors"))
            .remedy("let each job use the GPUs of one group; or compare the bridges with the machine's data sheet")
            .confirm(confirm),
    )
}

/// GPUs that a link joins with this one, either way; none where it has links to anything else, such as a switch.
fn neighbours(system: &System, gpus: &[usize], gpu: usize) -> Option<Vec<usize>> {
    let links = |at: usize| system.devices.get(at).and_then(|device| device.gpu.as_ref());
    let own = &links(gpu)?.links;
    let address = &system.devices.get(gpu)?.address;
    let to: Option<Vec<usize>> = own.iter().map(|link| system.find(&link.target)).collect();
    let from = gpus.iter().copied().filter(|other| {
        links(*other).is_some_and(|other| other.links.iter().any(|link| link.target == *address))
    });
    Some(to?.into_iter().chain(from).collect())
}
