//! busbw tells you how fast your GPUs really talk, how fast the hardware allows, what stands between the two, and what
//! to set. This is the program, which carries its plugins for NCCL; what it does is [`busbw_cli::main`].
//!
//! A benchmark is a line: `options -> plan -> launch -> backend -> measure -> record -> render`. Every other command
//! starts at a record or at a text. The crates, each before those that use it:
//!
//! | crate | holds |
//! |---|---|
//! | [`nccl-plugin-abi`](../nccl_plugin_abi/index.html) | the tables of NCCL's plugins |
//! | [`stats`](../busbw_stats/index.html) | medians, intervals, comparison, stopping |
//! | [`library-logs`](../busbw_library_logs/index.html) | what NCCL, MPI and UCX print of themselves, as facts |
//! | [`core`](../busbw_core/index.html) | types, sizes, counts, patterns, plan, record |
//! | [`store`](../busbw_store/index.html), [`render`](../busbw_render/index.html) | records on disk; from a record to text |
//! | [`shm`](../busbw_shm/index.html), [`ffi`](../busbw_ffi/index.html) | shared memory and its collectives; every library that is opened at run time |
//! | [`hardware`](../busbw_hardware/index.html), [`host`](../busbw_host/index.html) | machines and their limits; this machine |
//! | [`logs`](../busbw_logs/index.html), [`analysis`](../busbw_analysis/index.html) | everyone's text as a `Measurement`; what it means |
//! | [`lint`](../busbw_lint/index.html) | mistakes in settings |
//! | [`job`](../busbw_job/index.html), [`runner`](../busbw_runner/index.html) | launchers and rendezvous; backends, measurement, supervisor |
//! | [`report`](../busbw_report/index.html) | the HTML page |
//! | [`cli`](../busbw_cli/index.html) | options and commands |
//! | [`nccl-plugin-busbw`](../nccl_plugin_busbw/index.html) | the net plugin |
//! | [`tuner-file`](../busbw_tuner_file/index.html), [`nccl-tuner-busbw`](../nccl_tuner_busbw/index.html) | the file of a tuner, and the tuner |
//! | [`watch-file`](../busbw_watch_file/index.html), [`nccl-profiler-busbw`](../nccl_profiler_busbw/index.html) | the file of a running job's process, and the profiler that writes it |
//!
//! ARCHITECTURE.md has the picture and the invariants, CONTRIBUTING.md the recipes.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    busbw_cli::main(busbw_cli::Libraries {
        net: embedded_files::net_plugin!(),
        tuner: embedded_files::tuner_plugin!(),
        profiler: embedded_files::profiler_plugin!(),
    })
}
