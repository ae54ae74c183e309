//! The kinds of functions in the tables.
//! Not which table has which (`tables`).

use std::ffi::{c_int, c_void};

use super::properties::{CommConfig, Hints, VirtualDevice};
use crate::{Logger, Status};

/// ncclNetDeviceHandle_t: an offload's side of a connection. Nobody here makes one.
pub type DeviceHandle = c_void;
/// ncclProfilerCallback_t(event's handle, kind, parent, plugin, data).
pub type Profiler =
    unsafe extern "C" fn(*mut *mut c_void, c_int, *mut c_void, i64, *mut c_void) -> Status;
/// `init(logger)`.
pub type InitV8 = unsafe extern "C" fn(Option<Logger>) -> Status;
/// `init(logger, profiler)`.
pub type InitV10 = unsafe extern "C" fn(Option<Logger>, Option<Profiler>) -> Status;
/// `init(context, communicator, config, logger, profiler)`, once a communicator.
pub type InitV11 = unsafe extern "C" fn(
    *mut *mut c_void,
    u64,
    *mut CommConfig,
    Option<Logger>,
    Option<Profiler>,
) -> Status;
/// `listen(device, handle, listener)`.
pub type ListenV8 = unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void) -> Status;
/// The same with the context first.
pub type ListenV11 =
    unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, *mut *mut c_void) -> Status;
/// `connect(device, handle, connection, offload)`: a null connection means: ask again.
pub type ConnectV8 =
    unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void, *mut *mut DeviceHandle) -> Status;
/// `connect(device, config, handle, connection, offload)`.
pub type ConnectV10 = unsafe extern "C" fn(
    c_int,
    *mut CommConfig,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut DeviceHandle,
) -> Status;
/// `connect(context, device, handle, connection, offload)`.
pub type ConnectV11 = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut DeviceHandle,
) -> Status;
/// `devices(count)`.
pub type Devices = unsafe extern "C" fn(*mut c_int) -> Status;
/// `getProperties(device, properties)`.
pub type GetProperties<P> = unsafe extern "C" fn(c_int, *mut P) -> Status;
/// `accept(listener, connection, offload)`: a null connection means: ask again.
pub type Accept =
    unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut *mut DeviceHandle) -> Status;
/// `regMr(connection, address, bytes, kind, registration)`.
pub type RegMr =
    unsafe extern "C" fn(*mut c_void, *mut c_void, usize, c_int, *mut *mut c_void) -> Status;
/// `regMrDmaBuf(connection, address, bytes, kind, offset, descriptor, registration)`.
pub type RegMrDmaBuf = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    usize,
    c_int,
    u64,
    c_int,
    *mut *mut c_void,
) -> Status;
/// `deregMr(connection, registration)`.
pub type DeregMr = unsafe extern "C" fn(*mut c_void, *mut c_void) -> Status;
/// `isend(connection, address, bytes, tag, registration, request)`: a null request means: ask again.
pub type IsendV8 = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    c_int,
    c_int,
    *mut c_void,
    *mut *mut c_void,
) -> Status;
/// The same with bytes as `size_t`.
pub type IsendV9 = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    usize,
    c_int,
    *mut c_void,
    *mut *mut c_void,
) -> Status;
/// The same with a handle for the profiler before the request.
pub type IsendV10 = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    usize,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut *mut c_void,
) -> Status;
/// `irecv(connection, count, addresses, bytes, tags, registrations, request)`.
pub type IrecvV8 = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *mut *mut c_void,
    *mut c_int,
    *mut c_int,
    *mut *mut c_void,
    *mut *mut c_void,
) -> Status;
/// The same with bytes as `size_t`.
pub type IrecvV9 = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *mut *mut c_void,
    *mut usize,
    *mut c_int,
    *mut *mut c_void,
    *mut *mut c_void,
) -> Status;
/// The same with handles for the profiler before the request.
pub type IrecvV10 = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *mut *mut c_void,
    *mut usize,
    *mut c_int,
    *mut *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> Status;
/// `iflush(connection, count, addresses, bytes, registrations, request)`.
pub type Iflush = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *mut *mut c_void,
    *mut c_int,
    *mut *mut c_void,
    *mut *mut c_void,
) -> Status;
/// `test(request, done, bytes)`; the last may be null.
pub type Test = unsafe extern "C" fn(*mut c_void, *mut c_int, *mut c_int) -> Status;
/// `closeSend`, `closeRecv`, `closeListen`, `finalize`.
pub type Close = unsafe extern "C" fn(*mut c_void) -> Status;
/// `getDeviceMr(connection, registration, offload's)`.
pub type GetDeviceMr = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut *mut c_void) -> Status;
/// `irecvConsumed(connection, count, request)`.
pub type IrecvConsumed = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> Status;
/// `makeVDevice(device, parts)`.
pub type MakeVirtual<const N: usize> =
    unsafe extern "C" fn(*mut c_int, *mut VirtualDevice<N>) -> Status;
/// `setNetAttr(context, hints)`.
pub type SetHints = unsafe extern "C" fn(*mut c_void, *mut Hints) -> Status;
