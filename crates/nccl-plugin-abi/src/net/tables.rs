//! The tables themselves: what a plugin exports, in NCCL's order. Functions that a plugin leaves out are `None`.
//! Not calling them.

use std::ffi::c_char;

use super::{
    calls::{
        Accept, Close, ConnectV8, ConnectV10, ConnectV11, DeregMr, Devices, GetDeviceMr,
        GetProperties, Iflush, InitV8, InitV10, InitV11, IrecvConsumed, IrecvV8, IrecvV9, IrecvV10,
        IsendV8, IsendV9, IsendV10, ListenV8, ListenV11, MakeVirtual, RegMr, RegMrDmaBuf, SetHints,
        Test,
    },
    properties::{PropertiesV8, PropertiesV9, PropertiesV11, PropertiesV12},
};

/// ncclNet_v8_t (NCCL 2.20 to 2.23).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct NetV8 {
    /// Name of the network, ended by a zero.
    pub name: *const c_char,
    /// [`InitV8`].
    pub init: Option<InitV8>,
    /// [`Devices`].
    pub devices: Option<Devices>,
    /// [`GetProperties`].
    pub get_properties: Option<GetProperties<PropertiesV8>>,
    /// [`ListenV8`].
    pub listen: Option<ListenV8>,
    /// [`ConnectV8`].
    pub connect: Option<ConnectV8>,
    /// [`Accept`].
    pub accept: Option<Accept>,
    /// [`RegMr`].
    pub reg_mr: Option<RegMr>,
    /// [`RegMrDmaBuf`].
    pub reg_mr_dma_buf: Option<RegMrDmaBuf>,
    /// [`DeregMr`].
    pub dereg_mr: Option<DeregMr>,
    /// [`IsendV8`].
    pub isend: Option<IsendV8>,
    /// [`IrecvV8`].
    pub irecv: Option<IrecvV8>,
    /// [`Iflush`].
    pub iflush: Option<Iflush>,
    /// [`Test`].
    pub test: Option<Test>,
    /// Ends a connection that sends.
    pub close_send: Option<Close>,
    /// Ends a connection that receives.
    pub close_recv: Option<Close>,
    /// Ends a listener.
    pub close_listen: Option<Close>,
    /// [`GetDeviceMr`].
    pub get_device_mr: Option<GetDeviceMr>,
    /// [`IrecvConsumed`].
    pub irecv_consumed: Option<IrecvConsumed>,
}

/// ncclNet_v9_t (NCCL 2.24 and 2.25).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct NetV9 {
    /// Name of the network, ended by a zero.
    pub name: *const c_char,
    /// [`InitV8`].
    pub init: Option<InitV8>,
    /// [`Devices`].
    pub devices: Option<Devices>,
    /// [`GetProperties`].
    pub get_properties: Option<GetProperties<PropertiesV9>>,
    /// [`ListenV8`].
    pub listen: Option<ListenV8>,
    /// [`ConnectV8`].
    pub connect: Option<ConnectV8>,
    /// [`Accept`].
    pub accept: Option<Accept>,
    /// [`RegMr`].
    pub reg_mr: Option<RegMr>,
    /// [`RegMrDmaBuf`].
    pub reg_mr_dma_buf: Option<RegMrDmaBuf>,
    /// [`DeregMr`].
    pub dereg_mr: Option<DeregMr>,
    /// [`IsendV9`].
    pub isend: Option<IsendV9>,
    /// [`IrecvV9`].
    pub irecv: Option<IrecvV9>,
    /// [`Iflush`].
    pub iflush: Option<Iflush>,
    /// [`Test`].
    pub test: Option<Test>,
    /// Ends a connection that sends.
    pub close_send: Option<Close>,
    /// Ends a connection that receives.
    pub close_recv: Option<Close>,
    /// Ends a listener.
    pub close_listen: Option<Close>,
    /// [`GetDeviceMr`].
    pub get_device_mr: Option<GetDeviceMr>,
    /// [`IrecvConsumed`].
    pub irecv_consumed: Option<IrecvConsumed>,
    /// [`MakeVirtual`].
    pub make_virtual: Option<MakeVirtual<4>>,
}

