//! The library itself: version, error texts, groups, predictions, log level.
//! Not a communicator.

use std::{
    ffi::c_int,
    fmt,
    path::Path,
    sync::{Mutex, PoisonError},
};

use dynamic_library::{Library, LoadError, text};
use thiserror::Error;

use super::{config::RawPrediction, table::Table};
use crate::gpu::Span;

/// NCCL's version: 10000 × major + 100 × minor + patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0 / 10000, self.0 / 100 % 100, self.0 % 100)
    }
}

/// The oldest version that is used: communicators take a configuration since 2.14, and 2.18 is the
/// oldest whose log is read.
const OLDEST: Version = Version(21800);

/// A failed NCCL call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{call} failed: {text}{last}")]
pub struct NcclError {
    /// The function.
    pub call: &'static str,
    /// ncclResult_t.
    pub code: i32,
    /// ncclGetErrorString's text.
    pub text: String,
    /// ", " and ncclGetLastError's text, or nothing.
    pub last: String,
}

impl NcclError {
    /// An error of a call that was not made: it would have gone beyond a buffer.
    pub fn does_not_fit(call: &'static str, bytes: usize, span: Span) -> NcclError {
        NcclError {
            call,
            code: -1,
            text: format!("{bytes} bytes do not fit a buffer of {}", span.bytes()),
            last: String::new(),
        }
    }
}

/// NCCL, open. It stays loaded for the life of the process.
#[derive(Debug)]
pub struct Nccl {
    library: Library,
    pub(super) table: Table,
    version: Version,
    /// ncclMemAlloc and the debug settings are not safe from several threads in every version.
    pub(super) serial: Mutex<()>,
}

/// Calls a function of the table; a missing function is an error like a failed call.
macro_rules! call {
    ($nccl:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $nccl.table.$function {
            // SAFETY: the table's types are the header's; handles and pointers among the arguments
            // are live, as the calling wrapper owns them.
            Some(function) => $nccl.status(stringify!($function), unsafe { function($($argument),*) }),
            None => Err($nccl.missing(stringify!($function))),
        }
    };
}
pub(super) use call;

impl Nccl {
    /// Opens NCCL at `path`, a file or a name that the system's loader resolves.
    ///
    /// # Errors
    /// The file does not exist, is no NCCL, or is older than 2.18.
    pub fn open(path: &Path) -> Result<&'static Nccl, LoadError> {
        let library = Library::open(path)?;
        let mut table = Table::open(&library, 0);
        table.all_to_all = table.all_to_all.or(table.all_to_all_of_rccl);
        let shown = path.display().to_string();
        if table.version.is_none() {
            return Err(LoadError::Missing {
                path: shown,
                function: "ncclGetVersion",
                library: "NCCL",
            });
        }
        let mut nccl = Nccl { library, table, version: Version(0), serial: Mutex::new(()) };
        let mut version = 0;
        let broken = |why: String| LoadError::Broken { path: shown.clone(), why };
        call!(nccl, version(&mut version)).map_err(|error| broken(error.to_string()))?;
        // Up to 2.8 the code was 1000 × major + 100 × minor + patch.
        nccl.version = Version(u32::try_from(version).unwrap_or(0));
        if nccl.version < OLDEST {
            return Err(broken(format!(
                "its version code is {version}; {OLDEST} is the oldest that is supported: name a newer one with --nccl"
            )));
        }
        Ok(Box::leak(Box::new(nccl)))
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The file that was opened.
    pub fn path(&self) -> &Path {
        self.library.path()
    }

    /// Begins a group: what this thread enqueues until its end starts together.
    ///
    /// # Errors
    /// NCCL refuses the call.
    pub fn group_start(&self) -> Result<(), NcclError> {
        call!(self, group_start())
    }

    /// Ends a group.
    ///
    /// # Errors
    /// NCCL refuses the call.
    pub fn group_end(&self) -> Result<(), NcclError> {
        call!(self, group_end())
    }

    /// Ends a group without running it: NCCL's own prediction of its time, in microseconds.
    ///
    /// # Errors
    /// NCCL is older than 2.22, or refuses the call.
    pub fn group_predict(&self) -> Result<f64, NcclError> {
        let mut prediction = RawPrediction::new(self.version.0);
        call!(self, group_simulate(&mut prediction))?;
        Ok(f64::from(prediction.time))
    }

    /// Whether [`Nccl::group_predict`] is available.
    pub fn predicts(&self) -> bool {
        self.table.group_simulate.is_some()
    }

    /// Makes NCCL read NCCL_DEBUG and related variables from the environment again. Returns whether
    /// it can.
    pub fn read_debug_again(&self) -> bool {
        let _one_at_a_time = self.serial.lock().unwrap_or_else(PoisonError::into_inner);
        match self.table.reset_debug {
            Some(reset) => {
                // SAFETY: it takes nothing and returns nothing.
                unsafe { reset() };
                true
            }
            None => false,
        }
    }

    /// NCCL's last error text of this process, or nothing.
    pub fn last_error(&self) -> String {
        let Some(last) = self.table.last_error else { return String::new() };
        // SAFETY: a null communicator asks for the process's last error; the text is the library's.
        unsafe { text(last(std::ptr::null_mut())) }
    }

    pub(super) fn status(&self, call: &'static str, code: c_int) -> Result<(), NcclError> {
        if code == 0 { Ok(()) } else { Err(self.error(call, code)) }
    }

    pub(super) fn error(&self, call: &'static str, code: c_int) -> NcclError {
        let said = match self.table.error_text {
            // SAFETY: it takes a number and returns a constant text.
            Some(words) => unsafe { text(words(code)) },
            None => format!("ncclResult_t {code}"),
        };
        let last = self.last_error();
        let last = if last.is_empty() { last } else { format!(", {}", last.trim_end()) };
        NcclError { call: Table::name_of(call, 0), code, text: said, last }
    }

    pub(super) fn missing(&self, call: &'static str) -> NcclError {
        NcclError {
            call: Table::name_of(call, 0),
            code: -1,
            text: format!(
                "NCCL {} at {} has no such function",
                self.version,
                self.library.path().display()
            ),
            last: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_like_versions() {
        assert_eq!(Version(22809).to_string(), "2.28.9");
        assert_eq!(Version(21805).to_string(), "2.18.5");
    }

    #[test]
    fn another_library_is_no_nccl() {
        let error = Nccl::open(Path::new("libc.so.6")).unwrap_err().to_string();
        assert!(error.contains("ncclGetVersion") && error.contains("no NCCL"), "{error}");
    }
}
