//! The library itself: opened, its ABI detected, its version, its errors as messages.
//! Not the ranks (`session`).

use std::{
    ffi::{CStr, c_char, c_int},
    fmt,
    path::Path,
};

use thiserror::Error;

use super::{
    abi::{Abi, Constants, MAX_TEXT_BYTES, with},
    table::{Functions, name_of},
};
use crate::mpi::known_bugs::Faults;
use dynamic_library::{Library, LoadError};

/// The family of an MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Implementation {
    /// Open MPI and its derivatives (HPC-X, Spectrum MPI).
    OpenMpi,
    /// MPICH.
    Mpich,
    /// Intel MPI.
    Intel,
    /// Cray MPICH.
    Cray,
    /// MVAPICH.
    Mvapich,
    /// Another one with the standard ABI.
    Other,
}

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Implementation::OpenMpi => "Open MPI",
            Implementation::Mpich => "MPICH",
            Implementation::Intel => "Intel MPI",
            Implementation::Cray => "Cray MPICH",
            Implementation::Mvapich => "MVAPICH",
            Implementation::Other => "MPI",
        })
    }
}

impl Implementation {
    /// From the text of MPI_Get_library_version: "Open MPI v4.1.4, …", "MPICH Version:\t4.0.2",
    /// "Intel(R) MPI Library 2021.…", "MPI VERSION : CRAY MPICH version 8.…", "MVAPICH2 Version…".
    fn told_by(text: &str) -> Implementation {
        let said = [
            // Cray's and MVAPICH's texts name MPICH, too.
            ("CRAY MPICH", Implementation::Cray),
            ("MVAPICH", Implementation::Mvapich),
            ("Intel(R) MPI", Implementation::Intel),
            ("MPICH", Implementation::Mpich),
            ("Open MPI", Implementation::OpenMpi),
            ("Spectrum MPI", Implementation::OpenMpi),
        ];
        let found = said.into_iter().find(|(words, _)| text.contains(words));
        found.map_or(Implementation::Other, |(_, implementation)| implementation)
    }

    /// Whether it has MPICH's ABI.
    fn is_of_mpich(self) -> bool {
        !matches!(self, Implementation::OpenMpi | Implementation::Other)
    }
}

/// A failed MPI call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{call} failed: {text}")]
pub struct MpiError {
    /// The function.
    pub call: &'static str,
    /// Its error code, or -1 where it was not called.
    pub code: i32,
    /// MPI_Error_string's text.
    pub text: String,
}

impl MpiError {
    /// An error of a call that was not made.
    #[cold]
    pub(super) fn of_no_call(call: &'static str, why: String) -> MpiError {
        MpiError { call, code: -1, text: why }
    }
}

/// MPI, open. It stays loaded for the life of the process.
#[derive(Debug)]
pub struct Mpi {
    library: Library,
    pub(super) abi: Abi,
    pub(super) constants: Constants,
    implementation: Implementation,
    version_text: String,
    pub(super) faults: Faults,
}

