//! When the process exits: what NCCL takes for sent leaves before, also without a word from NCCL.
//! Not how it leaves (`keeper`).

use std::{
    process,
    sync::{Arc, OnceLock},
    thread::sleep,
    time::{Duration, Instant},
};

use super::keeper::Keeper;

/// At most so long. It takes one round trip, or none, where the other side lives.
const PARTING: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(1);

/// Which keeper, of which process: a child has no thread of it.
static KEEPER: OnceLock<(Arc<Keeper>, u32)> = OnceLock::new();

/// Has the process exit when everything that this keeper looks after has left. For the first one alone: there is one.
pub(super) fn wait_for(keeper: &Arc<Keeper>) {
    if KEEPER.set((keeper.clone(), process::id())).is_ok() {
        // SAFETY: the function is there until the process ends: the library is never unloaded (build.rs).
        unsafe { libc::atexit(leave) };
    }
}

extern "C" fn leave() {
    let Some((keeper, _)) = KEEPER.get().filter(|(_, process)| *process == process::id()) else {
        return;
    };
    keeper.part();
    let until = Instant::now() + PARTING;
    while !keeper.has_parted() && Instant::now() < until {
        sleep(STEP);
    }
}
