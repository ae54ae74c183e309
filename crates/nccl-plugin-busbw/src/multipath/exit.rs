//! When the process exits: what NCCL takes for sent leaves before, also without a word from NCCL.
//! Not how it leaves (`manager`).

use std::{
    process,
    sync::{Arc, OnceLock},
    time::Duration,
};

use super::manager::Manager;

/// At most so long. It takes one round trip, or none, where the other side lives.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Which connection manager, of which process: a child has no thread of it.
static MANAGER: OnceLock<(Arc<Manager>, u32)> = OnceLock::new();

/// Has the process exit when everything that this connection manager looks after is drained. For the first one
/// alone: there is one.
pub(super) fn wait_for(manager: &Arc<Manager>) {
    if MANAGER.set((manager.clone(), process::id())).is_ok() {
        // SAFETY: the function is there until the process ends: the library is never unloaded (build.rs).
        unsafe { libc::atexit(leave) };
    }
}

extern "C" fn leave() {
    let Some((manager, _)) = MANAGER.get().filter(|(_, process)| *process == process::id()) else {
        return;
    };
    manager.drain();
    manager.wait_until_drained(DRAIN_TIMEOUT);
}
