//! Which libraries the backend runs on: found in the documented order, opened in every rank.
//! Not the search itself (`busbw_ffi::search`).

use std::path::{Path, PathBuf};

use busbw_ffi::{
    LoadError,
    gpu::{GpuError, Runtime, Vendor},
    nccl::Nccl,
    search::{Environment, Kind, Standing, candidates},
};
use serde::{Deserialize, Serialize};

/// The files of a vendor's driver and of its collectives library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Libraries {
    /// Whether they are AMD's: HIP and RCCL.
    pub amd: bool,
    /// The driver.
    pub driver: PathBuf,
    /// NCCL or RCCL.
    pub nccl: PathBuf,
}

/// The GPUs of this machine, and the libraries for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpus {
    /// How many this process may use.
    pub count: usize,
    /// Bytes of the smallest one's memory.
    pub memory: u64,
    /// The files.
    pub libraries: Libraries,
}

impl Gpus {
    /// Asks the driver without creating a context on a GPU. `nccl` is the user's own choice
    /// (`--nccl`).
    ///
    /// # Errors
    /// What is missing, as a half-sentence.
    pub fn find(nccl: Option<&Path>) -> Result<Gpus, String> {
        let libraries = Libraries::find(nccl)?;
        let found = libraries.open_driver().map_err(|error| error.to_string()).and_then(seen);
        let (count, memory) = found.map_err(|why| why + nodes_missing(libraries.amd))?;
        Ok(Gpus { count, memory, libraries })
    }
}

/// What to do where the driver's library is here and its device nodes are not, as in a container that was started
/// without them: the driver's own words do not tell that from a node without GPUs.
fn nodes_missing(amd: bool) -> &'static str {
    match amd {
        false if !Path::new("/dev/nvidiactl").exists() => {
            "; there is no /dev/nvidiactl: load the driver's kernel module, or start the container with its GPUs (docker run --gpus all, apptainer exec --nv)"
        }
        true if !Path::new("/dev/kfd").exists() => {
            "; there is no /dev/kfd: load amdgpu, or start the container with its GPUs (--device /dev/kfd --device /dev/dri)"
        }
        _ => "",
    }
}

/// How many GPUs this process may use, and the bytes of the smallest one's memory.
pub(crate) fn seen(runtime: &Runtime) -> Result<(usize, u64), String> {
    let count = runtime.device_count().map_err(|error| error.to_string())?;
    let memories = (0..count).map(|ordinal| Ok(runtime.facts(ordinal)?.memory));
    let memories: Result<Vec<u64>, GpuError> = memories.collect();
    let memory = memories.map_err(|error| error.to_string())?.into_iter().min();
    let memory = memory.ok_or_else(|| format!("{} sees no GPU", runtime.vendor().driver()))?;
    Ok((count, memory))
}

impl Gpus {
    /// Whether all of them can be in multicast groups; `None` where the driver does not say.
    pub fn multicast(&self) -> Option<bool> {
        let runtime = self.libraries.open_driver().ok()?;
        let each = (0..self.count).map(|ordinal| runtime.facts(ordinal).ok()?.multicast);
        each.collect::<Option<Vec<bool>>>().map(|each| each.into_iter().all(|can| can))
    }

    /// A remark if two of the GPUs `ordinals` have no peer access to each other: the first such
    /// pair.
    pub fn apart(&self, ordinals: &[usize]) -> Option<String> {
        let runtime = self.libraries.open_driver().ok()?;
        let pairs = ordinals.iter().flat_map(|a| ordinals.iter().map(move |b| (*a, *b)));
        let apart = |(a, b): &(usize, usize)| {
            a != b && runtime.can_access_peer(*a, *b).is_ok_and(|can| !can)
        };
        let (a, b) = pairs.into_iter().find(apart)?;
        Some(format!(
            "GPU {a} has no peer access to GPU {b}: between such GPUs NCCL goes through host memory; `busbw doctor` looks for the cause"
        ))
    }
}

/// Open libraries.
#[derive(Debug, Clone, Copy)]
pub struct Opened {
    /// The driver.
    pub runtime: &'static Runtime,
    /// NCCL or RCCL.
    pub nccl: &'static Nccl,
}

impl Libraries {
    /// Finds the libraries of this machine: NVIDIA's come first. `nccl` is the user's own choice
    /// (`--nccl`).
    ///
    /// # Errors
    /// What is missing, as a half-sentence that names the places that were searched.
    pub fn find(nccl: Option<&Path>) -> Result<Libraries, String> {
        let mut environment = Environment::of_process();
        if let Some(path) = nccl {
            environment = environment.with(Kind::Nccl.variable(), path);
        }
        let found = |driver, collectives, amd| -> Result<Libraries, String> {
            let driver = used(driver, &environment)?;
            let nccl = used(collectives, &environment)?;
            Ok(Libraries { amd, driver, nccl })
        };
        found(Kind::Cuda, Kind::Nccl, false).or_else(|why| {
            // Without AMD's driver, the error about NVIDIA's is the useful one.
            found(Kind::Hip, Kind::Rccl, true).map_err(|_| why)
        })
    }

    /// Opens the driver alone.
    ///
    /// # Errors
    /// The file cannot be loaded, or it lacks a function.
    pub fn open_driver(&self) -> Result<&'static Runtime, LoadError> {
        let vendor = if self.amd { Vendor::Amd } else { Vendor::Nvidia };
        Runtime::open(vendor, &self.driver)
    }

    /// Opens both.
    ///
    /// # Errors
    /// A file cannot be loaded, or it lacks a function.
    pub fn open(&self) -> Result<Opened, LoadError> {
        Ok(Opened { runtime: self.open_driver()?, nccl: Nccl::open(&self.nccl)? })
    }
}

/// The copy of a library that is loaded.
pub(crate) fn used(kind: Kind, environment: &Environment) -> Result<PathBuf, String> {
    let found = candidates(kind, environment, Path::new("/"));
    if let Some(candidate) = found.iter().find(|c| c.standing == Standing::Used) {
        return Ok(candidate.path.clone());
    }
    let refused: Vec<String> = found
        .iter()
        .filter_map(|candidate| match &candidate.standing {
            Standing::Refused(why) => Some(format!("{} {why}", candidate.path.display())),
            _ => None,
        })
        .collect();
    Err(match refused.as_slice() {
        [] => format!("there is no {kind}"),
        refused => format!("there is no usable {kind}: {}", refused.join(", ")),
    })
}
