//! GPUs that have no NIC in their own NUMA node.
//! Not what that costs: it depends on the links between nodes, which no source names.

use busbw_core::finding::{Finding, Severity};

use super::known;
use crate::topology::{Cpu, Matrix, Net, Paths, System, Word};

/// The command that shows ways between GPUs and NICs.
const MATRIX: &str = "nvidia-smi topo -m";

/// GPUs from which every fast NIC is in another NUMA node.
pub(super) fn far_nics(system: &System) -> Vec<Finding> {
    let paths = Paths::of(system);
    let nets = system.nets();
    let net = |at: &(usize, usize)| Some((at.0, system.devices.get(at.0)?.nets.get(at.1)?));
    let mut nics: Vec<(usize, &Net)> = nets.iter().filter_map(net).collect();
    // The port for administration is no NIC for traffic between nodes.
    let fastest = nics.iter().filter_map(|(_, net)| net.mbps).max().unwrap_or(0);
    nics.retain(|(_, net)| net.mbps.is_none_or(|mbps| mbps > fastest / 3));
    let cpu = |at: usize| paths.cpu(at).and_then(|cpu| system.cpus.get(cpu));
    let mut findings = Vec::new();
    for gpu in system.gpus() {
        let apart = |at: usize| Apart::of(cpu(gpu), cpu(at));
        let ways = nics.iter().map(|(at, net)| (paths.word(gpu, *at), *at, *net));
        let nearest = ways.min_by_key(|(word, at, _)| (*word, apart(*at)));
        let Some((Word::Sys, at, net)) = nearest else { continue };
        let Some(device) = system.devices.get(gpu) else { continue };
        let place = |at: usize| {
            let numa = cpu(at).and_then(|cpu| cpu.numa);
            let node = numa.map_or("NUMA node ?".to_owned(), |numa| format!("NUMA node {numa}"));
            match cpu(at).and_then(|cpu| cpu.socket) {
                Some(socket) => format!("{node} of socket {socket}"),
                None => node,
            }
        };
        let name = system.gpu_name(gpu);
        let evidence =
            format!("{} on {}, {} on {}", known(device), place(gpu), net.name, place(at));
        let nic = system.devices.get(at).map_or("", |nic| &nic.address);
        // nvidia-smi knows no other GPUs.
        let confirm = match device.gpu.as_ref().is_some_and(|gpu| gpu.gcn.is_some()) {
            true => {
                let file = |address: &str| format!("/sys/bus/pci/devices/{address}/numa_node");
                format!("cat {} {}", file(&device.address), file(nic))
            }
            false => MATRIX.to_owned(),
        };
        findings.push(far_nic(&name, &net.name, apart(at), evidence).confirm(confirm));
    }
    findings
}

/// How far apart two NUMA nodes are, near to far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Apart {
    /// In one socket, which the BIOS splits (NPS2 and NPS4, sub-NUMA clustering).
    Nodes,
    /// It is unknown whether sockets lie between them.
    Unknown,
    /// In two sockets.
    Sockets,
}

impl Apart {
    fn of(one: Option<&Cpu>, other: Option<&Cpu>) -> Apart {
        let socket = |cpu: Option<&Cpu>| cpu.and_then(|cpu| cpu.socket);
        match (socket(one), socket(other)) {
            (Some(one), Some(other)) if one == other => Apart::Nodes,
            (Some(_), Some(_)) => Apart::Sockets,
            _ => Apart::Unknown,
        }
    }
}

fn far_nic(gpu: &str, nic: &str, apart: Apart, evidence: String) -> Finding {
    const NCCL: &str =
        "NCCL goes through host memory there (no GPUDirect unless NCCL_NET_GDR_LEVEL=SYS)";
    let (place, remedy) = match apart {
        Apart::Nodes => (
            "in another NUMA node of its socket",
            "one NUMA node a socket in the BIOS (NPS1, sub-NUMA clustering off), or a NIC in a slot of the GPU's node",
        ),
        Apart::Unknown => (
            "in another NUMA node",
            "move a NIC or the GPU to the same NUMA node, or where one socket has both nodes, let the BIOS make one of them (NPS1, sub-NUMA clustering off)",
        ),
        Apart::Sockets => ("on another socket", "move a NIC or the GPU to the same socket"),
    };
    // The cost of the links between and of NCCL's way through host memory is not known here.
    let cause = format!("its nearest NIC, {nic}, is {place}");
    Finding::new("far-nic", Severity::Slow, cause)
        .subject(gpu)
        .evidence(evidence)
        .remedy(format!("{remedy}; {NCCL}"))
        .confirm(MATRIX)
}

/// The same from nvidia-smi's matrix alone.
pub(super) fn of_matrix(matrix: &Matrix) -> Vec<Finding> {
    let mut findings = Vec::new();
    // A GPU with memory nodes of its own (Grace) is SYS from everything, its own socket's NICs included.
    let several_nodes = |gpu: usize| {
        let numa = matrix.endpoints.get(gpu).and_then(|endpoint| endpoint.numa.as_deref());
        numa.is_some_and(|numa| numa.contains([',', '-']))
    };
    for gpu in matrix.gpus().filter(|gpu| !several_nodes(*gpu)) {
        let ways = matrix.nics().filter_map(|nic| Some((matrix.between(gpu, nic)?, nic)));
        let nearest = ways.min_by_key(|(word, _)| *word);
        let names = |at: usize| matrix.endpoints.get(at).map_or("?", |e| e.known_as());
        if let Some((Word::Sys, nic)) = nearest {
            let evidence = format!("every NIC's word in the row of {} is SYS", names(gpu));
            findings.push(far_nic(names(gpu), names(nic), Apart::Unknown, evidence));
        }
    }
    findings
}
