//! A device's properties in each version's layout.
//! Not finding them out (`devices`).

use std::ffi::{c_char, c_int};

use nccl_plugin_abi::net::{
    DEVICE_HOST, PropertiesV8, PropertiesV9, PropertiesV11, PropertiesV12, UNDEFINED, VirtualDevice,
};

use crate::devices::Device;

/// Bytes of a message at most: `test` returns them as an int.
const MAX_BYTES: usize = 1 << 30;
/// Connections at most, as NCCL's own sockets say (src/transport/net_socket.cc).
const MAX_CONNECTIONS: c_int = 65536;

fn path(device: &Device) -> *mut c_char {
    // NCCL only reads it.
    device.path.as_ref().map_or(std::ptr::null_mut(), |path| path.as_ptr().cast_mut())
}

/// A version's properties of a device; the strings live as long as the device.
pub(super) trait Properties {
    /// Of device `number`.
    fn of(device: &Device, number: c_int) -> Self;
}

impl Properties for PropertiesV8 {
    fn of(device: &Device, _: c_int) -> PropertiesV8 {
        PropertiesV8 {
            name: device.name.as_ptr().cast_mut(),
            pci_path: path(device),
            guid: device.guid,
            ptr_support: device.kinds,
            reg_is_global: 0,
            speed: device.speed,
            port: device.port,
            latency: 0.0,
            max_comms: MAX_CONNECTIONS,
            max_recvs: 1,
            device_type: DEVICE_HOST,
            device_version: 0,
        }
    }
}

impl Properties for PropertiesV9 {
    fn of(device: &Device, number: c_int) -> PropertiesV9 {
        let v8 = PropertiesV8::of(device, number);
        PropertiesV9 {
            name: v8.name,
            pci_path: v8.pci_path,
            guid: v8.guid,
            ptr_support: v8.ptr_support,
            reg_is_global: v8.reg_is_global,
            force_flush: 0,
            speed: v8.speed,
            port: v8.port,
            latency: v8.latency,
            max_comms: v8.max_comms,
            max_recvs: v8.max_recvs,
            device_type: v8.device_type,
            device_version: v8.device_version,
            virtual_device: parts(device, number),
            max_p2p_bytes: MAX_BYTES,
            max_coll_bytes: MAX_BYTES,
        }
    }
}

impl Properties for PropertiesV11 {
    fn of(device: &Device, number: c_int) -> PropertiesV11 {
        PropertiesV11 { v9: PropertiesV9::of(device, number), max_multi_request: 1 }
    }
}

impl Properties for PropertiesV12 {
    fn of(device: &Device, number: c_int) -> PropertiesV12 {
        let v9 = PropertiesV9::of(device, number);
        PropertiesV12 {
            name: v9.name,
            pci_path: v9.pci_path,
            guid: v9.guid,
            ptr_support: v9.ptr_support,
            reg_is_global: v9.reg_is_global,
            force_flush: v9.force_flush,
            speed: v9.speed,
            port: v9.port,
            latency: v9.latency,
            max_comms: v9.max_comms,
            max_recvs: v9.max_recvs,
            device_type: v9.device_type,
            device_version: v9.device_version,
            virtual_device: parts(device, number),
            max_p2p_bytes: v9.max_p2p_bytes,
            max_coll_bytes: v9.max_coll_bytes,
            max_multi_request: 1,
            rail: UNDEFINED as i16,
            plane: UNDEFINED as i16,
        }
    }
}

/// What a device consists of: itself, or those that it was made of.
fn parts<const N: usize>(device: &Device, number: c_int) -> VirtualDevice<N> {
    let itself = [number];
    let parts = if device.parts.is_empty() { &itself[..] } else { &device.parts };
    let mut devices = [0; N];
    let count = parts.len().min(N);
    devices[..count].copy_from_slice(&parts[..count]);
    VirtualDevice { count: count as c_int, devices }
}
