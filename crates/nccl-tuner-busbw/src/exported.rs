//! The symbols that NCCL finds, `ncclTunerPlugin_v2` to `v7`: which function is where in which version.
//! Not the functions (`calls`).
#![allow(non_upper_case_globals)]

mod calls;

use nccl_plugin_abi::tuner::{TunerV2, TunerV3, TunerV4, TunerV5, TunerV6};

use crate::names;

/// A table as a symbol.
#[derive(Debug)]
#[repr(transparent)]
pub struct Table<T>(pub T);

// SAFETY: only pointers to functions and to a name that nobody writes.
unsafe impl<T> Sync for Table<T> {}

macro_rules! table {
    ($table:ident, $init:expr, $ask:ident $(, $field:ident: $value:expr)*) => {
        Table($table {
            name: names::TUNER.as_ptr(),
            init: Some($init),
            ask: Some(calls::$ask),
            end: Some(calls::end),
            $($field: $value,)*
        })
    };
}

/// For NCCL 2.21.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v2: Table<TunerV2> = table!(TunerV2, calls::init_v2::<TunerV2>, ask_v2);
/// For NCCL 2.22 and 2.23.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v3: Table<TunerV3> = table!(TunerV3, calls::init_v2::<TunerV3>, ask_v3);
/// For NCCL 2.24 to 2.27.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v4: Table<TunerV4> = table!(TunerV4, calls::init_v2::<TunerV4>, ask_v4);
/// For NCCL 2.28 and 2.29.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v5: Table<TunerV5> =
    table!(TunerV5, calls::init_v5::<TunerV5, 4>, ask_v4);
/// For NCCL 2.30 to 2.32.3.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v6: Table<TunerV6<4>> = table!(
    TunerV6, calls::init_v5::<TunerV6<4>, 4>, ask_v4, chunk_size: Some(calls::chunk_size)
);
/// For NCCL 2.32.6.
#[unsafe(no_mangle)]
pub static ncclTunerPlugin_v7: Table<TunerV6<5>> = table!(
    TunerV6, calls::init_v5::<TunerV6<5>, 5>, ask_v4, chunk_size: Some(calls::chunk_size)
);
