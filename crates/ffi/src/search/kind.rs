//! The libraries that busbw searches: their file names, vendors' folders, and where they keep their
//! version.
//! Not the search.

use busbw_core::environment;
use std::fmt;

use super::Environment;

/// A library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// NVIDIA's collectives.
    Nccl,
    /// AMD's collectives.
    Rccl,
    /// The CUDA driver.
    Cuda,
    /// AMD's HIP runtime.
    Hip,
    /// NVIDIA's management library.
    Nvml,
    /// An MPI.
    Mpi,
    /// NCCL's net plugin.
    NetPlugin,
    /// NCCL's tuner plugin.
    TunerPlugin,
    /// NCCL's profiler plugin.
    ProfilerPlugin,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Nccl => "NCCL (libnccl.so.2)",
            Kind::Rccl => "RCCL (librccl.so.1)",
            Kind::Cuda => "CUDA driver (libcuda.so.1)",
            Kind::Hip => "HIP (libamdhip64.so)",
            Kind::Nvml => "NVML (libnvidia-ml.so.1)",
            Kind::Mpi => "MPI",
            Kind::NetPlugin => "net plugin",
            Kind::TunerPlugin => "tuner plugin",
            Kind::ProfilerPlugin => "profiler plugin",
        })
    }
}

/// Where a library's file holds its version.
pub(super) enum Mark {
    /// As text that follows these words in the constant data.
    After(&'static str),
    /// As a C string that this exported symbol names.
    At(&'static str),
}

impl Kind {
    /// The variable by which the user names one. For NCCL's plugins these are NCCL's own variables.
    pub const fn variable(self) -> &'static str {
        match self {
            Kind::Nccl => environment::NCCL,
            Kind::Rccl => environment::RCCL,
            Kind::Cuda => environment::CUDA,
            Kind::Hip => environment::HIP,
            Kind::Nvml => environment::NVML,
            Kind::Mpi => environment::MPI,
            // These change the file names instead: NCCL makes several names of one word.
            Kind::NetPlugin | Kind::TunerPlugin | Kind::ProfilerPlugin => "",
        }
    }

    /// File names, the preferred first.
    pub(super) fn file_names(self, environment: &Environment) -> Vec<String> {
        let fixed: &[&str] = match self {
            Kind::Nccl => &["libnccl.so.2", "libnccl.so"],
            Kind::Rccl => &["librccl.so.1", "librccl.so"],
            Kind::Cuda => &["libcuda.so.1"],
            // HIP's major number follows ROCm's.
            Kind::Hip => &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"],
            Kind::Nvml => &["libnvidia-ml.so.1"],
            // Open MPI; MPICH and its family; Debian's MPICH; Cray's; the standard ABI of MPI 5,
            // whose number is not settled; and what compilers link with, which may be any of them.
            Kind::Mpi => &[
                "libmpi.so.40",
                "libmpi.so.12",
                "libmpich.so.12",
                "libmpi_cray.so.12",
                "libmpi_abi.so.1",
                "libmpi_abi.so.0",
                "libmpi.so",
            ],
            Kind::NetPlugin => return plugin_names("net", "NCCL_NET_PLUGIN", environment),
            Kind::TunerPlugin => return plugin_names("tuner", "NCCL_TUNER_PLUGIN", environment),
            Kind::ProfilerPlugin => {
                return plugin_names("profiler", "NCCL_PROFILER_PLUGIN", environment);
            }
        };
        fixed.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Folders of the vendors' packages that the loader may not know; a part may hold one `*`.
    pub(super) const fn folders(self) -> &'static [&'static str] {
        match self {
            Kind::Nccl | Kind::Cuda | Kind::Nvml => &[
                "/usr/local/cuda*/lib64",
                "/usr/lib/x86_64-linux-gnu",
                "/usr/lib/aarch64-linux-gnu",
                "/usr/local/nvidia/lib64",
                "/opt/nccl/build/lib",
            ],
            Kind::Rccl | Kind::Hip => &["/opt/rocm*/lib"],
            // Debian's and Red Hat's packages, DOCA and MLNX_OFED, HPC-X, AWS, Intel, Cray, and what
            // people install by hand.
            Kind::Mpi => &[
                "/usr/lib/x86_64-linux-gnu",
                "/usr/lib/aarch64-linux-gnu",
                "/usr/lib/x86_64-linux-gnu/openmpi/lib",
                "/usr/lib/aarch64-linux-gnu/openmpi/lib",
                "/usr/lib64/openmpi/lib",
                "/usr/lib64/mpich/lib",
                "/usr/mpi/gcc/openmpi*/lib64",
                "/opt/hpcx*/ompi/lib",
                "/opt/amazon/openmpi*/lib64",
                "/opt/amazon/openmpi*/lib",
                "/opt/intel/oneapi/mpi/latest/lib",
                "/opt/intel/oneapi/mpi/latest/lib/release",
                "/opt/cray/pe/lib64",
                "/opt/openmpi*/lib",
                "/opt/ompi*/lib",
                "/opt/mpich*/lib",
                "/opt/mvapich*/lib",
                "/usr/local/lib",
            ],
            Kind::NetPlugin | Kind::TunerPlugin | Kind::ProfilerPlugin => &[],
        }
    }

    /// A program whose folder lies beside the library's.
    pub(super) const fn launcher(self) -> Option<&'static str> {
        match self {
            Kind::Mpi => Some("mpirun"),
            _ => None,
        }
    }

