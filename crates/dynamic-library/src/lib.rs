//! A shared library opened at run time, and the tables of functions looked up in it.
//! Not which file is opened: that is `search`.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    fmt,
    path::{Path, PathBuf},
};

use libloading::os::unix;
use thiserror::Error;

/// Why a library cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoadError {
    /// None of the searched places has it.
    #[error("no {library} was found; looked for {looked}")]
    Absent {
        /// The library, such as "NCCL".
        library: &'static str,
        /// The searched places.
        looked: String,
    },
    /// The file is there and cannot be opened.
    #[error("{path} cannot be loaded: {why}")]
    Refused {
        /// The file.
        path: String,
        /// The loader's error.
        why: String,
    },
    /// It lacks a required function.
    #[error("{path} has no function {function}: it is no {library}, or too old")]
    Missing {
        /// The file.
        path: String,
        /// The function.
        function: &'static str,
        /// The library that it was opened as.
        library: &'static str,
    },
    /// It was loaded and cannot be initialised.
    #[error("{path} was loaded but cannot be initialised: {why}")]
    Broken {
        /// The file.
        path: String,
        /// Its own error.
        why: String,
    },
}

/// An open library. It is never closed: its objects live as long as the process.
pub struct Library {
    path: PathBuf,
    handle: std::mem::ManuallyDrop<unix::Library>,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Library {
    /// Opens a file, or a name that the system's loader resolves.
    ///
    /// # Errors
    /// The system's loader cannot open it.
    pub fn open(path: &Path) -> Result<Library, LoadError> {
        Library::open_with(path, unix::RTLD_NOW | unix::RTLD_LOCAL)
    }

    /// Opens a file with global symbols, so that libraries opened later can resolve against them.
    ///
    /// # Errors
    /// The system's loader cannot open it.
    pub fn open_for_all(path: &Path) -> Result<Library, LoadError> {
        Library::open_with(path, unix::RTLD_NOW | unix::RTLD_GLOBAL)
    }

    fn open_with(path: &Path, flags: c_int) -> Result<Library, LoadError> {
        // SAFETY: the libraries that are opened here (CUDA's driver, NCCL, their HIP twins, MPI, net plugins)
        // run initialisers that every program linked against them, or that loads them, runs.
        let handle = unsafe { unix::Library::open(Some(path), flags) };
        let handle = handle.map_err(|error| LoadError::Refused {
            path: path.display().to_string(),
            why: error.to_string(),
        })?;
        Ok(Library { path: path.to_owned(), handle: std::mem::ManuallyDrop::new(handle) })
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A function, if the library has it.
    ///
    /// # Safety
    /// `F` must be the function's type.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: the caller vouches for the type; the handle is never closed.
        let symbol = unsafe { self.handle.get::<F>(name.to_bytes_with_nul()) };
        symbol.ok().map(|symbol| *symbol)
    }

    /// The address of a variable of the library, if it has it.
    pub fn address(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: only the address is taken; what lies there is the library's.
        unsafe { self.function(name) }
    }
}

/// A text that a library returned; it stays the library's.
///
/// # Safety
/// `text` must be null or end with a zero that stays where it is during the call.
pub unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Declares a table of foreign functions that return a status. `open` looks every name up once. A
/// missing function leaves its entry empty, and only a call of it fails.
#[macro_export]
macro_rules! table {
    (
        $(#[$attribute:meta])*
        $table:ident: $names:literal {
            $( $function:ident = [$($name:literal),+] ($($argument:ty),*) -> $status:ty; )*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug)]
        pub(crate) struct $table {
            $( pub(crate) $function: Option<unsafe extern "C" fn($($argument),*) -> $status>, )*
        }

        impl $table {
            /// Looks every function up by the name of column `column`.
            pub(crate) fn open(library: &$crate::Library, column: usize) -> $table {
                assert!(column < $names);
                $table {
                    $(
                        $function: {
                            let names: [&std::ffi::CStr; $names] = [$($name),+];
                            // SAFETY: the type is the one in the library's public header, of which
                            // the table is a transcript.
                            unsafe { library.function(names[column]) }
                        },
                    )*
                }
            }

            /// The library's own name of an entry of the table, for messages.
            pub(crate) fn name_of(entry: &'static str, column: usize) -> &'static str {
                let names: [&std::ffi::CStr; $names] = match entry {
                    $( stringify!($function) => [$($name),+], )*
                    _ => return entry,
                };
                names.get(column).and_then(|name| name.to_str().ok()).unwrap_or(entry)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_an_error() {
        let error = Library::open(Path::new("libnone-of-this-name.so.7")).unwrap_err();
        assert!(error.to_string().contains("libnone-of-this-name.so.7"), "{error}");
    }

    #[test]
    fn functions_are_found_by_name() {
        let library = Library::open(Path::new("libc.so.6")).unwrap();
        type GetPid = unsafe extern "C" fn() -> i32;
        // SAFETY: getpid's type.
        let getpid = unsafe { library.function::<GetPid>(c"getpid") }.unwrap();
        // SAFETY: it takes nothing and cannot fail.
        assert_eq!(unsafe { getpid() } as u32, std::process::id());
        // SAFETY: never called.
        assert!(unsafe { library.function::<GetPid>(c"no_such_function") }.is_none());
    }
}
