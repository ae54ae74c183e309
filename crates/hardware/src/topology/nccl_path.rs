//! The path between two devices, in NCCL's words.
//! Not how it is found (`paths`).

use std::fmt;

use serde::{Deserialize, Serialize};

/// From near to far (NCCL 2.30.7, src/graph/topo.h, PATH_*; the order of 2.27.7 on).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum NcclPath {
    /// The device itself.
    Loc,
    /// NVLink, by NVSwitch or not; xGMI alike.
    Nvl,
    /// NVLink through another GPU.
    Nvb,
    /// NVLink to the processor.
    C2c,
    /// One PCIe switch.
    Pix,
    /// Several PCIe switches.
    Pxb,
    /// NVLink to the processor, then its PCIe.
    P2c,
    /// Another GPU's NIC, over NVLink.
    Pxn,
    /// The processor.
    Phb,
    /// Between processors.
    Sys,
    /// Between hosts.
    Net,
    /// None.
    Dis,
}

impl NcclPath {
    const ALL: [NcclPath; 12] = [
        NcclPath::Loc,
        NcclPath::Nvl,
        NcclPath::Nvb,
        NcclPath::C2c,
        NcclPath::Pix,
        NcclPath::Pxb,
        NcclPath::P2c,
        NcclPath::Pxn,
        NcclPath::Phb,
        NcclPath::Sys,
        NcclPath::Net,
        NcclPath::Dis,
    ];

    /// As NCCL prints it.
    const fn name(self) -> &'static str {
        match self {
            NcclPath::Loc => "LOC",
            NcclPath::Nvl => "NVL",
            NcclPath::Nvb => "NVB",
            NcclPath::C2c => "C2C",
            NcclPath::Pix => "PIX",
            NcclPath::Pxb => "PXB",
            NcclPath::P2c => "P2C",
            NcclPath::Pxn => "PXN",
            NcclPath::Phb => "PHB",
            NcclPath::Sys => "SYS",
            NcclPath::Net => "NET",
            NcclPath::Dis => "DIS",
        }
    }

    /// The path of a name in NCCL's log.
    pub fn from_name(name: &str) -> Option<NcclPath> {
        NcclPath::ALL.into_iter().find(|path| path.name() == name)
    }
}

impl fmt::Display for NcclPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
