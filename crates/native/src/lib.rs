//! Libraries of the machine, found and loaded at run time: CUDA's driver, NCCL, NVML.
//! Not what is done with them: backends, the preflight and the counters are the program's.

/// NVIDIA's management library.
pub mod nvml;
/// Where the machine keeps a library, and which copy is used.
pub mod search;
