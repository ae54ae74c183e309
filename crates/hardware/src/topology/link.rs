//! A PCIe link as files and the kernel report it; parts may be missing.
//! Not its rates (`machine::pcie`), and no judgement.

use serde::{Deserialize, Serialize};

use crate::machine::PcieLink;

/// Generation and lanes, as far as they are reported: a virtual machine reports a speed without lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PcieReading {
    /// 1 to 6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u8>,
    /// Lanes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u8>,
}

impl PcieReading {
    /// "32.0 GT/s PCIe" or "8 GT/s", and "16": the words of the kernel and of NCCL's files. Nothing for
    /// "Unknown", for speeds that no link has, and for the 0 or 255 lanes of a virtual machine.
    pub fn parse(speed: Option<&str>, width: Option<&str>) -> PcieReading {
        let speed = speed.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
        let width = width.and_then(|text| text.trim().parse().ok());
        PcieReading {
            generation: speed.and_then(PcieLink::generation_of),
            width: width.filter(|width| PcieLink::new(1, *width).is_some()),
        }
    }

    /// The link, where both parts are known.
    pub fn link(&self) -> Option<PcieLink> {
        PcieLink::new(self.generation?, self.width?)
    }

    /// Rate that NCCL assumes for such a link, GB/s: with 16 lanes where there are 0, and generation 3 where the
    /// speed is unknown (NCCL 2.30.7, src/graph/topo.cc, kvDictPciGen, ncclTopoAddPci).
    pub fn nccl(&self) -> f64 {
        let taken = PcieLink::new(self.generation.unwrap_or(3), self.width.unwrap_or(16));
        taken.map_or(0.0, |link| link.nccl())
    }
}

impl From<PcieLink> for PcieReading {
    fn from(link: PcieLink) -> PcieReading {
        PcieReading { generation: Some(link.generation), width: Some(link.width) }
    }
}

impl std::fmt::Display for PcieReading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.generation, self.width) {
            (Some(generation), Some(width)) => write!(f, "PCIe {generation}.0 x{width}"),
            (Some(generation), None) => write!(f, "PCIe {generation}.0 x?"),
            (None, Some(width)) => write!(f, "PCIe ? x{width}"),
            (None, None) => f.write_str("PCIe ?"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(speed: &str, width: &str) -> PcieReading {
        PcieReading::parse(Some(speed), Some(width))
    }

    #[test]
    fn links_as_the_kernel_writes_them() {
        assert_eq!(of("32.0 GT/s PCIe", "16").to_string(), "PCIe 5.0 x16");
        assert_eq!(of("8 GT/s", "8").to_string(), "PCIe 3.0 x8");
        assert_eq!(
            of("8 GT/s", "8").link().map(|link| format!("{:.2}", link.line())),
            Some("7.88".to_owned())
        );
        for (speed, width) in [("Unknown", "16"), ("32.0 GT/s PCIe", "0"), ("32.0 GT/s", "255")] {
            assert_eq!(of(speed, width).link(), None);
        }
        assert_eq!(of("32.0 GT/s PCIe", "0").to_string(), "PCIe 5.0 x?");
    }

    #[test]
    fn as_nccl_counts() {
        for (speed, width, expected) in [
            ("8.0 GT/s PCIe", "8", 6.0),
            ("16 GT/s", "16", 24.0),
            // Virtual machines: 16 lanes, and generation 3.
            ("32.0 GT/s PCIe", "0", 48.0),
            ("", "0", 12.0),
        ] {
            assert_eq!(of(speed, width).nccl(), expected, "{speed} {width}");
        }
    }

    proptest! {
        #[test]
        fn any_text(speed in ".{0,12}", width in ".{0,6}") {
            if let Some(link) = of(&speed, &width).link() {
                prop_assert!(link.line() > 0.0 && link.width <= 32);
            }
        }
    }
}