impl Mpi {
    /// Opens MPI at `path`, a file or a name that the system's loader resolves. Its symbols are
    /// global (RTLD_GLOBAL): Open MPI opens its own components later, and these resolve their
    /// symbols against libmpi without naming it. It is never closed: MPI_Finalize leaves threads,
    /// exit handlers and mapped memory behind.
    ///
    /// # Errors
    /// The file does not exist, is no MPI, or has an ABI that is none of the three.
    pub fn open(path: &Path) -> Result<&'static Mpi, LoadError> {
        let library = Library::open_for_all(path)?;
        let broken = |why: String| LoadError::Broken { path: path.display().to_string(), why };
        let version_text = version_text(&library)?;
        let told = Implementation::told_by(&version_text);
        let standard_abi = is_standard(&library);
        let (abi, constants, implementation) = if standard_abi {
            (Abi::Pointers(Functions::open(&library)?), Constants::of_standard(), told)
        } else if library.address(c"ompi_mpi_comm_self").is_some() {
            let constants = Constants::of_open_mpi(&library)?;
            (Abi::Pointers(Functions::open(&library)?), constants, Implementation::OpenMpi)
        } else if told.is_of_mpich() {
            (Abi::Ints(Functions::open(&library)?), Constants::of_mpich(), told)
        } else {
            // Handles of an unknown ABI would be guesses.
            return Err(broken(format!(
                "it calls itself {:?}, which has neither Open MPI's ABI, nor MPICH's, nor that of MPI 5: name \
                 another with --mpi",
                version_text.lines().next().unwrap_or("")
            )));
        };
        let faults = Faults::of(implementation, &version_text);
        let mpi = Mpi { library, abi, constants, implementation, version_text, faults };
        Ok(Box::leak(Box::new(mpi)))
    }

    pub(super) fn library(&self) -> &Library {
        &self.library
    }

    /// The file that was opened.
    pub fn path(&self) -> &Path {
        self.library.path()
    }

    /// Its family.
    pub fn implementation(&self) -> Implementation {
        self.implementation
    }

    /// The first line of its own version, such as `Open MPI v4.1.4, package: …` or `MPICH Version: 4.0.2`.
    pub fn version(&self) -> String {
        let line = self.version_text.lines().next().unwrap_or("");
        line.split_whitespace().collect::<Vec<&str>>().join(" ")
    }

    /// The complete text of its version: MPICH's includes its configuration, with the device that
    /// carries data.
    pub fn version_text(&self) -> &str {
        &self.version_text
    }

    /// The version of the standard that it implements, such as (3, 1).
    pub fn standard(&self) -> (u32, u32) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both are ints; it may be called before MPI_Init.
        with!(self, functions => unsafe { (functions.version)(&mut major, &mut minor) });
        (major.unsigned_abs(), minor.unsigned_abs())
    }

    /// Seconds since some time in the past, by the library's clock.
    pub fn wtime(&self) -> f64 {
        // SAFETY: it takes nothing; it is called between MPI_Init and MPI_Finalize or, in the libraries
        // of both families, harmlessly at any time.
        with!(self, functions => unsafe { (functions.wtime)() })
    }

    #[inline]
    pub(super) fn status(&self, entry: &'static str, code: c_int) -> Result<(), MpiError> {
        if code == 0 { Ok(()) } else { Err(self.error(entry, code)) }
    }

    #[cold]
    fn error(&self, entry: &'static str, code: c_int) -> MpiError {
        let mut text = vec![0_u8; MAX_TEXT_BYTES];
        let mut length = 0;
        // SAFETY: the text has room for what any of the ABIs writes.
        let told = with!(self, functions => unsafe {
            (functions.error_string)(code, text.as_mut_ptr().cast(), &mut length)
        });
        let text = match (told, CStr::from_bytes_until_nul(&text)) {
            (0, Ok(text)) => {
                text.to_string_lossy().split_whitespace().collect::<Vec<_>>().join(" ")
            }
            _ => format!("error {code}"),
        };
        MpiError { call: name_of(entry), code, text }
    }

    #[cold]
    pub(super) fn missing(&self, entry: &'static str) -> MpiError {
        let path = self.path().display();
        MpiError::of_no_call(
            name_of(entry),
            format!("{} at {path} has no such function", self.version()),
        )
    }
}

/// Its own words; MPI_Get_library_version may be called before MPI_Init (MPI 3.1, section 8.1.1).
fn version_text(library: &Library) -> Result<String, LoadError> {
    type Version = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    // SAFETY: the type is mpi.h's in every ABI.
    let Some(version) = (unsafe { library.function::<Version>(c"MPI_Get_library_version") }) else {
        return Err(LoadError::Missing {
            path: library.path().display().to_string(),
            function: "MPI_Get_library_version",
            library: "MPI of version 3",
        });
    };
    let mut text = vec![0_u8; MAX_TEXT_BYTES];
    let mut length = 0;
    // SAFETY: the text has room for what any of the ABIs writes.
    unsafe { version(text.as_mut_ptr().cast(), &mut length) };
    Ok(CStr::from_bytes_until_nul(&text)
        .map(|t| t.to_string_lossy().into_owned())
        .unwrap_or_default())
}

/// Whether it has the standard ABI. A library of another ABI may have the function and say -1 (MPI 5.0,
/// section 20.2).
fn is_standard(library: &Library) -> bool {
    type AbiVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    let (mut major, mut minor) = (-1, -1);
    // SAFETY: the type is that of mpi-abi-stubs' mpi.h.
    if let Some(version) = unsafe { library.function::<AbiVersion>(c"MPI_Abi_get_version") } {
        // SAFETY: both are ints; it may be called before MPI_Init.
        unsafe { version(&mut major, &mut minor) };
    }
    major > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implementations_by_their_words() {
        for (text, want) in [
            ("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", Implementation::OpenMpi),
            ("MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7", Implementation::Mpich),
            ("Intel(R) MPI Library 2021.11 for Linux* OS", Implementation::Intel),
            (
                "MPI VERSION    : CRAY MPICH version 8.1.27.26 (ANL base 3.4a2)",
                Implementation::Cray,
            ),
            ("MVAPICH2 Version      :\t2.3.7", Implementation::Mvapich),
            ("HPE MPT 2.28", Implementation::Other),
        ] {
            assert_eq!(Implementation::told_by(text), want, "{text}");
        }
    }

    #[test]
    fn another_library_is_no_mpi() {
        let error = Mpi::open(Path::new("libc.so.6")).unwrap_err().to_string();
        assert!(error.contains("MPI_Get_library_version") && error.contains("no MPI"), "{error}");
    }
}
