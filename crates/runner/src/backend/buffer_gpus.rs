//! The GPUs that hold buffers where no NCCL is used: found in the documented order, opened in every rank.
//! Not the search itself (`busbw_ffi::search`), and not what reaches their memory.

use std::path::PathBuf;

use busbw_ffi::{
    LoadError,
    gpu::{Facts, Runtime, Vendor},
    search::{Environment, Kind},
};
use serde::{Deserialize, Serialize};

use super::nccl::{seen, used};

/// The GPUs that this process may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpus {
    /// Whether they are AMD's.
    pub amd: bool,
    /// Their driver.
    pub driver: PathBuf,
    /// How many.
    pub count: usize,
    /// Bytes of the smallest one's memory.
    pub memory: u64,
}

/// The GPU of one rank.
pub struct Gpu {
    /// Its driver.
    pub(crate) runtime: &'static Runtime,
    /// What the driver reports about it.
    pub facts: Facts,
}

impl Gpus {
    /// NVIDIA's driver comes first.
    ///
    /// # Errors
    /// What is missing, as a half-sentence.
    pub(crate) fn find(environment: &Environment) -> Result<Gpus, String> {
        let of = |kind, amd| -> Result<Gpus, String> {
            let mut gpus = Gpus { amd, driver: used(kind, environment)?, count: 0, memory: 0 };
            let runtime = gpus.open().map_err(|error| error.to_string())?;
            (gpus.count, gpus.memory) = seen(runtime)?;
            Ok(gpus)
        };
        // Without AMD's driver, the error about NVIDIA's is the useful one.
        of(Kind::Cuda, false).or_else(|why| of(Kind::Hip, true).map_err(|_| why))
    }

    /// How many of the `here` ranks of this host share one GPU, whose memory is divided among them. A
    /// process that sees a single GPU is taken to have it to itself
    /// (`first_device` of busbw-cli's options does so).
    pub fn ranks_on_one(&self, here: usize) -> usize {
        if self.count == 1 { 1 } else { here.div_ceil(self.count) }
    }

    fn open(&self) -> Result<&'static Runtime, LoadError> {
        let vendor = if self.amd { Vendor::Amd } else { Vendor::Nvidia };
        Runtime::open(vendor, &self.driver)
    }

    /// GPU number `ordinal`, without a context on it.
    ///
    /// # Errors
    /// The driver does not answer: its own words.
    pub fn take(&self, ordinal: usize) -> Result<Gpu, String> {
        let runtime = self.open().map_err(|error| error.to_string())?;
        let facts = runtime.facts(ordinal).map_err(|error| error.to_string())?;
        Ok(Gpu { runtime, facts })
    }
}
