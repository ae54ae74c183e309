//! The streams of C's library (`FILE`), to which libraries of this process write.
//! Not descriptors, and not Rust's own streams.

use std::ffi::{c_char, c_int, c_void};

/// `_IOLBF` of Linux's C libraries.
const BY_LINES: c_int = 1;

unsafe extern "C" {
    static stdout: *mut c_void;
    fn setvbuf(stream: *mut c_void, buffer: *mut c_char, mode: c_int, size: usize) -> c_int;
}

/// Makes the C library write stdout at every line end, to any kind of file. Otherwise it would
/// buffer kilobytes where stdout is no terminal. Call it before anything was printed there.
pub fn write_stdout_by_lines() {
    // SAFETY: the stream is that of the C library, which makes a buffer of its own; it takes its lock.
    unsafe { setvbuf(stdout, std::ptr::null_mut(), BY_LINES, 0) };
}
