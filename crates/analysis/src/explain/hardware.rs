//! On which machine a run was: as the user says, as its record says, or as far as its log names it.
//! Not what the machine allows (`busbw_hardware::limits`).

use std::path::Path;

use busbw_core::finding::Finding;
use busbw_hardware::{machine::Machine, topology::too_fast};
use busbw_logs::measurement::Measurement;

use super::{
    page,
    placement::{self, Known},
};
use crate::machine_argument::{Described, MachineArgument, MachineError, of_run};

/// What the user says of the hardware.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hardware {
    /// The machine; of a topology file, one host.
    pub machine: Option<Machine>,
    /// Hosts, where the machine is one of several that are alike.
    pub nodes: Option<usize>,
    /// What in the machine's file is a mistake and was left out.
    pub mistakes: Vec<Finding>,
}

impl Hardware {
    /// Reads `--machine`.
    ///
    /// # Errors
    /// [`MachineError`].
    pub fn read(machine: Option<&str>, nodes: Option<usize>) -> Result<Hardware, MachineError> {
        let named = machine.map(|word| MachineArgument::read(Path::new(word))).transpose()?;
        let mistakes = match named.as_ref().map(|named| &named.described) {
            Some(Described::System(system)) => too_fast(system),
            _ => Vec::new(),
        };
        let machine = named.map(|named| named.machine()).transpose()?;
        Ok(Hardware { machine, nodes, mistakes })
    }

    /// The machine of a run, with where its ranks are.
    pub(super) fn of(&self, run: &Measurement) -> Option<Known> {
        let (machine, mut assumed) = match &self.machine {
            Some(machine) => (machine.clone(), Vec::new()),
            None => page::of_page(run).or_else(|| of_run(run))?,
        };
        let mut known = placement::place(machine, run, self.nodes);
        assumed.append(&mut known.assumed);
        let named = self.machine.as_ref();
        let contradictions = |machine| placement::contradictions(machine, run, self.nodes);
        Some(Known {
            named: named.is_some(),
            assumed,
            contradictions: named.map_or(Vec::new(), contradictions),
            ..known
        })
    }

    /// Why `--nodes` cannot be what a run had.
    pub fn refuses(&self, run: &Measurement) -> Option<String> {
        placement::refuse(self.machine.as_ref(), run, self.nodes?)
    }
}
