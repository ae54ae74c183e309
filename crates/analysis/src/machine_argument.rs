//! Reads the machine named on the command line: a ready machine, a file of any format, or `-`.
//! Not this machine (`busbw-host`), and not its limits.

mod form;
pub(crate) mod of_run;
mod of_topology_dump;

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use busbw_hardware::{
    machine::{Machine, ready},
    topology::{self, Graphs, Input, Matrix, System},
};
use thiserror::Error;

pub(crate) use of_run::of_run;

/// Maximum size of a file, bytes: records are the largest.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The machine that a word names.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineArgument {
    /// Its name: the word itself, or `stdin`.
    pub name: String,
    /// Its description.
    pub described: Described,
    /// The kind of source, and the facts that it lacks.
    pub note: String,
}

/// The description of a machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Described {
    /// The tree of a host.
    System(System),
    /// The paths between the devices of a host.
    Matrices(Vec<Matrix>),
    /// NCCL's rings and trees, which are of a host and do not tell it.
    Graphs(Graphs),
    /// Only the facts that limits need.
    Machine(Machine),
}

impl From<Input> for Described {
    fn from(input: Input) -> Described {
        match input {
            Input::System(system) => Described::System(system),
            Input::Matrices(matrices) => Described::Matrices(matrices),
            Input::Graphs(graphs) => Described::Graphs(graphs),
        }
    }
}

/// Why a word names no machine.
#[derive(Debug, Error)]
pub enum MachineError {
    /// The file.
    #[error("cannot read {name}: {source}; it is no ready machine either ({})", ready::names().join(", "))]
    File {
        /// As typed.
        name: String,
        /// The system's error.
        source: io::Error,
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

impl MachineArgument {
    /// Reads what `word` names: a file, `-` for stdin, or, where there is no such file, a ready machine.
    /// A file's form is recognised by its content.
    ///
    /// # Errors
    /// [`MachineError`].
    pub fn read(word: &Path) -> Result<MachineArgument, MachineError> {
        let name = word.to_string_lossy().into_owned();
        if let Some(machine) = ready::ready(&name).filter(|_| !word.exists()) {
            let note = "a ready machine: what its makers publish".to_owned();
            return Ok(MachineArgument { name, described: Described::Machine(machine), note });
        }
        let fail = |source| MachineError::File { name: name.clone(), source };
        let (name, bytes) = if name == "-" {
            ("stdin".to_owned(), bytes(io::stdin().lock()).map_err(fail)?)
        } else {
            (name.clone(), File::open(word).and_then(bytes).map_err(fail)?)
        };
        let refuse = |why: String| MachineError::Text { name: name.clone(), why };
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(refuse(format!("it has more than {MAX_FILE_BYTES} bytes")));
        }
        let (described, note) =
            form::read(&String::from_utf8_lossy(&bytes), &name).map_err(refuse)?;
        Ok(MachineArgument { name, described, note })
    }

    /// The machine as limits need it.
    ///
    /// # Errors
    /// The source describes no machine.
    pub fn machine(&self) -> Result<Machine, MachineError> {
        let refuse =
            |why: &str| MachineError::Text { name: self.name.clone(), why: why.to_owned() };
        let title = Path::new(&self.name).file_stem();
        let title = title.map_or(self.name.clone(), |stem| stem.to_string_lossy().into_owned());
        match &self.described {
            Described::Machine(machine) => Ok(machine.clone()),
            Described::System(system) => Ok(topology::machine_of_system(system, &title)),
            Described::Matrices(matrices) => match matrices.first() {
                Some(matrix) => Ok(topology::machine_of_matrix(matrix, &title)),
                None => Err(refuse("it has no matrix")),
            },
            Described::Graphs(_) => {
                Err(refuse("it holds NCCL's graphs; the topology (NCCL_TOPO_DUMP_FILE) is needed"))
            }
        }
    }
}

/// All bytes, and one more than is allowed where there are more.
fn bytes(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
