//! NVLink beyond peer access: multicast (NVLS) within a switch, and fabrics that span hosts.
//! Not whether a collective used them; a TUNING line says that.

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::tally::{Tally, keep};

/// The most distinct fabrics that are kept.
const MAX_FABRICS: usize = 256;

/// NVLink SHARP: multicast and reduction in the NVSwitch. All figures are messages, one of each
/// rank and communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Nvls {
    /// `NVLS multicast support is available`.
    pub available: u64,
    /// `… is not available`.
    pub unavailable: u64,
    /// Communicators' ranks that set buffers up (`NVLS comm …`).
    pub buffers: u64,
    /// Multicast groups that were created.
    pub groups: u64,
}

/// A fabric of NVLink, as a GPU reports it (`MNNVL busId …`, 2.20 on). A UUID of 0.0: none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fabric {
    /// Cluster's UUID, hexadecimal.
    pub uuid: String,
    /// Clique: GPUs of one clique reach each other.
    pub clique: String,
    /// nvmlGpuFabricInfo's state: 3 is completed.
    pub state: u32,
    /// nvmlGpuFabricInfo's health mask, hexadecimal.
    pub health_mask: String,
    /// Whether the mask says that the fabric's bandwidth is degraded; from 2.32 on, and only where it says so or denies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<bool>,
}

/// What has been read so far.
#[derive(Debug)]
pub(super) struct NvLink {
    pub nvls: Nvls,
    pub fabrics: Tally<Fabric>,
}

impl Default for NvLink {
    fn default() -> Self {
        NvLink { nvls: Nvls::default(), fabrics: Tally::new(MAX_FABRICS) }
    }
}

impl NvLink {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(&mut self, mut at: Cursor<'_>) -> Option<()> {
        if at.has("NVLS ") {
            let count =
                match at.one_of(&["multicast support is ", "comm ", "Created Multicast group "])? {
                    "comm " => {
                        at.hex()?;
                        at.field(" headRank ")?;
                        &mut self.nvls.buffers
                    }
                    "Created Multicast group " => &mut self.nvls.groups,
                    _ if at.has("not available on dev ") => &mut self.nvls.unavailable,
                    _ if at.has("available on dev ") => &mut self.nvls.available,
                    _ => return None,
                };
            *count += 1;
            return Some(());
        }
        at.literal("MNNVL busId ")?;
        at.hex()?;
        at.literal(" fabric UUID ")?;
        let uuid = keep(at.until(" cliqueId ")?);
        let clique = keep(at.hex()?);
        let state = at.field(" state ")?;
        at.literal(" healthMask ")?;
        let health_mask = keep(at.hex()?);
        let mut degraded = None;
        if at.has(" degradedBw ") {
            degraded = match at.word()? {
                "TRUE" => Some(true),
                "FALSE" => Some(false),
                // `<unsupported>`, `<unknown>`.
                _ => None,
            };
        }
        at.end()?;
        self.fabrics.add(Fabric { uuid, clique, state, health_mask, degraded });
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multicast_and_fabrics() {
        let mut nvlink = NvLink::default();
        for text in [
            "NVLS multicast support is available on dev 0",
            "NVLS multicast support is not available on dev 1",
            "NVLS multicast support is not available on dev 1 (NVLS_NCHANNELS 0)",
            "NVLS comm 0x558ed3265fa0 headRank 0 nHeads 8 buffSize 4194304 memSize 2097152",
            "NVLS multicast support is available on dev 0, transport enabled, symmetric multimem disabled",
            "MNNVL busId 0x901000 fabric UUID 7.9 cliqueId 0x1 state 3 healthMask 0xa9 degradedBw TRUE",
            "NVLS Created Multicast group 0x5 nranks 8 size 2097152 on rank 0",
            "MNNVL busId 0x90 fabric UUID 0.0 cliqueId 0x0 state 3 healthMask 0x0",
            "MNNVL busId 0xa0 fabric UUID 0.0 cliqueId 0x0 state 3 healthMask 0x0",
            "MNNVL busId 0x801000 fabric UUID a44167d15423d758.7d6b24c07d32e7b3 cliqueId 0x2786 state 3 healthMask 0xaa",
        ] {
            assert!(nvlink.read(Cursor::new(text, false)).is_some(), "{text}");
        }
        for text in [
            "NVLS Head  2:  2 10",
            "MNNVL 1 cliqueId 2786 cliqueSize 4 cliqueRank 0",
            "NVLS multicast support is",
        ] {
            assert_eq!(nvlink.read(Cursor::new(text, false)), None, "{text}");
        }
        assert_eq!(nvlink.nvls, Nvls { available: 2, unavailable: 2, buffers: 1, groups: 1 });
        let fabrics: Vec<_> = nvlink.fabrics.finish(&mut 0).into_iter().collect();
        assert_eq!(fabrics.len(), 3);
        assert_eq!(
            fabrics.iter().map(|f| f.0.degraded).collect::<Vec<_>>(),
            [None, Some(true), None]
        );
        assert_eq!((fabrics[0].0.uuid.as_str(), fabrics[0].1), ("0.0", 2));
        assert_eq!(
            (fabrics[2].0.clique.as_str(), fabrics[2].0.health_mask.as_str()),
            ("0x2786", "0xaa")
        );
    }
}
