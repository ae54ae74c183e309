//! On which machine a run was: as the user says, as its record says, or as far as its log names it.
//! Not what the machine allows (`model::limits`).

use std::path::Path;

use model::{
    Collective,
    limits::{self, Candidate, Inside, Memory, Placement},
    machine::Machine,
    measurement::{self, Measurement},
};

use crate::machine_argument::{MachineArgument, MachineError, of_run};

/// What the user says of the hardware.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hardware {
    /// The machine; of a topology file, one host.
    pub machine: Option<Machine>,
    /// Hosts, where the machine is one of several that are alike.
    pub nodes: Option<usize>,
}

impl Hardware {
    /// Reads `--machine`.
    ///
    /// # Errors
    /// [`MachineError`].
    pub fn read(machine: Option<&str>, nodes: Option<usize>) -> Result<Hardware, MachineError> {
        let named = machine.map(|word| MachineArgument::read(Path::new(word))).transpose()?;
        let machine = named.map(|named| named.machine()).transpose()?;
        Ok(Hardware { machine, nodes })
    }

    /// The machine of a run, with where its ranks are.
    pub(super) fn of(&self, run: &Measurement) -> Option<Known> {
        let mut known = match &self.machine {
            Some(machine) => {
                Known { machine: machine.clone(), assumed: Vec::new(), placement: None }
            }
            None => {
                let (machine, assumed) = of_run(run)?;
                Known { machine, assumed, placement: None }
            }
        };
        known.place(run, self.nodes);
        Some(known)
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
