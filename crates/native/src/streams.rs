//! The streams of C's library (`FILE`), in which libraries of this process may keep what they have written.
//! Not descriptors.

use std::ffi::{c_int, c_void};

unsafe extern "C" {
    fn fflush(stream: *mut c_void) -> c_int;
}

/// Writes out what waits in any of them. What cannot be written stays where it is.
pub fn flush() {
    // SAFETY: without a stream it takes every open one, each under its lock.
    unsafe { fflush(std::ptr::null_mut()) };
}
