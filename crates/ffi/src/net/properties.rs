//! The properties that a plugin reports of a device, in any version of the table.
//! Not whether they are true.

use std::ffi::c_int;

use nccl_plugin_abi::net::{
    PropertiesV8, PropertiesV9, PropertiesV11, PropertiesV12, UNDEFINED, VirtualDevice,
};

use dynamic_library::text;

/// A device.
#[derive(Debug, Clone, PartialEq)]
pub struct Properties {
    /// Its name.
    pub name: String,
    /// Its path in /sys; empty where it has none.
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
    /// The most connections.
    pub max_comms: c_int,
    /// The most receives of one request.
    pub max_recvs: c_int,
    /// Kind of offload; 0 is the host.
    pub device_type: c_int,
    /// Whether receives must be flushed, for any GPU (v9 on).
    pub force_flush: Option<bool>,
    /// The physical devices that it combines (v9 on).
    pub parts: Vec<c_int>,
    /// The largest message between two ranks, in bytes (v9 on).
    pub max_p2p_bytes: Option<usize>,
    /// The largest message of a collective, in bytes (v9 on).
    pub max_coll_bytes: Option<usize>,
    /// Rail and plane (v12), if it has them.
    pub rail_and_plane: Option<(i16, i16)>,
}

/// The properties of one table version.
pub(super) trait ToProperties {
    /// Converts to the common form.
    ///
    /// # Safety
    /// Its texts are null, or end with a zero.
    unsafe fn to_properties(&self) -> Properties;
}

impl ToProperties for PropertiesV8 {
    unsafe fn to_properties(&self) -> Properties {
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

impl ToProperties for PropertiesV9 {
    unsafe fn to_properties(&self) -> Properties {
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

impl ToProperties for PropertiesV11 {
    unsafe fn to_properties(&self) -> Properties {
        // SAFETY: the same texts.
        unsafe { self.v9.to_properties() }
    }
}

impl ToProperties for PropertiesV12 {
    unsafe fn to_properties(&self) -> Properties {
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

/// The devices that it lists, at most as many as the table has room for.
fn parts<const N: usize>(device: &VirtualDevice<N>) -> Vec<c_int> {
    let count = usize::try_from(device.count).unwrap_or(0).min(N);
    device.devices[..count].to_vec()
}
