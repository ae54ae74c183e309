//! Counts the inputs that a target's parser accepted, and prints their share at exit.
//! It does not judge the share; `tests/fuzz.sh` does.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static INPUTS: AtomicU64 = AtomicU64::new(0);
static PARSED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    fn atexit(hook: extern "C" fn()) -> i32;
}

/// Counts one input.
pub fn count(parsed: bool) {
    if INPUTS.fetch_add(1, Relaxed) == 0 {
        // SAFETY: the hook is a plain function that neither unwinds nor exits.
        unsafe { atexit(print) };
    }
    PARSED.fetch_add(u64::from(parsed), Relaxed);
}

extern "C" fn print() {
    let (inputs, parsed) = (INPUTS.load(Relaxed), PARSED.load(Relaxed));
    let share = 100.0 * parsed as f64 / inputs.max(1) as f64;
    eprintln!("parse share: {share:.1} % ({parsed} of {inputs} inputs)");
}
