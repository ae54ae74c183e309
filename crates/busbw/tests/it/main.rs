//! The program as people call it, and the crates together: one binary, so that the tests are linked once.
//! Not what a crate does alone: that is tested beside the code.
#![forbid(unsafe_code)]
// clippy.toml allows these in test functions; everything in here serves one.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod algorithms;
mod built_shims;
mod check;
mod commands;
mod compare;
mod counters;
mod differences;
mod doctor;
mod explain;
mod explain_cases;
mod explain_corpus;
mod explain_fit;
mod explain_paths;
mod faults;
mod golden;
mod import;
mod last_line;
mod launching;
mod list;
mod nccl;
mod net;
mod osu;
mod pairs;
mod plan;
mod pods;
mod processes;
mod rdma;
mod replay;
mod report;
mod sweep;
mod topo;
mod tune;
mod untrusted;
mod watch;
