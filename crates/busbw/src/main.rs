//! The `busbw` program, which carries the net plugin. Not where anything happens: see `busbw_cli::run`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    busbw_cli::main(embedded_plugin::net_plugin!())
}
