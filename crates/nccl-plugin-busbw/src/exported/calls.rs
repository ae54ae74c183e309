//! The functions behind the tables: they check NCCL's pointers and call the network.
//! Not their order (`tables`).

use std::{
    ffi::{c_int, c_void},
    ops::Range,
};

use nccl_plugin_abi::{
    Logger, Status,
    net::{CommConfig, DeviceHandle, PTR_CUDA, PTR_HOST, Profiler, VirtualDevice},
};

use super::{
    Connection, End, Open, chosen::network, counted, device, guarded, invalid,
    properties::Properties, put,
};
use crate::{
    log,
    network::{Failure, Handle, Listener, Memory, Result},
};

pub(super) unsafe extern "C" fn init_v8(logger: Option<Logger>) -> Status {
    log::set(logger);
    guarded("init", || network().map(|_| ()))
}

pub(super) unsafe extern "C" fn init_v10(logger: Option<Logger>, _: Option<Profiler>) -> Status {
    // SAFETY: the same call with less.
    unsafe { init_v8(logger) }
}

pub(super) unsafe extern "C" fn init_v11(
    context: *mut *mut c_void,
    _: u64,
    _: *mut CommConfig,
    logger: Option<Logger>,
    _: Option<Profiler>,
) -> Status {
    if !context.is_null() {
        // SAFETY: NCCL's place for it. All communicators share what we have.
        unsafe { context.write(std::ptr::null_mut()) };
    }
    log::set(logger);
    guarded("init", || network().map(|network| network.begin()))
}

pub(super) unsafe extern "C" fn devices(count: *mut c_int) -> Status {
    guarded("devices", || {
        let devices = counted(network()?.count(), "number of devices")?;
        // SAFETY: NCCL's place for the number.
        unsafe { put(count, devices, "the number of devices") }
    })
}

pub(super) unsafe extern "C" fn properties<P: Properties>(
    number: c_int,
    properties: *mut P,
) -> Status {
    guarded("getProperties", || {
        let device = device(network()?, number)?.1;
        // SAFETY: NCCL's place for this version's properties.
        unsafe { put(properties, P::of(device, number), "properties") }
    })
}

pub(super) unsafe extern "C" fn make_virtual<const N: usize>(
    number: *mut c_int,
    parts: *mut VirtualDevice<N>,
) -> Status {
    guarded("makeVDevice", || {
        let network = network()?;
        // SAFETY: NCCL's structure of this version.
        let parts = unsafe { parts.as_ref() }.ok_or_else(|| invalid("no devices to merge"))?;
        let count = usize::try_from(parts.count).ok().filter(|count| *count <= N);
        let count = count.ok_or_else(|| invalid("an impossible number of devices to merge"))?;
        let which = parts.devices[..count].iter().map(|number| Ok(device(network, *number)?.0));
        let made = counted(network.merge(&which.collect::<Result<Vec<_>>>()?)?, "device")?;
        // SAFETY: NCCL's place for the number.
        unsafe { put(number, made, "the number of the device") }
    })
}

pub(super) unsafe extern "C" fn listen_v8(
    number: c_int,
    handle: *mut c_void,
    listener: *mut *mut c_void,
) -> Status {
    guarded("listen", || {
        let network = network()?;
        let (which, _) = device(network, number)?;
        // SAFETY: NCCL's handle, as long as ours.
        let handle = unsafe { handle.cast::<Handle>().as_mut() };
        let handle = handle.ok_or_else(|| invalid("no handle"))?;
        let made = Box::into_raw(Box::new(network.listen(which, handle)?));
        // SAFETY: NCCL's place for it.
        unsafe { put(listener, made.cast(), "the listener") }
    })
}

pub(super) unsafe extern "C" fn listen_v11(
    _: *mut c_void,
    number: c_int,
    handle: *mut c_void,
    listener: *mut *mut c_void,
) -> Status {
    // SAFETY: the same call with less.
    unsafe { listen_v8(number, handle, listener) }
}

