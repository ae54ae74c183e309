//! A PCI Express link: generation, width and the largest payload of its packets, as rates.
//! Not where the link is in a host (`topology`), and not what crosses it (`limits`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A PCIe link as it is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PcieLink {
    /// Generation, 1 to 6: 2.5, 5, 8, 16, 32, 64 GT/s a lane.
    pub generation: u8,
    /// Lanes.
    pub width: u8,
    /// Bytes of data in a packet at most (MaxPayload of DevCtl); unknown where it was not read.
    pub max_payload: Option<u16>,
}

/// Bytes that go with the data of a packet before generation 6: framing with sequence number 4,
/// header of four words 16, CRC 4 (PCI Express Base Specification 5.0, sections 2.2.1, 3.6.2 and
/// 4.2.2), and 2 for its share of the acknowledgements and credits that flow against it.
const PACKET_OVERHEAD_BYTES: f64 = 26.0;

/// Bytes of a packet's header and its address (four words), which generation 6 still has.
const FLIT_PACKET_HEADER_BYTES: f64 = 16.0;

/// Part of a generation 6 flit that holds packets: 236 bytes of 256 (Base Specification 6.0, 4.2.3).
const FLIT_SHARE: f64 = 236.0 / 256.0;

impl PcieLink {
    /// Generations that this program knows.
    pub const GENERATIONS: std::ops::RangeInclusive<u8> = 1..=6;

    /// A link; `None` for a generation that is not 1 to 6 or a width that PCIe does not have.
    pub fn new(generation: u8, width: u8) -> Option<PcieLink> {
        let known = PcieLink::GENERATIONS.contains(&generation)
            && matches!(width, 1 | 2 | 4 | 8 | 12 | 16 | 32);
        known.then_some(PcieLink { generation, width, max_payload: None })
    }

    /// A link that NCCL reckons with that many GB/s. Twice the lanes of the generation before are as fast, at NCCL's rates and
    /// within 2 % on the line: of these the widest is given, but none before generation 3 where there is a newer one.
    pub fn of_nccl(rate: f64) -> Option<PcieLink> {
        let widths = [16, 8, 4, 2, 1];
        let newer = widths.into_iter().flat_map(|width| (3..=6).map(move |of| (of, width)));
        let older = widths.into_iter().flat_map(|width| (1..=2).map(move |of| (of, width)));
        let mut links = newer.chain(older).filter_map(|(of, width)| PcieLink::new(of, width));
        // It prints one decimal.
        links.find(|link| (link.nccl() - rate).abs() < 0.051)
    }

    /// The generation of a lane's rate in GT/s, as sysfs and NCCL's files say it.
    pub fn generation_of(gigatransfers: f64) -> Option<u8> {
        [2.5, 5.0, 8.0, 16.0, 32.0, 64.0]
            .iter()
            .position(|known| (known - gigatransfers).abs() < 0.1)
            .map(|at| at as u8 + 1)
    }

    /// GT/s of a lane.
    pub fn gigatransfers(&self) -> f64 {
        match self.generation {
            0 | 1 => 2.5,
            2 => 5.0,
            3 => 8.0,
            4 => 16.0,
            5 => 32.0,
            _ => 64.0,
        }
    }

    /// GB/s of one direction, line rate: transfers less the line code (8b/10b until generation 2,
    /// 128b/130b until 5, none in 6, whose flits count as framing).
    pub fn line(&self) -> f64 {
        let code = match self.generation {
            0..=2 => 8.0 / 10.0,
            3..=5 => 128.0 / 130.0,
            _ => 1.0,
        };
        self.gigatransfers() * code * f64::from(self.width) / 8.0
    }

    /// GB/s of data in one direction in the largest packets; `None` where their size is not known.
    pub fn payload(&self) -> Option<f64> {
        let bytes = f64::from(self.max_payload?);
        let share = match self.generation {
            0..=5 => bytes / (bytes + PACKET_OVERHEAD_BYTES),
            _ => FLIT_SHARE * bytes / (bytes + FLIT_PACKET_HEADER_BYTES),
        };
        Some(self.line() * share)
    }

