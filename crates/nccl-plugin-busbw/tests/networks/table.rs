//! The exported tables, v8 to v12, called as NCCL calls them, behind one type.
//! Not what a network must do (`cases`).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    ffi::{CStr, c_char, c_int, c_ulong, c_void},
    ptr::null_mut,
    time::{Duration, Instant},
};

use nccl_plugin_abi::{
    Logger, Status, level,
    net::{NetV8, NetV9, NetV10, NetV11, NetV12, PTR_HOST},
};
use nccl_plugin_busbw::exported;

pub type Handle = [u8; 128];

/// A handle as a word, for another process.
pub fn hex(handle: &Handle) -> String {
    handle.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The handle again.
pub fn unhex(word: &str) -> Handle {
    std::array::from_fn(|at| u8::from_str_radix(&word[2 * at..2 * at + 2], 16).unwrap())
}

/// A connection or a request, as NCCL holds it.
pub type Pointer = *mut c_void;
pub type Outcome<T> = Result<T, Status>;

/// One version's table.
#[derive(Clone, Copy)]
pub enum Table {
    V8(&'static NetV8),
    V9(&'static NetV9),
    V10(&'static NetV10),
    V11(&'static NetV11),
    V12(&'static NetV12),
}

pub fn tables() -> [Table; 5] {
    [
        Table::V8(&exported::ncclNetPlugin_v8.0),
        Table::V9(&exported::ncclNetPlugin_v9.0),
        Table::V10(&exported::ncclNetPlugin_v10.0),
        Table::V11(&exported::ncclNetPlugin_v11.0),
        Table::V12(&exported::ncclNetPlugin_v12.0),
    ]
}

/// What a device says of itself, as far as all versions do.
#[derive(Debug)]
pub struct Device {
    pub name: String,
    pub speed: c_int,
    pub max_receives: c_int,
    pub kinds: c_int,
}

/// The same with each version's table.
macro_rules! each {
    ($table:expr, $net:ident => $act:expr) => {
        match $table {
            Table::V8($net) => $act,
            Table::V9($net) => $act,
            Table::V10($net) => $act,
            Table::V11($net) => $act,
            Table::V12($net) => $act,
        }
    };
}

fn done(status: Status) -> Outcome<()> {
    if status == Status::SUCCESS { Ok(()) } else { Err(status) }
}

/// As NCCL: with NCCL_DEBUG=WARN its warnings, with INFO all of it; to stderr.
extern "C" fn log(
    how: c_int,
    _: c_ulong,
    _: *const c_char,
    _: c_int,
    _: *const c_char,
    text: *const c_char,
) {
    let asked = std::env::var("NCCL_DEBUG").unwrap_or_default();
    if asked == "INFO" || asked == "WARN" && how == level::WARN {
        // SAFETY: the plugin's format is "%s", with one string that ends with a zero.
        let text = unsafe { CStr::from_ptr(text) };
        eprintln!("{}", text.to_string_lossy());
    }
}

fn logger() -> Option<Logger> {
    type Fixed = extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, *const c_char);
    // SAFETY: a caller of printf's kind passes these six as any function gets them, on x86-64 and on aarch64.
    Some(unsafe { std::mem::transmute::<Fixed, Logger>(log) })
}

impl Table {
    /// What NCCL's log calls the network.
    #[allow(dead_code, reason = "not every test that has this file asks for it")]
    pub fn name(self) -> String {
        // SAFETY: a string that ends with a zero.
        let name = unsafe { CStr::from_ptr(each!(self, net => net.name)) };
        name.to_string_lossy().into_owned()
    }

    pub fn version(self) -> &'static str {
        match self {
            Table::V8(_) => "v8",
            Table::V9(_) => "v9",
            Table::V10(_) => "v10",
            Table::V11(_) => "v11",
            Table::V12(_) => "v12",
        }
    }

    pub fn init(self) -> Outcome<()> {
        let mut context = null_mut();
        // SAFETY: as NCCL calls it.
        done(unsafe {
            match self {
                Table::V8(net) => net.init.unwrap()(logger()),
                Table::V9(net) => net.init.unwrap()(logger()),
                Table::V10(net) => net.init.unwrap()(logger(), None),
                Table::V11(net) => net.init.unwrap()(&mut context, 1, null_mut(), logger(), None),
                Table::V12(net) => net.init.unwrap()(&mut context, 1, null_mut(), logger(), None),
            }
        })
    }

    pub fn devices(self) -> Outcome<c_int> {
        let mut count = -1;
        // SAFETY: as NCCL calls it.
        done(unsafe { each!(self, net => net.devices.unwrap()(&mut count)) })?;
        Ok(count)
    }

    pub fn device(self, number: c_int) -> Outcome<Device> {
        /// # Safety
        /// The name is a string.
        unsafe fn device(
            name: *const c_char,
            speed: c_int,
            max_receives: c_int,
            kinds: c_int,
        ) -> Device {
            // SAFETY: as the caller says.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
            Device { name, speed, max_receives, kinds }
        }
        // SAFETY: as NCCL calls it; properties are plain data.
        unsafe {
            match self {
                Table::V11(net) => {
                    let mut told = std::mem::zeroed();
                    done(net.get_properties.unwrap()(number, &mut told))?;
                    let told = told.v9;
                    Ok(device(told.name, told.speed, told.max_recvs, told.ptr_support))
                }
                Table::V8(net) => {
                    let mut told = std::mem::zeroed();
                    done(net.get_properties.unwrap()(number, &mut told))?;
                    Ok(device(told.name, told.speed, told.max_recvs, told.ptr_support))
                }
                Table::V9(net) => {
                    let mut told = std::mem::zeroed();
                    done(net.get_properties.unwrap()(number, &mut told))?;
                    Ok(device(told.name, told.speed, told.max_recvs, told.ptr_support))
                }
                Table::V10(net) => {
                    let mut told = std::mem::zeroed();
                    done(net.get_properties.unwrap()(number, &mut told))?;
                    Ok(device(told.name, told.speed, told.max_recvs, told.ptr_support))
                }
                Table::V12(net) => {
                    let mut told = std::mem::zeroed();
                    done(net.get_properties.unwrap()(number, &mut told))?;
                    Ok(device(told.name, told.speed, told.max_recvs, told.ptr_support))
                }
            }
        }
    }

    pub fn listen(self, device: c_int) -> Outcome<(Handle, Pointer)> {
        let (mut handle, mut listener): (Handle, Pointer) = ([0; 128], null_mut());
        let place = handle.as_mut_ptr().cast();
        // SAFETY: as NCCL calls it.
        done(unsafe {
            match self {
                Table::V8(net) => net.listen.unwrap()(device, place, &mut listener),
                Table::V9(net) => net.listen.unwrap()(device, place, &mut listener),
                Table::V10(net) => net.listen.unwrap()(device, place, &mut listener),
                Table::V11(net) => net.listen.unwrap()(null_mut(), device, place, &mut listener),
                Table::V12(net) => net.listen.unwrap()(null_mut(), device, place, &mut listener),
            }
        })?;
        Ok((handle, listener))
    }

    pub fn connect(self, device: c_int, handle: &mut Handle) -> Outcome<Option<Pointer>> {
        let (mut made, mut offload) = (null_mut(), null_mut());
        let place = handle.as_mut_ptr().cast();
        // SAFETY: as NCCL calls it.
        done(unsafe {
            match self {
                Table::V8(net) => net.connect.unwrap()(device, place, &mut made, &mut offload),
                Table::V9(net) => net.connect.unwrap()(device, place, &mut made, &mut offload),
                Table::V10(net) => {
                    net.connect.unwrap()(device, null_mut(), place, &mut made, &mut offload)
                }
                Table::V11(net) => {
                    net.connect.unwrap()(null_mut(), device, place, &mut made, &mut offload)
                }
                Table::V12(net) => {
                    net.connect.unwrap()(null_mut(), device, place, &mut made, &mut offload)
                }
            }
        })?;
        Ok((!made.is_null()).then_some(made))
    }

    pub fn accept(self, listener: Pointer) -> Outcome<Option<Pointer>> {
        let (mut made, mut offload) = (null_mut(), null_mut());
        // SAFETY: as NCCL calls it.
        done(unsafe {
            each!(self, net => net.accept.unwrap()(listener, &mut made, &mut offload))
        })?;
        Ok((!made.is_null()).then_some(made))
    }

    /// Both ends of a connection, made by turns, as NCCL's proxy does.
    pub fn pair(self) -> Outcome<(Pointer, Pointer)> {
        let (mut handle, listener) = self.listen(0)?;
        let until = Instant::now() + Duration::from_secs(20);
        let (mut sends, mut receives) = (None, None);
        while sends.is_none() || receives.is_none() {
            assert!(Instant::now() < until, "no connection after 20 s");
            if sends.is_none() {
                sends = self.connect(0, &mut handle)?;
            }
            if receives.is_none() {
                receives = self.accept(listener)?;
            }
            std::thread::yield_now();
        }
        self.close_listen(listener)?;
        Ok((sends.unwrap(), receives.unwrap()))
    }

    pub fn register(self, connection: Pointer, data: &mut [u8]) -> Outcome<Pointer> {
        let mut registered = null_mut();
        let (place, bytes) = (data.as_mut_ptr().cast(), data.len());
        // SAFETY: as NCCL calls it.
        done(unsafe {
            each!(self, net => net.reg_mr.unwrap()(connection, place, bytes, PTR_HOST, &mut registered))
        })?;
        Ok(registered)
    }

    /// # Safety
    /// The memory stays until the request is done or the connection closed.
    pub unsafe fn send(
        self,
        connection: Pointer,
        data: *const u8,
        bytes: usize,
    ) -> Outcome<Option<Pointer>> {
        let (data, mut request) = (data.cast_mut().cast(), null_mut());
        let none = null_mut();
        // SAFETY: as NCCL calls it.
        done(unsafe {
            match self {
                Table::V8(net) => {
                    net.isend.unwrap()(connection, data, bytes as c_int, 0, none, &mut request)
                }
                Table::V9(net) => {
                    net.isend.unwrap()(connection, data, bytes, 0, none, &mut request)
                }
                Table::V10(net) => {
                    net.isend.unwrap()(connection, data, bytes, 0, none, none, &mut request)
                }
                Table::V11(net) => {
                    net.isend.unwrap()(connection, data, bytes, 0, none, none, &mut request)
                }
                Table::V12(net) => {
                    net.isend.unwrap()(connection, data, bytes, 0, none, none, &mut request)
                }
            }
        })?;
        Ok((!request.is_null()).then_some(request))
    }

    /// # Safety
    /// The memory stays until the request is done or the connection closed.
    pub unsafe fn receive(
        self,
        connection: Pointer,
        data: *mut u8,
        bytes: usize,
    ) -> Outcome<Option<Pointer>> {
        let (mut places, mut request): ([Pointer; 1], Pointer) = ([data.cast()], null_mut());
        let (mut sizes, mut ints, mut tags) = ([bytes], [bytes as c_int], [0]);
        let (mut none, mut more) = ([null_mut()], [null_mut()]);
        let (places, sizes, tags) = (places.as_mut_ptr(), sizes.as_mut_ptr(), tags.as_mut_ptr());
        let (none, more) = (none.as_mut_ptr(), more.as_mut_ptr());
        // SAFETY: as NCCL calls it.
        done(unsafe {
            match self {
                Table::V8(net) => {
                    let ints = ints.as_mut_ptr();
                    net.irecv.unwrap()(connection, 1, places, ints, tags, none, &mut request)
                }
                Table::V9(net) => {
                    net.irecv.unwrap()(connection, 1, places, sizes, tags, none, &mut request)
                }
                Table::V10(net) => {
                    net.irecv.unwrap()(connection, 1, places, sizes, tags, none, more, &mut request)
                }
                Table::V11(net) => {
                    net.irecv.unwrap()(connection, 1, places, sizes, tags, none, more, &mut request)
                }
                Table::V12(net) => {
                    net.irecv.unwrap()(connection, 1, places, sizes, tags, none, more, &mut request)
                }
            }
        })?;
        Ok((!request.is_null()).then_some(request))
    }

    /// Bytes of a request that is done.
    pub fn test(self, request: Pointer) -> Outcome<Option<usize>> {
        let (mut is_done, mut bytes) = (-1, -1);
        // SAFETY: as NCCL calls it.
        done(unsafe { each!(self, net => net.test.unwrap()(request, &mut is_done, &mut bytes)) })?;
        assert!(is_done == 0 || is_done == 1, "test says {is_done}");
        Ok((is_done == 1).then(|| usize::try_from(bytes).unwrap()))
    }

    pub fn close_send(self, connection: Pointer) -> Outcome<()> {
        // SAFETY: as NCCL calls it.
        done(unsafe { each!(self, net => net.close_send.unwrap()(connection)) })
    }

    pub fn close_receive(self, connection: Pointer) -> Outcome<()> {
        // SAFETY: as NCCL calls it.
        done(unsafe { each!(self, net => net.close_recv.unwrap()(connection)) })
    }

    pub fn close_listen(self, listener: Pointer) -> Outcome<()> {
        // SAFETY: as NCCL calls it.
        done(unsafe { each!(self, net => net.close_listen.unwrap()(listener)) })
    }
}
