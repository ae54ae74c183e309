//! Threads of ours in somebody else's process.
//! Not what they do.

use crate::network::{Failure, Result};

/// Starts a thread that takes none of the process's signals, and has the affinity of whoever starts it.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // SAFETY: a set of signals, filled before it is used; for this thread alone.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
        }
        run();
    });
    thread
        .map(drop)
        .map_err(|error| Failure::system(&format!("cannot start the thread {name}"), &error))
}
