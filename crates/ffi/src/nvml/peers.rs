//! The devices at the other ends of a GPU's NVLinks: GPUs, NVSwitches, processors.
//! Not whether links that are down should be up.

use nvml_wrapper::{
    Device, Nvml,
    error::{NvmlError, nvml_try},
};

use super::{
    Reading,
    gpu::{MAX_LINKS, sysfs_address},
};

/// The active NVLinks of one GPU, by the device at the other end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NvLinkPeers {
    /// NVLink generation as the driver counts it (nvml.h, nvmlNvlinkVersion_t).
    pub version: Option<u32>,
    /// One entry for each device at the other end.
    pub peers: Vec<NvLinkPeer>,
}

/// A device at the other end of NVLinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvLinkPeer {
    /// PCI address as sysfs writes it; in a virtual machine it matches no device.
    pub address: String,
    /// Its kind.
    pub kind: NvLinkPeerKind,
    /// Number of links to it.
    pub links: u32,
}

/// The kind of device at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NvLinkPeerKind {
    /// A GPU.
    Gpu,
    /// An NVSwitch.
    Switch,
    /// A processor.
    Processor,
    /// The driver does not say.
    Unknown,
}

/// Reads link by link; links that are down have no other end.
pub(super) fn read(nvml: &Nvml, device: &Device) -> Reading<NvLinkPeers> {
    let mut found = NvLinkPeers::default();
    for number in 0..MAX_LINKS {
        let link = device.link_wrapper_for(number);
        match link.is_active() {
            Ok(true) => {}
            Ok(false) => continue,
            // A GPU without NVLink reports that for its first link.
            Err(NvmlError::NotSupported | NvmlError::InvalidArg) => break,
            Err(why) => return Reading::Unknown(why.to_string()),
        }
        found.version = found.version.or(link.version().ok());
        let address = match link.remote_pci_info() {
            Ok(info) => sysfs_address(&info.bus_id),
            Err(why) => return Reading::Unknown(why.to_string()),
        };
        let kind = kind(nvml, device, number);
        match found.peers.iter_mut().find(|peer| peer.address == address && peer.kind == kind) {
            Some(peer) => peer.links += 1,
            None => found.peers.push(NvLinkPeer { address, kind, links: 1 }),
        }
    }
    if found.peers.is_empty() { Reading::Unsupported } else { Reading::Value(found) }
}

/// The wrapper crate's own function loses the result: it passes a copy for NVML to write to.
fn kind(nvml: &Nvml, device: &Device, link: u32) -> NvLinkPeerKind {
    let Ok(ask) = nvml.lib().nvmlDeviceGetNvLinkRemoteDeviceType.as_ref() else {
        return NvLinkPeerKind::Unknown;
    };
    let mut kind = u32::MAX;
    // SAFETY: the handle is valid while `device` borrows `nvml`, and `kind` is a writable integer of
    // the size of the enumeration.
    let status = unsafe { ask(device.handle(), link, &raw mut kind) };
    // nvml.h, nvmlIntNvLinkDeviceType_t.
    match (nvml_try(status), kind) {
        (Ok(()), 0) => NvLinkPeerKind::Gpu,
        (Ok(()), 1) => NvLinkPeerKind::Processor,
        (Ok(()), 2) => NvLinkPeerKind::Switch,
        _ => NvLinkPeerKind::Unknown,
    }
}
