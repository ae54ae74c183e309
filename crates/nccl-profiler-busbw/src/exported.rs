//! The symbols that NCCL finds, `ncclProfiler_v2` to `v7`: which function is where in which version.
//! Not the functions (`calls`).
#![allow(non_upper_case_globals)]

mod calls;

use std::ffi::c_void;

use nccl_plugin_abi::profiler::{ProfilerV2, ProfilerV3, ProfilerV4, ProfilerV5, ProfilerV7};

use crate::names;

/// A table as a symbol. Nothing follows it in NCCL up to 2.32.3; a later one that reads further finds that nothing is there
/// (a hook on the device is on NCCL's development branch).
#[derive(Debug)]
#[repr(C)]
pub struct Table<T> {
    /// The table.
    pub table: T,
    rest: [*const c_void; 8],
}

// SAFETY: only pointers to functions and to a name that nobody writes.
unsafe impl<T> Sync for Table<T> {}

macro_rules! table {
    ($table:ident, $init:ident, $start:ident, $record_state:ident) => {
        Table {
            table: $table {
                name: names::PROFILER.as_ptr(),
                init: Some(calls::$init),
                start: Some(calls::$start),
                stop: Some(calls::stop),
                record_state: Some(calls::$record_state),
                finalize: Some(calls::finalize),
            },
            rest: [std::ptr::null(); 8],
        }
    };
}

/// For NCCL 2.24 and 2.25.
#[unsafe(no_mangle)]
pub static ncclProfiler_v2: Table<ProfilerV2> = table!(ProfilerV2, init_v2, start_v2, state_v2);
/// For NCCL 2.26.
#[unsafe(no_mangle)]
pub static ncclProfiler_v3: Table<ProfilerV3> = table!(ProfilerV3, init_v3, start_v3, state_v2);
/// For NCCL 2.27.
#[unsafe(no_mangle)]
pub static ncclProfiler_v4: Table<ProfilerV4> = table!(ProfilerV4, init_v4, start_v4, state_v4);
/// For NCCL 2.28.
#[unsafe(no_mangle)]
pub static ncclProfiler_v5: Table<ProfilerV5> = table!(ProfilerV5, init_v5, start_v5, state_v4);
/// For NCCL 2.29 and 2.30.
#[unsafe(no_mangle)]
pub static ncclProfiler_v6: Table<ProfilerV5> = table!(ProfilerV5, init_v6, start_v5, state_v4);
/// For NCCL 2.31 and 2.32.
#[unsafe(no_mangle)]
pub static ncclProfiler_v7: Table<ProfilerV7> = table!(ProfilerV7, init_v7, start_v7, state_v4);
