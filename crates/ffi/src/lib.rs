//! Libraries of the machine, found and loaded at run time: CUDA's driver (or HIP), NCCL (or RCCL),
//! MPI, NVML, net plugins, libibverbs; and the statistics of network drivers.
//! Not what is done with them: that is for backends (`busbw-runner`), doctor and counters (`busbw-host`).

/// Variables of this process's own environment.
pub mod environment;
/// Statistics of network adapters' drivers.
pub mod ethtool;
/// GPUs through CUDA's driver or HIP.
pub mod gpu;
/// Kernels that fill and verify a GPU's memory.
pub mod kernels;
/// MPI.
pub mod mpi;
/// NCCL or RCCL.
pub mod nccl;
/// NCCL's net plugins.
pub mod net;
/// NVIDIA's management library.
pub mod nvml;
/// The search for a library, and which copy is used.
pub mod search;
/// Streams of C's library.
pub mod streams;

pub use dynamic_library::LoadError;
