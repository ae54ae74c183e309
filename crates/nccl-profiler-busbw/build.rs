//! How the tuner is linked. Nothing is generated.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // NCCL closes the library with its last communicator and opens it again with the next: it stays as it is.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
}
