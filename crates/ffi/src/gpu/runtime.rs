//! The GPU's driver: opened, initialised, asked for its devices, and its errors as messages.
//! Not one device (`context`).

use std::{
    ffi::{c_char, c_int},
    path::Path,
};

use thiserror::Error;

use super::table::Table;
use dynamic_library::{Library, LoadError, text};

/// The vendor of the GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// NVIDIA: libcuda.so.1.
    Nvidia,
    /// AMD: libamdhip64.so.
    Amd,
}

impl Vendor {
    const fn column(self) -> usize {
        match self {
            Vendor::Nvidia => 0,
            Vendor::Amd => 1,
        }
    }

    /// The name of its driver.
    pub const fn driver(self) -> &'static str {
        match self {
            Vendor::Nvidia => "CUDA's driver",
            Vendor::Amd => "HIP",
        }
    }
}

/// A call that the driver refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{call} failed{on}: {name} ({code}){text}")]
pub struct GpuError {
    /// The function.
    pub call: &'static str,
    /// " on GPU 3", or nothing.
    pub on: String,
    /// The driver's number.
    pub code: i32,
    /// The driver's name for it, such as CUDA_ERROR_OUT_OF_MEMORY.
    pub name: String,
    /// ": " and the driver's sentence, or nothing.
    pub text: String,
}

/// CUDA_ERROR_OUT_OF_MEMORY and its twin.
const OUT_OF_MEMORY: c_int = 2;
/// CUDA_ERROR_DEVICE_UNAVAILABLE; HIP has no such number.
const DEVICE_UNAVAILABLE: c_int = 46;
/// CUDA_ERROR_UNSUPPORTED_PTX_VERSION.
const UNSUPPORTED_PTX: c_int = 222;
/// Our own number: the library lacks the function.
const MISSING: c_int = -1;

impl GpuError {
    /// Whether the GPU had not enough memory.
    pub fn is_out_of_memory(&self) -> bool {
        self.code == OUT_OF_MEMORY
    }

    /// Whether others hold the GPU, and its compute mode allows one process only.
    pub fn is_busy(&self) -> bool {
        self.code == DEVICE_UNAVAILABLE
    }

    /// Whether the driver is older than the kernels' PTX.
    pub fn is_unsupported_ptx(&self) -> bool {
        self.code == UNSUPPORTED_PTX
    }

    /// An error of a call that was not made.
    pub fn of_ours(call: &'static str, why: &str) -> GpuError {
        GpuError {
            call,
            on: String::new(),
            code: MISSING,
            name: why.to_owned(),
            text: String::new(),
        }
    }

    /// The same error, with GPU `ordinal` in its text.
    pub(super) fn on(self, ordinal: i32) -> GpuError {
        GpuError { on: format!(" on GPU {ordinal}"), ..self }
    }
}

/// The driver, opened and initialised. It stays loaded for the life of the process.
#[derive(Debug)]
pub struct Runtime {
    vendor: Vendor,
    library: Library,
    pub(super) table: Table,
}

/// Calls a function of a table; a missing function is an error like a refused call.
macro_rules! call {
    ($runtime:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $runtime.table.$function {
            // SAFETY: the table's types are the header's; handles and pointers among the arguments
            // are live, as the calling wrapper owns them.
            Some(function) => $runtime.status(stringify!($function), unsafe { function($($argument),*) }),
            None => Err($runtime.missing(stringify!($function))),
        }
    };
}
pub(super) use call;

impl Runtime {
    /// Opens and initialises the driver at `path`, a file or a name that the system's loader
    /// resolves.
    ///
    /// # Errors
    /// The file cannot be opened, or it lacks a function.
    pub fn open(vendor: Vendor, path: &Path) -> Result<&'static Runtime, LoadError> {
        let library = Library::open(path)?;
        let table = Table::open(&library, vendor.column());
        let shown = path.display().to_string();
        if table.init.is_none() {
            let library = vendor.driver();
            return Err(LoadError::Missing { path: shown, function: "cuInit", library });
        }
        let runtime = Runtime { vendor, library, table };
        call!(runtime, init(0))
            .map_err(|error| LoadError::Broken { path: shown, why: error.to_string() })?;
        Ok(Box::leak(Box::new(runtime)))
    }

    /// The vendor.
    pub fn vendor(&self) -> Vendor {
        self.vendor
    }

    /// The file that was opened.
    pub fn path(&self) -> &Path {
        self.library.path()
    }

    /// The newest CUDA version that the driver supports: 1000 × major + 10 × minor.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn driver_version(&self) -> Result<u32, GpuError> {
        let mut version = 0;
        call!(self, driver_version(&mut version))?;
        Ok(version as u32)
    }

    /// How many GPUs this process may use (CUDA_VISIBLE_DEVICES counts).
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn device_count(&self) -> Result<usize, GpuError> {
        let mut count = 0;
        call!(self, device_count(&mut count))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Converts a status into a result.
    pub(super) fn status(&self, call: &'static str, code: c_int) -> Result<(), GpuError> {
        if code == 0 {
            return Ok(());
        }
        let name = self.words(code, self.table.error_name, self.table.returned_error_name);
        let text = self.words(code, self.table.error_text, self.table.returned_error_text);
        // Another sentence follows it.
        let text = text.trim_end_matches('.');
        let text = if text.is_empty() { String::new() } else { format!(": {text}") };
        let call = Table::name_of(call, self.vendor.column());
        Err(GpuError { call, on: String::new(), code, name, text })
    }

    pub(super) fn missing(&self, call: &'static str) -> GpuError {
        GpuError {
            call: Table::name_of(call, self.vendor.column()),
            on: String::new(),
            code: MISSING,
            name: "the library has no such function".to_owned(),
            text: String::new(),
        }
    }

    /// The driver's name for an error, by either of its two interfaces.
    fn words(
        &self,
        code: c_int,
        out: Option<unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int>,
        returned: Option<unsafe extern "C" fn(c_int) -> *const c_char>,
    ) -> String {
        let mut found: *const c_char = std::ptr::null();
        if let Some(function) = out {
            // SAFETY: it writes one pointer, to a text of its own.
            unsafe { function(code, &mut found) };
        } else if let Some(function) = returned {
            // SAFETY: it takes a number and returns a text of its own.
            found = unsafe { function(code) };
        }
        // SAFETY: null or the driver's constant text.
        unsafe { text(found) }
    }
}
