//! Which MPI the backend runs on: found in the documented order, opened in every rank.
//! Not the search itself (`native::search`).

use std::path::{Path, PathBuf};

use native::{
    LoadError, mpi,
    search::{Environment, Kind},
};
use serde::{Deserialize, Serialize};

use crate::backend::nccl::used;

/// The file of an MPI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Libraries {
    /// The library.
    pub mpi: PathBuf,
}

impl Libraries {
    /// What this machine has; `mpi` is the user's own choice (`--mpi`).
    ///
    /// # Errors
    /// What is missing, as a half-sentence that says where was looked.
    pub fn find(mpi: Option<&Path>) -> Result<Libraries, String> {
        let mut environment = Environment::of_process();
        if let Some(path) = mpi {
            environment = environment.with(Kind::Mpi.variable(), path);
        }
        Ok(Libraries { mpi: used(Kind::Mpi, &environment)? })
    }

    /// Opens it, and joins nobody.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn open(&self) -> Result<&'static mpi::Mpi, LoadError> {
        mpi::Mpi::open(&self.mpi)
    }
}
