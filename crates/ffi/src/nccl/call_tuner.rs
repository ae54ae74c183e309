//! busbw's tuner as NCCL has loaded it into this process, told what the next calls are to have: before NCCL 2.31 a call takes no
//! configuration. Not the tuner (crates/nccl-tuner-busbw, `next_calls`), and not `ncclCollConfig_t` (`call_config`).

use std::{
    ffi::{c_int, c_uint},
    path::Path,
};

use dynamic_library::{Library, LoadError};

/// The tuner's functions.
#[derive(Debug, Clone, Copy)]
pub struct CallTuner {
    next_calls: unsafe extern "C" fn(c_int, c_int, c_int),
    asked: unsafe extern "C" fn() -> c_uint,
    refused: unsafe extern "C" fn() -> c_uint,
}

impl CallTuner {
    /// The tuner in this file, which NCCL loads, too: the loader gives both the same one.
    ///
    /// # Errors
    /// It cannot be loaded, or is another tuner.
    pub fn open(file: &Path) -> Result<CallTuner, LoadError> {
        let library = Library::open(file)?;
        let missing = |function| LoadError::Missing {
            path: file.display().to_string(),
            function,
            library: "tuner of busbw's",
        };
        // SAFETY: functions of busbw's own library, with the types that it has there.
        let (next_calls, asked, refused) = unsafe {
            (
                library.function(c"busbw_tuner_next_calls"),
                library.function(c"busbw_tuner_asked"),
                library.function(c"busbw_tuner_refused"),
            )
        };
        Ok(CallTuner {
            next_calls: next_calls.ok_or_else(|| missing("busbw_tuner_next_calls"))?,
            asked: asked.ok_or_else(|| missing("busbw_tuner_asked"))?,
            refused: refused.ok_or_else(|| missing("busbw_tuner_refused"))?,
        })
    }

    /// All calls of this process have this algorithm and protocol from now on, by NCCL's numbers, and at most so many channels;
    /// nothing leaves it to NCCL.
    pub fn next_calls(&self, pair: Option<(usize, usize)>, channels: Option<u32>) {
        let number = |number: usize| c_int::try_from(number).unwrap_or(-1);
        let (algorithm, protocol) = pair.map_or((-1, -1), |(a, p)| (number(a), number(p)));
        let channels = channels.and_then(|count| c_int::try_from(count).ok()).unwrap_or(0);
        // SAFETY: takes three numbers, whatever they are.
        unsafe { (self.next_calls)(algorithm, protocol, channels) }
    }

    /// For how many calls NCCL has asked while something was wanted.
    pub fn asked(&self) -> u32 {
        // SAFETY: takes nothing.
        unsafe { (self.asked)() }
    }

    /// How many calls could not have what was wanted: NCCL has chosen for them.
    pub fn refused(&self) -> u32 {
        // SAFETY: takes nothing.
        unsafe { (self.refused)() }
    }
}