    /// Folders within Python's packages.
    pub(super) const fn in_wheel(self) -> &'static [&'static str] {
        match self {
            Kind::Nccl => &["nvidia/nccl/lib", "torch/lib"],
            Kind::Rccl | Kind::Hip => &["torch/lib"],
            _ => &[],
        }
    }

    /// Where its version is. NCCL: src/init.cc VERSION_STRING, kept in one piece "so that running
    /// strings on the lib can quickly reveal the version"; RCCL: the same line of its src/init.cc,
    /// with a colon from ROCm 6 on. MPI: `nm -D` of Open MPI 4.1.4 and MPICH 4.0.2.
    pub(super) const fn marks(self) -> &'static [Mark] {
        match self {
            Kind::Nccl => &[Mark::After("NCCL version ")],
            Kind::Rccl => &[Mark::After("RCCL version : "), Mark::After("RCCL version ")],
            Kind::Mpi => &[Mark::At("ompi_version_string"), Mark::At("MPII_Version_string")],
            _ => &[],
        }
    }

    /// Prefixes of the symbols that show what the library can do.
    pub(super) const fn telling(self) -> &'static [&'static str] {
        match self {
            // One library may hold several of them: NCCL searches for a tuner in the net plugin,
            // too.
            Kind::NetPlugin | Kind::TunerPlugin | Kind::ProfilerPlugin => {
                &["ncclNetPlugin_v", "ncclCollNetPlugin_v", "ncclTunerPlugin_v", "ncclProfiler"]
            }
            // The Open MPI and the MPICH family have different ABIs.
            Kind::Mpi => &["ompi_mpi_comm_self", "MPI_Abi_get_version"],
            _ => &[],
        }
    }
}

/// What NCCL tries for a plugin, src/plugin/plugin_open.cc: every word of the variable as it is, then
/// as `libnccl-<kind>-<word>.so`; without the variable `libnccl-<kind>.so`; for `none`, nothing.
fn plugin_names(kind: &str, variable: &str, environment: &Environment) -> Vec<String> {
    let Some(words) = environment.get(variable) else { return vec![format!("libnccl-{kind}.so")] };
    let words = words.to_string_lossy().into_owned();
    let each = words.split(',').map(str::trim).filter(|word| !word.is_empty());
    each.filter(|word| !word.eq_ignore_ascii_case("none") && *word != "STATIC_PLUGIN")
        .flat_map(|word| {
            let whole = word.contains('/') || (word.starts_with("lib") && word.ends_with(".so"));
            let long = (!whole).then(|| format!("libnccl-{kind}-{word}.so"));
            [Some(word.to_owned()), long].into_iter().flatten()
        })
        .collect()
}
