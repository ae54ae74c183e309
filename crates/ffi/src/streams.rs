//! The streams of C's library (`FILE`), in which libraries of this process write.
//! Not descriptors, and not Rust's own streams.

use std::ffi::{c_char, c_int, c_void};

/// `_IOLBF` of Linux's C libraries.
const BY_LINES: c_int = 1;

unsafe extern "C" {
    static stdout: *mut c_void;
    fn setvbuf(stream: *mut c_void, buffer: *mut c_char, mode: c_int, size: usize) -> c_int;
}

/// Has what libraries print on stdout written at every line end, wherever that goes. Otherwise it would wait
/// for kilobytes more where that is no terminal. Only before anything was printed there.
pub fn write_stdout_by_lines() {
    // SAFETY: the stream is that of the C library, which makes a buffer of its own; it takes its lock.
    unsafe { setvbuf(stdout, std::ptr::null_mut(), BY_LINES, 0) };
}
