//! The nodes of a command's first launch: its other launches run on the same, since results of different nodes compare nodes.
//! Not which nodes are chosen first: that the scheduler decides.

use std::{
    env, fs,
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
    sync::OnceLock,
};

use busbw_core::environment::NODES_FILE;
use rustix::fs::{MemfdFlags, memfd_create};

use super::pod::Pod;

/// The file of a command that makes several launches: it has no name in any folder, and nothing is left of it.
static OURS: OnceLock<OwnedFd> = OnceLock::new();

/// Begins a command of several launches.
pub fn begin() {
    if let Ok(file) = memfd_create("busbw-nodes", MemfdFlags::CLOEXEC) {
        // Without it every launch is placed anew.
        let _ = OURS.set(file);
    }
}

/// The file of the command that this launch belongs to, for its other launches.
pub fn path() -> Option<PathBuf> {
    let ours =
        OURS.get().map(|file| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    ours.map(PathBuf::from).or_else(|| env::var_os(NODES_FILE).map(PathBuf::from))
}

/// The nodes of the first launch; empty if this is the first one, or the only one.
pub(super) fn read() -> Vec<String> {
    let text = path().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Keeps the nodes of these pods, if they are the first launch's.
pub(super) fn keep(pods: &[Pod]) {
    let Some(path) = path() else { return };
    let is_first = fs::metadata(&path).is_ok_and(|file| file.len() == 0);
    let mut nodes: Vec<&str> = pods.iter().filter_map(|pod| pod.node.as_deref()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    if is_first && !nodes.is_empty() {
        // Without it the next launch is placed anew.
        let _ = fs::write(path, nodes.join("\n"));
    }
}
