//! Libraries of the machine, found and loaded at run time: CUDA's driver, NCCL, NVML.
//! Not what is done with them: backends, the preflight and the counters are the program's.

/// Kernels that fill and verify a GPU's memory.
pub mod kernels;
/// NVIDIA's management library.
pub mod nvml;
