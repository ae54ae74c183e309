//! On which machine a run was: as the user says, as its record says, or as far as its log names it.
//! Not what the machine allows (`model::limits`).

use std::{fs, io, path::Path};

use model::{
    Collective,
    limits::{self, Candidate, Inside, Memory, Placement},
    machine::{GpuModel, Machine, NicKind, Nics, Node, NvLink, file, models, ready},
    measurement::{self, Measurement},
    topology,
};
use thiserror::Error;

/// The largest machine or topology file that is read, bytes.
const LARGEST: u64 = 64 << 20;

/// What the user says of the hardware.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hardware {
    /// The machine; of a topology file, one host.
    pub machine: Option<Machine>,
    /// Hosts, where the machine is one of several that are alike.
    pub nodes: Option<usize>,
}

/// Why `--machine` gives no machine.
#[derive(Debug, Error)]
pub enum MachineError {
    /// The file.
    #[error("cannot read the machine {name}: {source}; it is no ready machine either ({ready})")]
    File {
        /// As typed.
        name: String,
        /// What the system said.
        source: io::Error,
        /// Names of ready machines.
        ready: String,
    },
    /// Its text.
    #[error("{name} describes no machine: {why}")]
    Text {
        /// As typed.
        name: String,
        /// What is wrong.
        why: String,
    },
}

impl Hardware {
    /// Reads `--machine`: a ready machine's name, a machine file (TOML), a topology file (XML), or
    /// nvidia-smi's matrix.
    ///
    /// # Errors
    /// [`MachineError`].
    pub fn read(machine: Option<&str>, nodes: Option<usize>) -> Result<Hardware, MachineError> {
        let machine = machine.map(read).transpose()?;
        Ok(Hardware { machine, nodes })
    }

    /// The machine of a run, with where its ranks are.
    pub(super) fn of(&self, run: &Measurement) -> Option<Known> {
        let mut known = match &self.machine {
            Some(machine) => {
                Known { machine: machine.clone(), assumed: Vec::new(), placement: None }
            }
            None => named(run)?,
        };
        known.place(run, self.nodes);
        Some(known)
    }
}

fn read(name: &str) -> Result<Machine, MachineError> {
    if let Some(machine) = ready::ready(name) {
        return Ok(machine);
    }
    let fail = |source| MachineError::File {
        name: name.to_owned(),
        source,
        ready: ready::names().join(", "),
    };
    let path = Path::new(name);
    let length = fs::metadata(path).map_err(fail)?.len();
    let refuse = |why: String| MachineError::Text { name: name.to_owned(), why };
    if length > LARGEST {
        return Err(refuse(format!("a file of {length} bytes is not read")));
    }
    let text = String::from_utf8_lossy(&fs::read(path).map_err(fail)?).into_owned();
    parse(&text, name).map_err(refuse)
}

fn parse(text: &str, name: &str) -> Result<Machine, String> {
    let toml = Path::new(name).extension().is_some_and(|extension| extension == "toml");
    if toml {
        return file::parse(text).map_err(|e| e.to_string());
    }
    let title = Path::new(name).file_stem().map_or(name.into(), |stem| stem.to_string_lossy());
    match topology::recognise(text) {
        Ok(topology::Input::System(system)) => Ok(topology::machine_of_system(&system, &title)),
        Ok(topology::Input::Matrices(matrices)) => match matrices.first() {
            Some(matrix) => Ok(topology::machine_of_matrix(matrix, &title)),
            None => Err("it has no matrix".to_owned()),
        },
        Ok(topology::Input::Graphs(_)) => {
            Err("it holds NCCL's graphs; the topology (NCCL_TOPO_DUMP_FILE) is needed".to_owned())
        }
        Err(refused) => file::parse(text).map_err(|_| refused.to_string()),
    }
}

/// A machine, where ranks are on it, and what was taken for granted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    pub machine: Machine,
    pub placement: Option<Placement>,
    pub assumed: Vec<String>,
}

