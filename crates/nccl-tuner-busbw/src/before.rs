//! A tuner that was configured before this one: loaded from its library and asked through the table of the version that
//! NCCL asks this one through. Not another version's table: what one lacks would have to be made up.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    path::{Path, PathBuf},
};

use libloading::Library;
use nccl_plugin_abi::Status;
use nccl_plugin_abi::tuner::{
    AskV2, AskV3, AskV4, ChunkSize, End, InitV2, InitV5, SYMBOLS, TunerV2, TunerV3, TunerV4,
    TunerV5, TunerV6,
};
use thiserror::Error;

use crate::names::{self, BEFORE};

/// Why the other tuner cannot be asked.
#[derive(Debug, Error)]
pub enum Refusal {
    /// Its library cannot be loaded.
    #[error("cannot load {}, the tuner of {BEFORE}: {why}; correct or unset {BEFORE} on every host", file.display())]
    Library {
        /// The library.
        file: PathBuf,
        /// The loader's reason.
        why: String,
    },
    /// It has no table of the version that NCCL asks for.
    #[error(
        "{}, the tuner of {BEFORE}, has no {wanted}, by which this NCCL asks tuners, but {there}: take that tuner alone (NCCL_TUNER_PLUGIN), or unset {BEFORE}", file.display()
    )]
    Version {
        /// The library.
        file: PathBuf,
        /// The symbol.
        wanted: &'static str,
        /// The symbols that it has.
        there: String,
    },
    /// It is this tuner, in this or another file.
    #[error("{}, the tuner of {BEFORE}, is busbw's own: name the other one, or unset {BEFORE}", .0.display())]
    Ourselves(PathBuf),
    /// Its table leaves a function out.
    #[error("{}, the tuner of {BEFORE}, leaves out a function of {wanted}: unset {BEFORE}", file.display())]
    Incomplete {
        /// The library.
        file: PathBuf,
        /// The symbol.
        wanted: &'static str,
    },
    /// Its init failed.
    #[error("{}, the tuner of {BEFORE}: init failed with code {}; its own lines in NCCL's log say why", file.display(), status.0)]
    Init {
        /// The library.
        file: PathBuf,
        /// The code that it returned.
        status: Status,
    },
}

/// getCollInfo of a version.
#[derive(Debug, Clone, Copy)]
pub enum Ask {
    /// Of v2.
    V2(AskV2),
    /// Of v3.
    V3(AskV3),
    /// Of v4 to v7.
    V4(AskV4),
}

/// A table of one version.
pub trait Table: Copy {
    /// Its init.
    type Init;
    /// The symbol.
    const SYMBOL: &'static str;
    /// The tuner's name, init, getCollInfo and end; `None` where one is left out.
    fn parts(&self) -> Option<Parts<Self::Init>>;
}

/// What every table has.
#[derive(Debug)]
pub struct Parts<I> {
    name: *const c_char,
    init: I,
    ask: Ask,
    end: End,
    chunk_size: Option<ChunkSize>,
}

macro_rules! table {
    ($table:ty, $init:ty, $symbol:literal, $ask:ident $(, $chunk_size:ident)?) => {
        impl Table for $table {
            type Init = $init;
            const SYMBOL: &'static str = $symbol;

            fn parts(&self) -> Option<Parts<$init>> {
                let chunk_size: Option<ChunkSize> = None $(.or(self.$chunk_size))?;
                let (init, ask, end) = (self.init?, Ask::$ask(self.ask?), self.end?);
                Some(Parts { name: self.name, init, ask, end, chunk_size })
            }
        }
    };
}

table!(TunerV2, InitV2, "ncclTunerPlugin_v2", V2);
table!(TunerV3, InitV2, "ncclTunerPlugin_v3", V3);
table!(TunerV4, InitV2, "ncclTunerPlugin_v4", V4);
table!(TunerV5, InitV5<4>, "ncclTunerPlugin_v5", V4);
table!(TunerV6<4>, InitV5<4>, "ncclTunerPlugin_v6", V4, chunk_size);
table!(TunerV6<5>, InitV5<5>, "ncclTunerPlugin_v7", V4, chunk_size);

/// The other tuner with its context for one communicator.
#[derive(Debug)]
pub struct Before {
    context: *mut c_void,
    ask: Ask,
    end: End,
    chunk_size: Option<ChunkSize>,
}

impl Before {
    /// Loads the library and calls its init.
    ///
    /// # Errors
    /// It cannot be loaded, has no table of this version or an incomplete one, is this tuner, or its init fails.
    ///
    /// # Safety
    /// The library keeps NCCL's rules for tuners, and `init` calls the function with what NCCL gave.
    pub unsafe fn open<T: Table>(
        file: &Path,
        init: impl FnOnce(T::Init, *mut *mut c_void) -> Status,
    ) -> Result<Self, Refusal> {
        let path = || file.to_owned();
        // SAFETY: as the caller says; loading it is what NCCL would do.
        let library = unsafe { Library::new(file) }
            .map_err(|error| Refusal::Library { file: path(), why: reason(&error) })?;
        // SAFETY: the symbol of that name is a table of that version.
        let table = unsafe { library.get::<*const T>(T::SYMBOL.as_bytes()) };
        let version =
            || Refusal::Version { file: path(), wanted: T::SYMBOL, there: symbols(&library) };
        let table = *table.map_err(|_| version())?;
        // SAFETY: the table is a constant of a library that stays loaded.
        let parts = unsafe { table.as_ref() }.and_then(Table::parts);
        let parts = parts.ok_or_else(|| Refusal::Incomplete { file: path(), wanted: T::SYMBOL })?;
        if named(parts.name) == names::TUNER {
            return Err(Refusal::Ourselves(path()));
        }
        let mut context = std::ptr::null_mut();
        let status = init(parts.init, &raw mut context);
        if status != Status::SUCCESS {
            return Err(Refusal::Init { file: path(), status });
        }
        // What it started may still run when its communicator ends.
        std::mem::forget(library);
        let Parts { ask, end, chunk_size, .. } = parts;
        Ok(Self { context, ask, end, chunk_size })
    }

    /// Its context and getCollInfo.
    #[must_use]
    pub fn ask(&self) -> (*mut c_void, Ask) {
        (self.context, self.ask)
    }

    /// Its getChunkSize, if it has one.
    ///
    /// # Safety
    /// The arguments are NCCL's own.
    pub unsafe fn chunk_size(&self, call: (c_int, usize, c_int, c_int, c_int), chunk: *mut usize) {
        let (function, bytes, algorithm, protocol, channels) = call;
        if let Some(chunk_size) = self.chunk_size {
            // SAFETY: its own context, and what NCCL gave.
            let _ = unsafe {
                chunk_size(self.context, function, bytes, algorithm, protocol, channels, chunk)
            };
        }
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        // SAFETY: its own context, once.
        let _ = unsafe { (self.end)(self.context) };
    }
}

/// What the loader says.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// A tuner's name; empty where there is none.
fn named<'a>(name: *const c_char) -> &'a CStr {
    // SAFETY: a table's name is a constant that ends with a zero.
    if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } }
}

/// The tables that a library has, for a message.
fn symbols(library: &Library) -> String {
    let has = |symbol: &&&str| {
        // SAFETY: only looked up.
        unsafe { library.get::<*const c_void>(symbol.as_bytes()) }.is_ok()
    };
    let there: Vec<&str> = SYMBOLS.iter().filter(has).copied().collect();
    if there.is_empty() { "none at all".to_owned() } else { there.join(", ") }
}
