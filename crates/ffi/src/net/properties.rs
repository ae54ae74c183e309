//! What a plugin says of a device, whichever version of the table it says it by.
//! Not whether it is true.

use std::ffi::c_int;

use nccl_plugin_abi::net::{
    PropertiesV8, PropertiesV9, PropertiesV11, PropertiesV12, UNDEFINED, VirtualDevice,
};

use crate::library::text;

/// A device.
#[derive(Debug, Clone, PartialEq)]
pub struct Properties {
    /// Its name.
    pub name: String,
    /// Where it is in /sys; empty where it is nowhere.
    pub pci_path: String,
    /// The same for all ports of a chip.
    pub guid: u64,
    /// `PTR_*` bits.
    pub ptr_support: c_int,
    /// Whether a registration serves all connections.
    pub reg_is_global: bool,
    /// Mb/s.
    pub speed: c_int,
    /// Number of the port.
    pub port: c_int,
    /// Microseconds.
    pub latency: f32,
    /// Connections at most.
    pub max_comms: c_int,
    /// Receives of one request at most.
    pub max_recvs: c_int,
    /// Kind of offload; 0 is the host.
    pub device_type: c_int,
    /// Whether receives are to be flushed, whatever the GPU is (v9 on).
    pub force_flush: Option<bool>,
    /// What it consists of (v9 on).
    pub parts: Vec<c_int>,
    /// Bytes of a message between two ranks at most (v9 on).
    pub max_p2p_bytes: Option<usize>,
    /// Bytes of a message of a collective at most (v9 on).
    pub max_coll_bytes: Option<usize>,
    /// Rail and plane (v12), where it says so.
    pub rail_and_plane: Option<(i16, i16)>,
}

/// Of a table's own form.
pub(super) trait Told {
    /// In ours.
    ///
    /// # Safety
    /// Its texts are null, or end with a zero.
    unsafe fn told(&self) -> Properties;
}

impl Told for PropertiesV8 {
    unsafe fn told(&self) -> Properties {
        Properties {
            // SAFETY: the plugin's texts.
            name: unsafe { text(self.name) },
            // SAFETY: as above.
            pci_path: unsafe { text(self.pci_path) },
            guid: self.guid,
            ptr_support: self.ptr_support,
            reg_is_global: self.reg_is_global != 0,
            speed: self.speed,
            port: self.port,
            latency: self.latency,
            max_comms: self.max_comms,
            max_recvs: self.max_recvs,
            device_type: self.device_type,
            force_flush: None,
            parts: Vec::new(),
            max_p2p_bytes: None,
            max_coll_bytes: None,
            rail_and_plane: None,
        }
    }
}

impl Told for PropertiesV9 {
    unsafe fn told(&self) -> Properties {
        Properties {
            // SAFETY: the plugin's texts.
            name: unsafe { text(self.name) },
            // SAFETY: as above.
            pci_path: unsafe { text(self.pci_path) },
            guid: self.guid,
            ptr_support: self.ptr_support,
            reg_is_global: self.reg_is_global != 0,
            speed: self.speed,
            port: self.port,
            latency: self.latency,
            max_comms: self.max_comms,
            max_recvs: self.max_recvs,
            device_type: self.device_type,
            force_flush: Some(self.force_flush != 0),
            parts: parts(&self.virtual_device),
            max_p2p_bytes: Some(self.max_p2p_bytes),
            max_coll_bytes: Some(self.max_coll_bytes),
            rail_and_plane: None,
        }
    }
}

impl Told for PropertiesV11 {
    unsafe fn told(&self) -> Properties {
        // SAFETY: the same texts.
        unsafe { self.v9.told() }
    }
}

impl Told for PropertiesV12 {
    unsafe fn told(&self) -> Properties {
        let known = |number: i16| c_int::from(number) != UNDEFINED;
        Properties {
            // SAFETY: the plugin's texts.
            name: unsafe { text(self.name) },
            // SAFETY: as above.
            pci_path: unsafe { text(self.pci_path) },
            guid: self.guid,
            ptr_support: self.ptr_support,
            reg_is_global: self.reg_is_global != 0,
            speed: self.speed,
            port: self.port,
            latency: self.latency,
            max_comms: self.max_comms,
            max_recvs: self.max_recvs,
            device_type: self.device_type,
            force_flush: Some(self.force_flush != 0),
            parts: parts(&self.virtual_device),
            max_p2p_bytes: Some(self.max_p2p_bytes),
            max_coll_bytes: Some(self.max_coll_bytes),
            rail_and_plane: (known(self.rail) || known(self.plane))
                .then_some((self.rail, self.plane)),
        }
    }
}

/// Those that it says it has, as far as there is room.
fn parts<const N: usize>(device: &VirtualDevice<N>) -> Vec<c_int> {
    let count = usize::try_from(device.count).unwrap_or(0).min(N);
    device.devices[..count].to_vec()
}