impl Known {
    /// Finds where the ranks are.
    fn place(&mut self, run: &Measurement, nodes: Option<usize>) {
        let Some(ranks) = run.rank_count().filter(|ranks| *ranks > 0) else { return };
        let gpus = self.machine.node.gpus.max(1);
        let said = nodes.or(run.hosts);
        if said.is_none() && self.machine.nodes == 1 && ranks > gpus {
            let needed = ranks.div_ceil(gpus);
            self.assumed.push(format!(
                "{needed} hosts like {}, since one has {gpus} GPUs",
                self.machine.name
            ));
            self.machine.nodes = needed;
        }
        if let Some(said) = said {
            self.machine.nodes = self.machine.nodes.max(said);
            self.placement = ranks
                .is_multiple_of(said.max(1))
                .then(|| Placement::new(said, ranks / said.max(1)));
        } else {
            self.placement = Placement::filling(&self.machine, ranks);
            if let Some(placement) = self.placement
                && self.machine.nodes > 1
            {
                let Placement { nodes, per_node, .. } = placement;
                self.assumed.push(format!("{per_node} ranks on each of {nodes} hosts"));
            } else if self.placement.is_some() && ranks > 1 {
                self.assumed.push("all ranks on one host".to_owned());
            }
        }
        if spans_no_nodes(run)
            && let Some(nvlink) = &mut self.machine.node.nvlink
        {
            nvlink.domain = nvlink.domain.min(gpus);
        }
        if let Some(placement) = &mut self.placement {
            placement.inside = inside(run);
            if run.test.memory.is_some_and(|memory| memory.value == measurement::Memory::Host) {
                placement.memory = Memory::Host;
            }
        }
    }

    pub(super) fn candidates(&self, collective: Collective) -> Vec<Candidate> {
        let Some(placement) = &self.placement else { return Vec::new() };
        limits::candidates(&self.machine, collective, placement)
    }
}

/// Whether NCCL says, or was told, that NVLink ends at the node.
fn spans_no_nodes(run: &Measurement) -> bool {
    let said = run.library.iter().flat_map(|facts| &facts.communicators);
    let mut said =
        said.filter(|one| one.nodes.is_some_and(|nodes| nodes > 1)).filter_map(|one| one.mnnvl);
    setting(run, "NCCL_MNNVL_ENABLE").is_some_and(|value| value == "0")
        || said.next() == Some(false)
}

fn inside(run: &Measurement) -> Inside {
    let off = |name: &str| setting(run, name).is_some_and(|value| value == "1");
    match (off("NCCL_P2P_DISABLE"), off("NCCL_SHM_DISABLE")) {
        (true, true) => Inside::Network,
        (true, false) => Inside::HostMemory,
        _ => Inside::Best,
    }
}

/// A variable as the record has it, or as the command line passes it (`-x NAME=value`, `NAME=value`).
pub(super) fn setting<'a>(run: &'a Measurement, name: &str) -> Option<&'a str> {
    let said = run.environment.get(name).map(String::as_str);
    said.or_else(|| {
        let words = run.command.as_deref()?.split_ascii_whitespace();
        words
            .filter_map(|word| word.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    })
}

/// The machine as far as a run itself names it: GPUs by their name and number, NICs from a record.
fn named(run: &Measurement) -> Option<Known> {
    let name = &run.devices.first()?.name;
    let gpu = models::find(name)?;
    if run.devices.iter().any(|device| device.name != *name) {
        return None;
    }
    let hosts = run.hosts.filter(|hosts| *hosts > 0)?;
    let recorded = run.machine.as_ref();
    let per_host = run.rank_count().filter(|ranks| ranks.is_multiple_of(hosts))? / hosts;
    let gpus = recorded.map_or(per_host, |machine| machine.gpus.len().max(per_host));
    // An H100 may be an SXM board or a PCIe card: NVML's name tells, and `find` goes by it.
    let nvlink = gpu.links.map(|_| NvLink {
        links: None,
        line: gpu.line,
        // Eight of them, or one of a rack, are joined by switches; fewer may be by plain links,
        // which join two GPUs by a part of them only.
        switched: gpus >= 8 || gpu.name.starts_with("GB"),
        multicast: None,
        domain: gpus,
    });
    let nics = recorded.map(nics).unwrap_or_default();
    let assumed = vec![format!("{gpus} × {} a host, as the device list names them", gpu.name)];
    let model = GpuModel { name: gpu.name.to_owned(), sm: Some(gpu.sm) };
    let node = Node { gpus, gpu: Some(model), nvlink, pcie: None, cpu: None, nics };
    let machine =
        Machine {
            name: format!("{hosts} × {gpus} {}", gpu.name), nodes: hosts, node, sharp: None
        };
    Some(Known { machine, placement: None, assumed })
}

/// A record's NICs, alike ones together. Ethernet interfaces of RDMA NICs are the same ports again.
fn nics(machine: &model::record::Machine) -> Vec<Nics> {
    let mut groups: Vec<Nics> = Vec::new();
    let rdma = machine.nics.iter().any(|nic| nic.kind == "infiniband");
    for nic in machine.nics.iter().filter(|nic| (nic.kind == "infiniband") == rdma) {
        let kind = if rdma { NicKind::InfiniBand } else { NicKind::Ethernet };
        let rate = nic.speed_mbps.map(|mbps| mbps as f64 / 1e3);
        match groups.iter_mut().find(|group| group.rate == rate) {
            Some(group) => group.count += 1,
            None => groups.push(Nics { count: 1, rate, kind, mtu: None, slot: None, sharing: 1 }),
        }
    }
    groups
}
