//! The `nccl` backend on the shim libraries of tests/shims: everything of it but its timing. Real
//! processes, each bounded in time.
//! Not real GPUs: tests/gpu.sh runs there.

mod data;
mod groups;
mod libraries;
mod log;
mod loss;
mod options;
mod refusal;
mod rocm;
mod scale;
mod shims;
mod tuner;
mod variants;
