//! A tuner that stands for one which was configured before busbw's, for tests: Tree with LL on 7 channels for every
//! collective, a chunk of 12345 bytes, and a code that says failure. It has the tables v2, v3, v4 and v6.
//! Not a tuner to use.
#![allow(non_upper_case_globals, missing_docs)]

use std::{
    ffi::{c_int, c_void},
    sync::atomic::{AtomicI64, Ordering},
};

use nccl_plugin_abi::{
    Logger, Status,
    tuner::{Constants, NvlDomains, TunerV2, TunerV3, TunerV4, TunerV6},
};

#[repr(transparent)]
pub struct Table<T>(T);
// SAFETY: only pointers to functions and a constant name.
unsafe impl<T> Sync for Table<T> {}

/// Contexts that are open.
#[unsafe(no_mangle)]
pub static other_tuner_open: AtomicI64 = AtomicI64::new(0);

unsafe extern "C" fn init(
    ranks: usize,
    _: usize,
    _: Option<Logger>,
    context: *mut *mut c_void,
) -> Status {
    if ranks == 13 {
        return Status::SYSTEM;
    }
    other_tuner_open.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the caller's place.
    unsafe { context.write(std::ptr::dangling_mut::<u64>().cast()) };
    Status::SUCCESS
}

unsafe extern "C" fn init_v6(
    context: *mut *mut c_void,
    _: u64,
    ranks: usize,
    nodes: usize,
    logger: Option<Logger>,
    _: *mut NvlDomains,
    constants: *mut Constants<4>,
) -> Status {
    // SAFETY: the caller's constants.
    if let Some(constants) = unsafe { constants.as_mut() } {
        constants.most_tree[3][2] = 15.0;
    }
    // SAFETY: the same call with less.
    unsafe { init(ranks, nodes, logger, context) }
}

unsafe extern "C" fn ask_v2(
    context: *mut c_void,
    _: c_int,
    _: usize,
    _: c_int,
    _: c_int,
    _: c_int,
    algorithm: *mut c_int,
    protocol: *mut c_int,
    channels: *mut c_int,
) -> Status {
    assert!(!context.is_null());
    // SAFETY: the caller's places.
    unsafe {
        algorithm.write(0);
        protocol.write(0);
        channels.write(7);
    }
    Status::INTERNAL
}

unsafe extern "C" fn ask_v3(
    context: *mut c_void,
    _: c_int,
    _: usize,
    _: c_int,
    costs: *mut *mut f32,
    _: c_int,
    _: c_int,
    channels: *mut c_int,
) -> Status {
    assert!(!context.is_null());
    // SAFETY: the caller's places; the first cost is that of Tree with LL.
    unsafe {
        costs.cast::<f32>().write(0.0);
        channels.write(7);
    }
    Status::INTERNAL
}

unsafe extern "C" fn ask_v4(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    operations: c_int,
    costs: *mut *mut f32,
    algorithms: c_int,
    protocols: c_int,
    _: c_int,
    channels: *mut c_int,
) -> Status {
    // SAFETY: the same call with less.
    unsafe { ask_v3(context, function, bytes, operations, costs, algorithms, protocols, channels) }
}

unsafe extern "C" fn chunk_size(
    _: *mut c_void,
    _: c_int,
    _: usize,
    _: c_int,
    _: c_int,
    _: c_int,
    chunk: *mut usize,
) -> Status {
    // SAFETY: the caller's place.
    unsafe { chunk.write(12345) };
    Status::SUCCESS
}

unsafe extern "C" fn end(_: *mut c_void) -> Status {
    other_tuner_open.fetch_sub(1, Ordering::Relaxed);
    Status::SUCCESS
}

macro_rules! table {
    ($table:ident, $init:ident, $ask:ident $(, $field:ident: $value:expr)*) => {
        Table($table { name: c"other".as_ptr(), init: Some($init), ask: Some($ask), end: Some(end), $($field: $value)* })
    };
}

#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v2: Table<TunerV2> = table!(TunerV2, init, ask_v2);
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v3: Table<TunerV3> = table!(TunerV3, init, ask_v3);
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v4: Table<TunerV4> = table!(TunerV4, init, ask_v4);
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v6: Table<TunerV6<4>> =
    table!(TunerV6, init_v6, ask_v4, chunk_size: Some(chunk_size));
