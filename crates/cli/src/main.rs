//! The `busbw` program. Not where anything happens: see `lib.rs`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    busbw::main()
}
