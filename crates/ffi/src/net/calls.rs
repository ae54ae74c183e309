//! The functions of a plugin's table, in any version: the differences between versions are hidden
//! here.
//! Not what they mean, and no memory of its own.

use std::{
    ffi::{c_int, c_void},
    mem::MaybeUninit,
};

use nccl_plugin_abi::{
    Logger, Status,
    net::{
        Accept, Close, CommConfig, ConnectV8, ConnectV10, ConnectV11, DeregMr, DeviceHandle,
        Devices, GetProperties, InitV8, InitV10, InitV11, IrecvV8, IrecvV9, IrecvV10, IsendV8,
        IsendV9, IsendV10, ListenV8, ListenV11, MakeVirtual, NetV8, NetV9, NetV10, NetV11, NetV12,
        OPTIONAL_COMPLETION, PropertiesV8, PropertiesV9, PropertiesV11, PropertiesV12, RegMr, Test,
        UNDEFINED, VirtualDevice,
    },
};

use super::{
    NetError, Properties,
    error::{checked, present},
    properties::ToProperties,
};
use dynamic_library::text;

/// A function that differs between versions.
#[derive(Debug, Clone, Copy)]
pub(super) enum Init {
    V8(InitV8),
    V10(InitV10),
    V11(InitV11),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum GetProps {
    V8(GetProperties<PropertiesV8>),
    V9(GetProperties<PropertiesV9>),
    V11(GetProperties<PropertiesV11>),
    V12(GetProperties<PropertiesV12>),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Listen {
    V8(ListenV8),
    V11(ListenV11),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Connect {
    V8(ConnectV8),
    V10(ConnectV10),
    V11(ConnectV11),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Isend {
    V8(IsendV8),
    V9(IsendV9),
    V10(IsendV10),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Irecv {
    V8(IrecvV8),
    V9(IrecvV9),
    V10(IrecvV10),
}

/// A table; functions that the plugin lacks are `None`.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) name: String,
    pub(super) init: Option<Init>,
    pub(super) devices: Option<Devices>,
    pub(super) get_properties: Option<GetProps>,
    pub(super) listen: Option<Listen>,
    pub(super) connect: Option<Connect>,
    pub(super) accept: Option<Accept>,
    pub(super) reg_mr: Option<RegMr>,
    pub(super) dereg_mr: Option<DeregMr>,
    pub(super) isend: Option<Isend>,
    pub(super) irecv: Option<Irecv>,
    pub(super) test: Option<Test>,
    pub(super) close_send: Option<Close>,
    pub(super) close_recv: Option<Close>,
    pub(super) close_listen: Option<Close>,
    /// v8 has none.
    pub(super) merge: Option<Merge>,
    /// Versions up to v10 have none.
    pub(super) finalize: Option<Close>,
}

/// `makeVDevice`, with room for as many devices as the version has.
#[derive(Debug, Clone, Copy)]
pub(super) enum Merge {
    V9(MakeVirtual<4>),
    V12(MakeVirtual<8>),
}

/// Reads a table of one version at an address.
macro_rules! read {
    ($address:expr, $table:ty, $init:ident, $properties:ident, $listen:ident, $connect:ident, $isend:ident, $irecv:ident, $merge:expr, $finalize:expr) => {{
        // SAFETY: the symbol names a table of this version, as the caller says.
        let table: $table = unsafe { $address.cast::<$table>().read() };
        let finalize: fn(&$table) -> Option<Close> = $finalize;
        let merge: fn(&$table) -> Option<Merge> = $merge;
        Calls {
            // SAFETY: the plugin's text, or null.
            name: unsafe { text(table.name) },
            init: table.init.map(Init::$init),
            devices: table.devices,
            get_properties: table.get_properties.map(GetProps::$properties),
            listen: table.listen.map(Listen::$listen),
            connect: table.connect.map(Connect::$connect),
            accept: table.accept,
            reg_mr: table.reg_mr,
            dereg_mr: table.dereg_mr,
            isend: table.isend.map(Isend::$isend),
            irecv: table.irecv.map(Irecv::$irecv),
            test: table.test,
            close_send: table.close_send,
            close_recv: table.close_recv,
            close_listen: table.close_listen,
            merge: merge(&table),
            finalize: finalize(&table),
        }
    }};
}

impl Calls {
    /// The table of `version`, 8 to 12, at an address.
    ///
    /// # Safety
    /// There is one, and it stays.
    pub(super) unsafe fn read(address: *const c_void, version: u32) -> Calls {
        match version {
            8 => read!(address, NetV8, V8, V8, V8, V8, V8, V8, |_| None, |_| None),
            9 => read!(
                address,
                NetV9,
                V8,
                V9,
                V8,
                V8,
                V9,
                V9,
                |t| t.make_virtual.map(Merge::V9),
                |_| None
            ),
            10 => read!(
                address,
                NetV10,
                V10,
                V9,
                V8,
                V10,
                V10,
                V10,
                |t| t.make_virtual.map(Merge::V9),
                |_| None
            ),
            11 => {
                read!(
                    address,
                    NetV11,
                    V11,
                    V11,
                    V11,
                    V11,
                    V10,
                    V10,
                    |t| t.make_virtual.map(Merge::V9),
                    |t| t.finalize
                )
            }
            _ => {
                read!(
                    address,
                    NetV12,
                    V11,
                    V12,
                    V11,
                    V11,
                    V10,
                    V10,
                    |t| t.make_virtual.map(Merge::V12),
                    |t| t.finalize
                )
            }
        }
    }

    /// Makes one device of several; its number.
    pub(super) fn merge(&self, parts: &[c_int]) -> Result<c_int, NetError> {
        fn of<const N: usize>(parts: &[c_int]) -> VirtualDevice<N> {
            let mut devices = [0; N];
            let count = parts.len().min(N);
            devices[..count].copy_from_slice(&parts[..count]);
            VirtualDevice { count: count as c_int, devices }
        }
        let mut number = -1;
        // SAFETY: functions of the table, a place for the number, and a structure of each one's version.
        let status = unsafe {
            match present("makeVDevice", self.merge)? {
                Merge::V9(make) => make(&raw mut number, &mut of::<4>(parts)),
                Merge::V12(make) => make(&raw mut number, &mut of::<8>(parts)),
            }
        };
        checked("makeVDevice", status)?;
        Ok(number)
    }

    /// Starts the plugin; returns the context, in versions that have one.
    pub(super) fn init(&self, logger: Logger) -> Result<*mut c_void, NetError> {
        let (mut context, logger) = (std::ptr::null_mut(), Some(logger));
        let mut config = CommConfig { traffic_class: UNDEFINED };
        // SAFETY: the functions of the table, with places of ours to write to.
        let status = unsafe {
            match present("init", self.init)? {
                Init::V8(init) => init(logger),
                Init::V10(init) => init(logger, None),
                Init::V11(init) => init(&raw mut context, 1, &raw mut config, logger, None),
            }
        };
        checked("init", status)?;
        Ok(context)
    }

    /// The properties of a device.
    pub(super) fn properties(&self, device: c_int) -> Result<Properties, NetError> {
        unsafe fn ask<P: ToProperties>(
            function: GetProperties<P>,
            device: c_int,
        ) -> Result<Properties, NetError> {
            // NCCL's are not zeros; fields that a plugin does not set stay zero here.
            let mut told = MaybeUninit::<P>::zeroed();
            // SAFETY: a function of the table, and a place for this version's properties.
            checked("getProperties", unsafe { function(device, told.as_mut_ptr()) })?;
            // SAFETY: numbers and pointers, for all of which zeros are values; its texts are the plugin's.
            Ok(unsafe { told.assume_init_ref().to_properties() })
        }
        // SAFETY: each version's own form.
        unsafe {
            match present("getProperties", self.get_properties)? {
                GetProps::V8(function) => ask(function, device),
                GetProps::V9(function) => ask(function, device),
                GetProps::V11(function) => ask(function, device),
                GetProps::V12(function) => ask(function, device),
            }
        }
    }

    /// # Safety
    /// The handle has room for 128 bytes.
    pub(super) unsafe fn listen(
        &self,
        context: *mut c_void,
        device: c_int,
        handle: *mut c_void,
        listener: &mut *mut c_void,
    ) -> Result<Status, NetError> {
        // SAFETY: as the caller says.
        Ok(unsafe {
            match present("listen", self.listen)? {
                Listen::V8(listen) => listen(device, handle, listener),
                Listen::V11(listen) => listen(context, device, handle, listener),
            }
        })
    }

    /// # Safety
    /// The handle is one that a listener filled, 128 bytes.
    pub(super) unsafe fn connect(
        &self,
        context: *mut c_void,
        device: c_int,
        handle: *mut c_void,
        connection: &mut *mut c_void,
    ) -> Result<Status, NetError> {
        let mut config = CommConfig { traffic_class: UNDEFINED };
        let mut offload: *mut DeviceHandle = std::ptr::null_mut();
        let offload = &raw mut offload;
        // SAFETY: as the caller says; the other places are ours.
        Ok(unsafe {
            match present("connect", self.connect)? {
                Connect::V8(connect) => connect(device, handle, connection, offload),
                Connect::V10(connect) => {
                    connect(device, &raw mut config, handle, connection, offload)
                }
                Connect::V11(connect) => connect(context, device, handle, connection, offload),
            }
        })
    }

    /// # Safety
    /// The connection is open and sends; the memory does not change until the request is complete.
    #[inline]
    pub(super) unsafe fn isend(
        &self,
        connection: *mut c_void,
        data: *mut c_void,
        bytes: usize,
        tag: c_int,
        registration: *mut c_void,
        request: &mut *mut c_void,
    ) -> Result<Status, NetError> {
        // SAFETY: as the caller says.
        Ok(unsafe {
            match present("isend", self.isend)? {
                Isend::V8(isend) => {
                    let bytes = short("isend", bytes)?;
                    isend(connection, data, bytes, tag, registration, request)
                }
                Isend::V9(isend) => isend(connection, data, bytes, tag, registration, request),
                Isend::V10(isend) => {
                    let profiled = std::ptr::null_mut();
                    isend(connection, data, bytes, tag, registration, profiled, request)
                }
            }
        })
    }

    /// # Safety
    /// The connection is open and receives; all lists have as many entries; the memory is the
    /// plugin's until the request is complete.
    #[inline]
    pub(super) unsafe fn irecv(
        &self,
        connection: *mut c_void,
        data: &mut [*mut c_void],
        bytes: &mut [usize],
        tags: &mut [c_int],
        registrations: &mut [*mut c_void],
        request: &mut *mut c_void,
    ) -> Result<Status, NetError> {
        let count = data.len() as c_int;
        let (places, sizes) = (data.as_mut_ptr(), bytes.as_mut_ptr());
        let (tags, registered) = (tags.as_mut_ptr(), registrations.as_mut_ptr());
        // SAFETY: as the caller says.
        Ok(unsafe {
            match present("irecv", self.irecv)? {
                Irecv::V8(irecv) => {
                    let mut sizes = [0; super::connection::MAX_GROUPED_RECEIVES];
                    for (short_one, long) in sizes.iter_mut().zip(bytes.iter()) {
                        *short_one = short("irecv", *long)?;
                    }
                    // As NCCL does for tables without it (src/plugin/net/net_v8.cc).
                    if request.addr() == OPTIONAL_COMPLETION {
                        *request = std::ptr::null_mut();
                    }
                    irecv(connection, count, places, sizes.as_mut_ptr(), tags, registered, request)
                }
                Irecv::V9(irecv) => {
                    irecv(connection, count, places, sizes, tags, registered, request)
                }
                Irecv::V10(irecv) => {
                    let mut profiled =
                        [std::ptr::null_mut(); super::connection::MAX_GROUPED_RECEIVES];
                    let profiled = profiled.as_mut_ptr();
                    irecv(connection, count, places, sizes, tags, registered, profiled, request)
                }
            }
        })
    }
}

/// A size as v8 has it.
fn short(call: &'static str, bytes: usize) -> Result<c_int, NetError> {
    c_int::try_from(bytes).map_err(|_| NetError::TooLarge {
        call,
        what: format!("{bytes} bytes: sizes have 31 bits in version 8 of the table"),
    })
}
