//! The log function that plugins get, in place of NCCL's.
//! Not what the lines mean.
//!
//! NCCL's function takes a printf format and its arguments, and Rust cannot define a variadic
//! function. Ours takes six fixed arguments instead: on x86-64 and AArch64 Linux the callee of a
//! variadic call finds the named arguments, and a first pointer after them, in the same registers
//! as in a call with as many fixed arguments. So a line is the format itself, or the one text of
//! the format "%s", which busbw's own plugin uses. The values of other formats are not read: `%d`
//! stays `%d`.

use std::{
    collections::VecDeque,
    ffi::{CStr, c_char, c_int, c_ulong},
    io::Write,
    mem,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI32, Ordering},
    },
};

use nccl_plugin_abi::{Logger, level};

/// A line of a plugin's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// ncclDebugLogLevel.
    pub level: c_int,
    /// The text, without the arguments of its format.
    pub text: String,
}

/// The most lines that are kept; older ones are dropped.
const MAX_LINES: usize = 256;

static LINES: Mutex<VecDeque<Line>> = Mutex::new(VecDeque::new());
/// Lines up to this level go to stderr.
static PASSED_LEVEL: AtomicI32 = AtomicI32::new(0);

/// From now on lines up to `level` (`nccl_plugin_abi::level`) also go to stderr; 0 stops that.
pub fn pass_on(level: c_int) {
    PASSED_LEVEL.store(level, Ordering::Relaxed);
}

/// The lines since the last call.
pub fn take_lines() -> Vec<Line> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
}

/// The newest line of a failure.
pub(super) fn last_warning() -> Option<String> {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().rev().find(|line| line.level <= level::WARN).map(|line| line.text.clone())
}

/// The log function for `init`.
pub(super) fn logger() -> Logger {
    type Fixed =
        unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, *const c_char);
    let fixed: Fixed = take;
    // SAFETY: both are pointers to functions of C's calling convention; see above for their arguments.
    unsafe { mem::transmute::<Fixed, Logger>(fixed) }
}

/// # Safety
/// As the logger of NCCL: texts end with a zero; with the format "%s" one text follows.
unsafe extern "C" fn take(
    level: c_int,
    _subsystems: c_ulong,
    _file: *const c_char,
    _line: c_int,
    format: *const c_char,
    first: *const c_char,
) {
    if format.is_null() {
        return;
    }
    // SAFETY: the caller's text.
    let format = unsafe { CStr::from_ptr(format) };
    let text = if format == c"%s" && !first.is_null() {
        // SAFETY: the format says that a text follows; the register holds it.
        unsafe { CStr::from_ptr(first) }
    } else {
        format
    };
    let line = Line { level, text: text.to_string_lossy().trim_end().to_owned() };
    if level <= PASSED_LEVEL.load(Ordering::Relaxed) {
        // If stderr is closed, the line is lost.
        let _ = writeln!(std::io::stderr(), "{}", line.text);
    }
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    if lines.len() == MAX_LINES {
        lines.pop_front();
    }
    lines.push_back(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variadic_call_arrives() {
        let log = logger();
        let (file, say) = (c"file.c".as_ptr(), c"peer is gone".as_ptr());
        // SAFETY: as plugins call it.
        unsafe {
            log(level::WARN, 16, file, 7, c"%s".as_ptr(), say);
            log(level::INFO, 16, file, 8, c"no arguments".as_ptr());
            log(level::INFO, 16, file, 9, c"%d of %s".as_ptr(), 3 as c_int, say);
        }
        let lines = take_lines();
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["peer is gone", "no arguments", "%d of %s"]);
        assert_eq!(lines[0].level, level::WARN);
    }
}