    /// GB/s that NCCL reckons with: 15, 30, 60, 120, 240 or 480 units of 100 Mb/s a lane over 80
    /// (src/graph/topo.cc, `kvDictPciGen`). An expectation, not a limit.
    pub fn nccl(&self) -> f64 {
        let lane = match self.generation {
            0 | 1 => 15.0,
            2 => 30.0,
            3 => 60.0,
            4 => 120.0,
            5 => 240.0,
            _ => 480.0,
        };
        f64::from(self.width) * lane / 80.0
    }
}

impl fmt::Display for PcieLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PCIe {}.0 x{}", self.generation, self.width)
    }
}

/// Why a text is no PCIe link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no PCIe link: write generation (1 to 6) and lanes (1 to 16), such as `5.0 x16`"
)]
pub struct BadPcieLink {
    /// What was there.
    pub text: String,
}

impl FromStr for PcieLink {
    type Err = BadPcieLink;

    /// `PCIe 5.0 x16`, `5.0 x16`, `gen5 x16`.
    fn from_str(text: &str) -> Result<PcieLink, BadPcieLink> {
        parse(text).ok_or_else(|| BadPcieLink { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<PcieLink> {
    let lower = text.trim().to_ascii_lowercase();
    let rest = lower.strip_prefix("pcie").unwrap_or(&lower).trim_start();
    let rest = rest.strip_prefix("gen").unwrap_or(rest).trim_start();
    let (generation, width) = rest.split_once('x')?;
    let generation = generation.trim();
    let generation = generation.strip_suffix(".0").unwrap_or(generation);
    PcieLink::new(generation.parse().ok()?, width.trim().parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// field-reports: PCIe 3.0 x8 is 7.88 GB/s, 0.908 of it at 256 bytes, and NCCL says 6.0.
    #[test]
    fn three_rates_of_a_link() {
        let narrow = PcieLink { max_payload: Some(256), ..PcieLink::new(3, 8).expect("a link") };
        assert!((narrow.line() - 7.877).abs() < 0.001);
        assert!((narrow.payload().expect("known") - 7.15).abs() < 0.01);
        assert_eq!(narrow.nccl(), 6.0);
        let rates: Vec<f64> = (1..=6)
            .map(|generation| PcieLink::new(generation, 16).expect("a link").gigatransfers())
            .collect();
        assert_eq!(rates, [2.5, 5.0, 8.0, 16.0, 32.0, 64.0]);
        assert_eq!(PcieLink::new(5, 16).expect("a link").nccl(), 48.0);
        assert_eq!(PcieLink::new(6, 16).expect("a link").line(), 128.0);
        assert_eq!(PcieLink::new(5, 16).expect("a link").payload(), None);
    }

    #[test]
    fn links_by_what_nccl_reckons() {
        for (rate, link) in [
            (48.0, Some((5, 16))),
            (24.0, Some((4, 16))),
            (12.0, Some((3, 16))),
            (6.0, Some((3, 8))),
            (0.8, Some((3, 1))),
            (0.2, Some((1, 1))),
            (370.8, None),
        ] {
            let link = link.and_then(|(generation, width)| PcieLink::new(generation, width));
            assert_eq!(PcieLink::of_nccl(rate), link, "{rate}");
        }
    }

    #[test]
    fn texts_of_links() {
        for text in ["PCIe 5.0 x16", "5.0 x16", "gen5 x16", "5 x16", "Gen5x16"] {
            assert_eq!(text.parse::<PcieLink>().ok(), PcieLink::new(5, 16), "{text}");
        }
        for text in ["", "x", "7.0 x16", "5.0 x17", "5.0", "PCIe x16", "5.1 x16"] {
            let error = text.parse::<PcieLink>().expect_err(text);
            assert!(error.to_string().contains("5.0 x16"), "{error}");
        }
    }

    #[test]
    fn generations_by_their_rate() {
        assert_eq!(PcieLink::generation_of(8.0), Some(3));
        assert_eq!(PcieLink::generation_of(64.0), Some(6));
        assert_eq!(PcieLink::generation_of(7.0), None);
    }
}
