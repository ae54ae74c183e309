//! Builds busbw's net plugin (crates/nccl-plugin-busbw), which this program carries: cargo gives a program no other
//! crate's shared library.
//! Not what is done with it (`plugin::embedded`).

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What the library is made of, from the workspace's folder.
const SOURCES: [&str; 6] = [
    "Cargo.lock",
    "Cargo.toml",
    "crates/nccl-plugin-busbw/Cargo.toml",
    "crates/nccl-plugin-busbw/src",
    "crates/nccl-plugin-abi/Cargo.toml",
    "crates/nccl-plugin-abi/src",
];

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let workspace = here.join("../..").canonicalize()?;
    for source in SOURCES {
        println!("cargo:rerun-if-changed={}", workspace.join(source).display());
    }
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let library = out.join("net_plugin.so");
    let dynamic = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if dynamic.split(',').any(|feature| feature == "crt-static") {
        // No shared library can be made for such a target.
        fs::write(&library, [])?;
    } else {
        fs::copy(build(&workspace, &out.join("plugin"))?, &library)?;
    }
    println!("cargo:rustc-env=BUSBW_NET_PLUGIN={}", library.display());
    Ok(())
}

/// Builds the library below `target`, in the profile of this build; its file.
fn build(workspace: &Path, target: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let triple = env::var("TARGET")?;
    let is_release = env::var("PROFILE")? == "release";
    let (profile, folder) = if is_release { ("release", "release") } else { ("dev", "debug") };
    let mut cargo = Command::new(env::var_os("CARGO").ok_or("cargo does not say where it is")?);
    cargo
        .current_dir(workspace)
        .args(["build", "--locked", "--quiet", "--package", "nccl-plugin-busbw", "--lib"])
        .args(["--profile", profile, "--target", &triple])
        .arg("--target-dir")
        .arg(target)
        // It is carried by every program, and its own lines say what went wrong.
        .args(["--config", &format!("profile.{profile}.debug=false")])
        .args(["--config", &format!("profile.{profile}.strip=true")]);
    // clippy and its like look at our sources, not at this.
    for name in ["RUSTC_WORKSPACE_WRAPPER", "CLIPPY_ARGS"] {
        cargo.env_remove(name);
    }
    // Flags are the program's own, paths that are to be hidden among them; but what fuzzers and sanitizers look
    // for stays in the program that brings their runtime.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if flags.contains("sanitizer") || flags.contains("sancov") {
        cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("RUSTFLAGS");
    }
    let status = cargo.status()?;
    if !status.success() {
        return Err(format!("busbw's net plugin cannot be built: cargo ended with {status}").into());
    }
    Ok(target.join(triple).join(folder).join("libnccl_plugin_busbw.so"))
}
