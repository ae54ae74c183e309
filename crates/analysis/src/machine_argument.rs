//! A machine that a word of the command line names: a ready machine, a file of any form, or `-`.
//! Not this machine (`machine`, `topo`), and not what follows from it.

mod form;
mod of_run;

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

/// The largest file that is read, bytes: records are the largest ones.
const LARGEST: u64 = 64 << 20;

/// What a word names.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineArgument {
    /// As people know it: the word itself, or `stdin`.
    pub name: String,
    /// What was there.
    pub described: Described,
    /// What it is, and what such a source does not tell.
    pub note: String,
}

/// What a source tells of a machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Described {
    /// The tree of a host.
    System(System),
    /// The ways between the devices of a host.
    Matrices(Vec<Matrix>),
    /// NCCL's rings and trees, which are of a host and do not tell it.
    Graphs(Graphs),
    /// What limits need, and nothing else.
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
        /// What the system said.
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
        if bytes.len() as u64 > LARGEST {
            return Err(refuse(format!("it has more than {LARGEST} bytes")));
        }
        let (described, note) =
            form::read(&String::from_utf8_lossy(&bytes), &name).map_err(refuse)?;
        Ok(MachineArgument { name, described, note })
    }

    /// The machine as limits need it.
    ///
    /// # Errors
    /// When the source tells none.
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
    from.take(LARGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