/// ncclNet_v10_t (NCCL 2.26 and 2.27).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct NetV10 {
    /// Name of the network, ended by a zero.
    pub name: *const c_char,
    /// [`InitV10`].
    pub init: Option<InitV10>,
    /// [`Devices`].
    pub devices: Option<Devices>,
    /// [`GetProperties`].
    pub get_properties: Option<GetProperties<PropertiesV9>>,
    /// [`ListenV8`].
    pub listen: Option<ListenV8>,
    /// [`ConnectV10`].
    pub connect: Option<ConnectV10>,
    /// [`Accept`].
    pub accept: Option<Accept>,
    /// [`RegMr`].
    pub reg_mr: Option<RegMr>,
    /// [`RegMrDmaBuf`].
    pub reg_mr_dma_buf: Option<RegMrDmaBuf>,
    /// [`DeregMr`].
    pub dereg_mr: Option<DeregMr>,
    /// [`IsendV10`].
    pub isend: Option<IsendV10>,
    /// [`IrecvV10`].
    pub irecv: Option<IrecvV10>,
    /// [`Iflush`].
    pub iflush: Option<Iflush>,
    /// [`Test`].
    pub test: Option<Test>,
    /// Ends a connection that sends.
    pub close_send: Option<Close>,
    /// Ends a connection that receives.
    pub close_recv: Option<Close>,
    /// Ends a listener.
    pub close_listen: Option<Close>,
    /// [`GetDeviceMr`].
    pub get_device_mr: Option<GetDeviceMr>,
    /// [`IrecvConsumed`].
    pub irecv_consumed: Option<IrecvConsumed>,
    /// [`MakeVirtual`].
    pub make_virtual: Option<MakeVirtual<4>>,
}

/// ncclNet_v11_t (NCCL 2.28 and 2.29).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct NetV11 {
    /// Name of the network, ended by a zero.
    pub name: *const c_char,
    /// [`InitV11`].
    pub init: Option<InitV11>,
    /// [`Devices`].
    pub devices: Option<Devices>,
    /// [`GetProperties`].
    pub get_properties: Option<GetProperties<PropertiesV11>>,
    /// [`ListenV11`].
    pub listen: Option<ListenV11>,
    /// [`ConnectV11`].
    pub connect: Option<ConnectV11>,
    /// [`Accept`].
    pub accept: Option<Accept>,
    /// [`RegMr`].
    pub reg_mr: Option<RegMr>,
    /// [`RegMrDmaBuf`].
    pub reg_mr_dma_buf: Option<RegMrDmaBuf>,
    /// [`DeregMr`].
    pub dereg_mr: Option<DeregMr>,
    /// [`IsendV10`].
    pub isend: Option<IsendV10>,
    /// [`IrecvV10`].
    pub irecv: Option<IrecvV10>,
    /// [`Iflush`].
    pub iflush: Option<Iflush>,
    /// [`Test`].
    pub test: Option<Test>,
    /// Ends a connection that sends.
    pub close_send: Option<Close>,
    /// Ends a connection that receives.
    pub close_recv: Option<Close>,
    /// Ends a listener.
    pub close_listen: Option<Close>,
    /// [`GetDeviceMr`].
    pub get_device_mr: Option<GetDeviceMr>,
    /// [`IrecvConsumed`].
    pub irecv_consumed: Option<IrecvConsumed>,
    /// [`MakeVirtual`].
    pub make_virtual: Option<MakeVirtual<4>>,
    /// Ends a context.
    pub finalize: Option<Close>,
    /// [`SetHints`].
    pub set_hints: Option<SetHints>,
}

/// ncclNet_v12_t (NCCL 2.30).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct NetV12 {
    /// Name of the network, ended by a zero.
    pub name: *const c_char,
    /// [`InitV11`].
    pub init: Option<InitV11>,
    /// [`Devices`].
    pub devices: Option<Devices>,
    /// [`GetProperties`].
    pub get_properties: Option<GetProperties<PropertiesV12>>,
    /// [`ListenV11`].
    pub listen: Option<ListenV11>,
    /// [`ConnectV11`].
    pub connect: Option<ConnectV11>,
    /// [`Accept`].
    pub accept: Option<Accept>,
    /// [`RegMr`].
    pub reg_mr: Option<RegMr>,
    /// [`RegMrDmaBuf`].
    pub reg_mr_dma_buf: Option<RegMrDmaBuf>,
    /// [`DeregMr`].
    pub dereg_mr: Option<DeregMr>,
    /// [`IsendV10`].
    pub isend: Option<IsendV10>,
    /// [`IrecvV10`].
    pub irecv: Option<IrecvV10>,
    /// [`Iflush`].
    pub iflush: Option<Iflush>,
    /// [`Test`].
    pub test: Option<Test>,
    /// Ends a connection that sends.
    pub close_send: Option<Close>,
    /// Ends a connection that receives.
    pub close_recv: Option<Close>,
    /// Ends a listener.
    pub close_listen: Option<Close>,
    /// [`GetDeviceMr`].
    pub get_device_mr: Option<GetDeviceMr>,
    /// [`IrecvConsumed`].
    pub irecv_consumed: Option<IrecvConsumed>,
    /// [`MakeVirtual`].
    pub make_virtual: Option<MakeVirtual<8>>,
    /// Ends a context.
    pub finalize: Option<Close>,
    /// [`SetHints`].
    pub set_hints: Option<SetHints>,
}
