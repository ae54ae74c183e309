//! Threads of ours in somebody else's process.
//! Not what they do.

use crate::network::{Failure, Result};

/// Starts a thread that takes none of the process's signals, and has the affinity of whoever starts it.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    // Before it starts: it inherits them, so that there is no time in which it could take one.
    let before = masked();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    // SAFETY: a set of signals, for this thread alone.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    thread
        .map(drop)
        .map_err(|error| Failure::system(&format!("cannot start the thread {name}"), &error))
}

/// Keeps all signals from this thread; those that were kept from it before.
fn masked() -> libc::sigset_t {
    // SAFETY: sets of signals, which are plain numbers; for this thread alone.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Whether a signal is kept from this thread.
    fn is_kept(signal: libc::c_int) -> bool {
        // SAFETY: as in `masked`.
        unsafe {
            let mut now: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now);
            libc::sigismember(&raw const now, signal) == 1
        }
    }

    #[test]
    fn signals_are_kept_from_the_thread_alone() {
        let (tell, told) = mpsc::channel();
        assert!(!is_kept(libc::SIGTERM));
        spawn("busbw-test", move || tell.send(is_kept(libc::SIGTERM)).unwrap()).unwrap();
        assert!(!is_kept(libc::SIGTERM));
        assert!(told.recv().unwrap());
    }
}
