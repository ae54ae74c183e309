//! How the plugin is linked. Nothing is generated.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // As busbw's: NCCL may close the library while a thread of ours still runs in it.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
}