pub(super) unsafe extern "C" fn connect_v8(
    number: c_int,
    handle: *mut c_void,
    connection: *mut *mut c_void,
    _: *mut *mut DeviceHandle,
) -> Status {
    guarded("connect", || {
        let network = network()?;
        let (which, _) = device(network, number)?;
        // SAFETY: NCCL's place for the connection, and its handle, as long as ours.
        let handle = unsafe {
            put(connection, std::ptr::null_mut(), "the connection")?;
            handle.cast::<Handle>().as_mut()
        };
        let handle = handle.ok_or_else(|| invalid("no handle"))?;
        if let Some(sender) = network.connect(which, handle)? {
            // SAFETY: it was checked above.
            unsafe { connection.write(Connection::leaked(End::Sends(sender)).cast()) };
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn connect_v10(
    number: c_int,
    _: *mut CommConfig,
    handle: *mut c_void,
    connection: *mut *mut c_void,
    offload: *mut *mut DeviceHandle,
) -> Status {
    // SAFETY: the same call with less.
    unsafe { connect_v8(number, handle, connection, offload) }
}

pub(super) unsafe extern "C" fn connect_v11(
    _: *mut c_void,
    number: c_int,
    handle: *mut c_void,
    connection: *mut *mut c_void,
    offload: *mut *mut DeviceHandle,
) -> Status {
    // SAFETY: the same call with less.
    unsafe { connect_v8(number, handle, connection, offload) }
}

pub(super) unsafe extern "C" fn accept(
    listener: *mut c_void,
    connection: *mut *mut c_void,
    _: *mut *mut DeviceHandle,
) -> Status {
    guarded("accept", || {
        // SAFETY: what `listen` gave, and nobody else has; NCCL's place for the connection.
        let listener = unsafe {
            put(connection, std::ptr::null_mut(), "the connection")?;
            listener.cast::<Box<dyn Listener>>().as_mut()
        };
        if let Some(receiver) = listener.ok_or_else(|| invalid("no listener"))?.accept()? {
            // SAFETY: it was checked above.
            unsafe { connection.write(Connection::leaked(End::Receives(receiver)).cast()) };
        }
        Ok(())
    })
}

/// What NCCL holds is the memory's addresses, in a box. After an abort NCCL takes it back, and frees the memory, while
/// requests are open (sendProxyFree of its src/transport/net.cc).
pub(super) unsafe extern "C" fn reg_mr(
    connection: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    kind: c_int,
    registration: *mut *mut c_void,
) -> Status {
    guarded("regMr", || register(connection, (data, bytes), kind, None, registration))
}

pub(super) unsafe extern "C" fn reg_mr_dma_buf(
    connection: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    kind: c_int,
    offset: u64,
    descriptor: c_int,
    registration: *mut *mut c_void,
) -> Status {
    guarded("regMrDmaBuf", || {
        register(connection, (data, bytes), kind, Some((descriptor, offset)), registration)
    })
}

fn register(
    connection: *mut c_void,
    (data, bytes): (*mut c_void, usize),
    kind: c_int,
    dma_buf: Option<(c_int, u64)>,
    registration: *mut *mut c_void,
) -> Result<()> {
    if !matches!(kind, PTR_HOST | PTR_CUDA) {
        return Err(invalid(format!("memory of kind {kind}: a host's and a GPU's are taken")));
    }
    let addresses: Range<usize> = data.addr()..data.addr().saturating_add(bytes);
    let memory = Memory { addresses: addresses.clone(), is_device: kind == PTR_CUDA, dma_buf };
    // SAFETY: what connect or accept gave, and close has not taken back.
    let connection = unsafe { connection.cast::<Connection>().as_ref() };
    match connection.map(|connection| &connection.end) {
        Some(End::Sends(sender)) => sender.register(&memory)?,
        Some(End::Receives(receiver)) => receiver.register(&memory)?,
        None => memory.must_be_of_host()?,
    }
    if !registration.is_null() {
        // SAFETY: NCCL's place for it.
        unsafe { registration.write(Box::into_raw(Box::new(addresses)).cast()) };
    }
    Ok(())
}

pub(super) unsafe extern "C" fn dereg_mr(
    connection: *mut c_void,
    registration: *mut c_void,
) -> Status {
    guarded("deregMr", || {
        if registration.is_null() {
            return Ok(());
        }
        // SAFETY: what `reg_mr` gave, in a box, which NCCL gives back here.
        let memory = unsafe { Box::from_raw(registration.cast::<Range<usize>>()) };
        // SAFETY: what connect or accept gave, and close has not taken back.
        let connection = unsafe { connection.cast::<Connection>().as_ref() };
        match connection.map(|connection| &connection.end) {
            Some(End::Sends(sender)) => sender.release(&memory),
            Some(End::Receives(receiver)) => receiver.release(&memory),
            None => {}
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn isend_v8(
    connection: *mut c_void,
    data: *mut c_void,
    bytes: c_int,
    tag: c_int,
    registration: *mut c_void,
    request: *mut *mut c_void,
) -> Status {
    let Ok(bytes) = usize::try_from(bytes) else {
        return guarded("isend", || Err(invalid(format!("{bytes} bytes cannot be sent"))));
    };
    // SAFETY: the same call.
    unsafe { isend_v9(connection, data, bytes, tag, registration, request) }
}

pub(super) unsafe extern "C" fn isend_v9(
    connection: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    _: c_int,
    _: *mut c_void,
    request: *mut *mut c_void,
) -> Status {
    guarded("isend", || {
        // SAFETY: NCCL's place for the request.
        unsafe { put(request, std::ptr::null_mut(), "the request")? };
        let connection = reached(connection)?;
        let End::Sends(sender) = &mut connection.end else {
            return Err(invalid("this connection receives"));
        };
        told(bytes)?;
        // SAFETY: NCCL leaves the memory alone until the request is done.
        if let Some(number) = unsafe { sender.send(data.cast(), bytes)? } {
            // SAFETY: it was checked above.
            unsafe { request.write(connection.request(number)?.cast()) };
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn isend_v10(
    connection: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    tag: c_int,
    registration: *mut c_void,
    _: *mut c_void,
    request: *mut *mut c_void,
) -> Status {
    // SAFETY: the same call with less.
    unsafe { isend_v9(connection, data, bytes, tag, registration, request) }
}

pub(super) unsafe extern "C" fn irecv_v8(
    connection: *mut c_void,
    count: c_int,
    data: *mut *mut c_void,
    bytes: *mut c_int,
    _: *mut c_int,
    _: *mut *mut c_void,
    request: *mut *mut c_void,
) -> Status {
    // SAFETY: arrays of one.
    guarded("irecv", || unsafe {
        only_one(count)?;
        receive(
            connection,
            first(data, "buffers")?,
            counted(first(bytes, "sizes")?, "size")?,
            request,
        )
    })
}

pub(super) unsafe extern "C" fn irecv_v9(
    connection: *mut c_void,
    count: c_int,
    data: *mut *mut c_void,
    bytes: *mut usize,
    _: *mut c_int,
    _: *mut *mut c_void,
    request: *mut *mut c_void,
) -> Status {
    // SAFETY: arrays of one.
    guarded("irecv", || unsafe {
        only_one(count)?;
        receive(connection, first(data, "buffers")?, first(bytes, "sizes")?, request)
    })
}

pub(super) unsafe extern "C" fn irecv_v10(
    connection: *mut c_void,
    count: c_int,
    data: *mut *mut c_void,
    bytes: *mut usize,
    tags: *mut c_int,
    registrations: *mut *mut c_void,
    _: *mut *mut c_void,
    request: *mut *mut c_void,
) -> Status {
    // SAFETY: the same call with less.
    unsafe { irecv_v9(connection, count, data, bytes, tags, registrations, request) }
}

/// # Safety
/// As NCCL calls irecv.
unsafe fn receive(
    connection: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    request: *mut *mut c_void,
) -> Result<()> {
    // SAFETY: NCCL's place for the request.
    unsafe { put(request, std::ptr::null_mut(), "the request")? };
    let connection = reached(connection)?;
    let End::Receives(receiver) = &mut connection.end else {
        return Err(invalid("this connection sends"));
    };
    told(bytes)?;
    // SAFETY: NCCL leaves the memory to us until the request is done.
    if let Some(number) = unsafe { receiver.receive(data.cast(), bytes)? } {
        // SAFETY: it was checked above.
        unsafe { request.write(connection.request(number)?.cast()) };
    }
    Ok(())
}

pub(super) unsafe extern "C" fn iflush(
    connection: *mut c_void,
    count: c_int,
    data: *mut *mut c_void,
    bytes: *mut c_int,
    _: *mut *mut c_void,
    request: *mut *mut c_void,
) -> Status {
    guarded("iflush", || {
        only_one(count)?;
        // SAFETY: NCCL's place for the request, and arrays of one.
        let (data, bytes) = unsafe {
            put(request, std::ptr::null_mut(), "the request")?;
            (first(data, "buffers")?, counted(first(bytes, "sizes")?, "size")?)
        };
        let connection = reached(connection)?;
        let End::Receives(receiver) = &mut connection.end else {
            return Err(invalid("this connection sends"));
        };
        if let Some(number) = receiver.flush(data.cast(), bytes)? {
            // SAFETY: it was checked above.
            unsafe { request.write(connection.request(number)?.cast()) };
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn test(
    request: *mut c_void,
    done: *mut c_int,
    bytes: *mut c_int,
) -> Status {
    guarded("test", || {
        // SAFETY: what isend or irecv gave; its connection is there as long as it is.
        let (connection, number) = unsafe {
            put(done, 0, "the answer")?;
            let open = request.cast::<Open>().as_ref().ok_or_else(|| invalid("no request"))?;
            (&mut *open.connection, open.number)
        };
        let count = match &mut connection.end {
            End::Sends(sender) => sender.test(number)?,
            End::Receives(receiver) => receiver.test(number)?,
        };
        if let Some(count) = count {
            // SAFETY: NCCL's places; the first was checked above.
            unsafe {
                done.write(1);
                if !bytes.is_null() {
                    bytes.write(counted(count, "number of bytes")?);
                }
            }
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn close(connection: *mut c_void) -> Status {
    guarded("close", || {
        if !connection.is_null() {
            // SAFETY: what connect or accept gave, in a box, which NCCL gives back here.
            drop(unsafe { Box::from_raw(connection.cast::<Connection>()) });
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn close_listen(listener: *mut c_void) -> Status {
    guarded("closeListen", || {
        if !listener.is_null() {
            // SAFETY: what listen gave, in a box, which NCCL gives back here.
            drop(unsafe { Box::from_raw(listener.cast::<Box<dyn Listener>>()) });
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn finalize(_: *mut c_void) -> Status {
    guarded("finalize", || network().map(|network| network.end()))
}

/// Refuses messages whose length does not fit `test`'s int. NCCL keeps to maxP2pBytes, half as much.
fn told(bytes: usize) -> Result<()> {
    counted::<c_int, _>(bytes, "number of bytes").map(drop)
}

/// The connection behind NCCL's pointer; only one thread at a time calls for it.
fn reached<'a>(connection: *mut c_void) -> Result<&'a mut Connection> {
    // SAFETY: what connect or accept gave, and close has not taken back.
    unsafe { connection.cast::<Connection>().as_mut() }.ok_or_else(|| invalid("no connection"))
}

fn only_one(count: c_int) -> Result<()> {
    if count == 1 {
        Ok(())
    } else {
        Err(invalid(format!("{count} receives at once: maxRecvs is 1")))
    }
}

/// # Safety
/// It is null, or an array of at least one.
unsafe fn first<T: Copy>(array: *const T, what: &str) -> std::result::Result<T, Failure> {
    // SAFETY: as the caller says.
    unsafe { array.as_ref() }.copied().ok_or_else(|| invalid(format!("no {what}")))
}
