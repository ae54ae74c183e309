//! The ends of a process: exit, and fork, after which the child has our memory but none of our threads.
//! Not NCCL's finalize (`exported`).

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

/// Set in a child of fork.
static CHILD: AtomicBool = AtomicBool::new(false);
/// What is done at exit.
static AT_EXIT: OnceLock<fn()> = OnceLock::new();

/// Whether this process is a child of the one that recorded.
pub(crate) fn in_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}

/// Asks the system to tell us of exit and fork, once a process.
pub(crate) fn watch(exit: fn()) {
    if AT_EXIT.set(exit).is_ok() {
        // SAFETY: functions of this library, which is never unloaded (build.rs).
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_new_child));
        }
    }
}

extern "C" fn at_exit() {
    if let Some(exit) = AT_EXIT.get().filter(|_| !in_child()) {
        let _ = std::panic::catch_unwind(exit);
    }
}

/// Only what is safe between fork and exec: a store.
unsafe extern "C" fn in_new_child() {
    CHILD.store(true, Ordering::Relaxed);
}
