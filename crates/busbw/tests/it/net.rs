//! The `net` backend and `plugin check` on the net plugin of tests/shims: real processes, each bounded in time.
//! Not busbw's own plugin (crates/nccl-plugin-busbw).

mod check;
mod runs;
