//! How the plugin is linked. Nothing is generated.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // NCCL may close the library (NCCL_NET_PLUGIN_REF_COUNT=1) while a thread of ours still runs in it.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
}
