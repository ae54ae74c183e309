//! Which MPI the backend runs on: found in the documented order, opened in every rank.
//! Not the search itself (`busbw_ffi::search`).

use std::path::{Path, PathBuf};

use busbw_ffi::{
    LoadError, mpi,
    search::{Environment, Kind},
};
use serde::{Deserialize, Serialize};

use crate::backend::{buffer_gpus::Gpus, nccl::used};

/// The file of an MPI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Libraries {
    /// The MPI library.
    pub mpi: PathBuf,
    /// The GPUs, where some buffers are on them.
    pub gpus: Option<Gpus>,
}

impl Libraries {
    /// Finds the libraries of this machine; `mpi` is the user's own choice (`--mpi`).
    ///
    /// # Errors
    /// What is missing, as a half-sentence that names the places that were searched.
    pub fn find(mpi: Option<&Path>, on_gpus: bool) -> Result<Libraries, String> {
        let mut environment = Environment::of_process();
        if let Some(path) = mpi {
            environment = environment.with(Kind::Mpi.variable(), path);
        }
        let gpus = on_gpus.then(|| Gpus::find(&environment)).transpose().map_err(|why| {
            format!("{why}; or leave buffers on the host (--buffers host; H under OSU's names)")
        })?;
        Ok(Libraries { mpi: used(Kind::Mpi, &environment)?, gpus })
    }

    /// Opens the library without MPI_Init.
    ///
    /// # Errors
    /// The file cannot be loaded, or it lacks a function.
    pub fn open(&self) -> Result<&'static mpi::Mpi, LoadError> {
        mpi::Mpi::open(&self.mpi)
    }
}
