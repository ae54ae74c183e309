//! The symbols: which function is where in which version.
//! Not the functions (`calls`).
#![allow(non_upper_case_globals)]

use std::sync::atomic::{AtomicU8, Ordering};

use nccl_plugin_abi::net::{
    NetV8, NetV9, NetV10, NetV11, NetV12, PropertiesV8, PropertiesV9, PropertiesV11, PropertiesV12,
};

use super::calls;

/// Bytes of a network's name, with the zero at its end.
const NAME_BYTES: usize = 32;
/// What NCCL's log and NCCL_NET call us: a string that ends with a zero.
static NAME: [AtomicU8; NAME_BYTES] = {
    let mut name = [const { AtomicU8::new(0) }; NAME_BYTES];
    let (ours, mut at) = (b"busbw", 0);
    while at < ours.len() {
        name[at] = AtomicU8::new(ours[at]);
        at += 1;
    }
    name
};

/// What NCCL's log calls this network.
pub(super) fn name() -> String {
    let letters = NAME.iter().map(|letter| letter.load(Ordering::Relaxed));
    letters.take_while(|&letter| letter != 0).map(char::from).collect()
}

/// Another name, cut where it is too long.
pub(super) fn rename(name: &str) {
    let letters = name.bytes().chain(std::iter::repeat(0)).take(NAME_BYTES - 1);
    NAME.iter().zip(letters).for_each(|(place, letter)| place.store(letter, Ordering::Relaxed));
}

/// A table as a symbol.
#[derive(Debug)]
#[repr(transparent)]
pub struct Table<T>(pub T);

// SAFETY: only pointers to functions and to a name that nobody writes.
unsafe impl<T> Sync for Table<T> {}

/// One version's table: what all have, with the functions that differ.
macro_rules! table {
    ($table:ident, $properties:ident, $init:ident, $listen:ident, $connect:ident, $isend:ident, $irecv:ident
        $(, $field:ident: $value:expr)*) => {
        Table($table {
            name: NAME.as_ptr().cast(),
            init: Some(calls::$init),
            devices: Some(calls::devices),
            get_properties: Some(calls::properties::<$properties>),
            listen: Some(calls::$listen),
            connect: Some(calls::$connect),
            accept: Some(calls::accept),
            reg_mr: Some(calls::reg_mr),
            reg_mr_dma_buf: Some(calls::reg_mr_dma_buf),
            dereg_mr: Some(calls::dereg_mr),
            isend: Some(calls::$isend),
            irecv: Some(calls::$irecv),
            iflush: Some(calls::iflush),
            test: Some(calls::test),
            close_send: Some(calls::close),
            close_recv: Some(calls::close),
            close_listen: Some(calls::close_listen),
            get_device_mr: None,
            irecv_consumed: None,
            $($field: $value,)*
        })
    };
}

/// For NCCL 2.20 to 2.23.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v8: Table<NetV8> =
    table!(NetV8, PropertiesV8, init_v8, listen_v8, connect_v8, isend_v8, irecv_v8);
/// For NCCL 2.24 and 2.25.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v9: Table<NetV9> = table!(
    NetV9, PropertiesV9, init_v8, listen_v8, connect_v8, isend_v9, irecv_v9, make_virtual: Some(calls::make_virtual)
);
/// For NCCL 2.26 and 2.27.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v10: Table<NetV10> = table!(
    NetV10, PropertiesV9, init_v10, listen_v8, connect_v10, isend_v10, irecv_v10,
    make_virtual: Some(calls::make_virtual)
);
/// For NCCL 2.28 and 2.29.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v11: Table<NetV11> = table!(
    NetV11, PropertiesV11, init_v11, listen_v11, connect_v11, isend_v10, irecv_v10,
    make_virtual: Some(calls::make_virtual), finalize: Some(calls::finalize), set_hints: None
);
/// For NCCL 2.30.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v12: Table<NetV12> = table!(
    NetV12, PropertiesV12, init_v11, listen_v11, connect_v11, isend_v10, irecv_v10,
    make_virtual: Some(calls::make_virtual), finalize: Some(calls::finalize), set_hints: None
);
