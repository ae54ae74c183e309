//! `GPU Direct RDMA Disabled for GPU 81000 / HCA 0 (distance 6 > 4)`: how far a NIC is from a GPU, and how far it may be.
//! Not whether a NIC can do it at all (`network::GpuDirect`).
//!
//! NCCL's src/graph/paths.cc, `ncclTopoCheckGdr`.

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::tally::keep;

/// What NCCL decided for a GPU and a NIC.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GdrDistance {
    /// The GPU's bus number.
    pub gpu: String,
    /// The NIC's number.
    pub device: String,
    /// Whether it is near enough.
    pub enabled: bool,
    /// The length of the path between them, a number of `path_word`.
    pub distance: u32,
    /// The longest that is allowed (NCCL_NET_GDR_LEVEL).
    pub allowed: u32,
}

impl GdrDistance {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(mut at: Cursor<'_>) -> Option<GdrDistance> {
        at.literal("GPU Direct RDMA ")?;
        let enabled = at.one_of(&["Enabled", "Disabled"])? == "Enabled";
        at.literal(" for GPU ")?;
        let gpu = keep(at.until(" / HCA ")?);
        let device = keep(at.until(" (distance ")?);
        let distance = at.number()?;
        at.one_of(&[" <= ", " > "])?;
        let allowed = at.number()?;
        at.literal(")")?;
        Some(GdrDistance { gpu, device, enabled, distance, allowed })
    }
}

/// NCCL's word for the length of a path in a release (`ncclGetVersion`'s code); none before 2.12, and of a number that it
/// does not have. The numbers are those of its src/graph/topo.h, `PATH_*`, which releases renumber.
pub fn path_word(code: u32, length: u32) -> Option<&'static str> {
    let words: &[&str] = match code {
        22_707.. => {
            &["LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"]
        }
        22_703.. => {
            &["LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "P2C", "PHB", "SYS", "NET", "DIS"]
        }
        22_600.. => &["LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS"],
        21_200.. => &["LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS"],
        _ => &[],
    };
    words.get(length as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_decisions() {
        let read = |text| GdrDistance::read(Cursor::new(text, false));
        let near = read("GPU Direct RDMA Enabled for GPU 81000 / HCA 0 (distance 6 <= 7), read 0");
        assert!(near.is_some_and(|near| near.enabled && near.allowed == 7));
        let far = read("GPU Direct RDMA Disabled for GPU 81000 / HCA 0 (distance 6 > 4)").unwrap();
        assert_eq!((far.gpu.as_str(), far.device.as_str(), far.enabled), ("81000", "0", false));
        let word = |length| path_word(21_605, length);
        assert_eq!([word(far.distance), word(far.allowed)], [Some("PHB"), Some("PXB")]);
        for text in [
            "GPU Direct RDMA Disabled for GPU 81000",
            "GPU Direct RDMA Maybe for GPU 1 / HCA 0 (distance 1 > 0)",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn releases_number_paths_otherwise() {
        for (code, length, word) in [
            (22_707, 8, Some("PHB")),
            (22_703, 8, Some("PHB")),
            (22_703, 7, Some("P2C")),
            (22_602, 7, Some("PHB")),
            (21_200, 6, Some("PHB")),
            (2_804, 6, None),
            (22_809, 12, None),
        ] {
            assert_eq!(path_word(code, length), word, "{code} {length}");
        }
    }
}
