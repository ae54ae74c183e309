//! Whether a PCIe link runs at what its two ends support. Not its devices, and not the remedy.

use serde::{Deserialize, Serialize};

use super::PcieReading;
use crate::machine::PcieLink;

/// A link as its two ends report it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Ends {
    /// The state that the device reports (LnkSta).
    #[serde(default, skip_serializing_if = "is_empty")]
    pub now: PcieReading,
    /// The best that the device supports (LnkCap).
    #[serde(default, skip_serializing_if = "is_empty")]
    pub device_max: PcieReading,
    /// The state that the port above reports.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub port_now: PcieReading,
    /// The best that the port above supports.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub port_max: PcieReading,
}

fn is_empty(reading: &PcieReading) -> bool {
    *reading == PcieReading::default()
}

impl Ends {
    /// The best that both ends support; none where the device does not report its own.
    pub fn best(&self) -> Option<PcieLink> {
        let device = self.device_max.link()?;
        Some(self.port_max.link().map_or(device, |port| both(device, port)))
    }
}

/// The best link that two ends support.
fn both(a: PcieLink, b: PcieLink) -> PcieLink {
    let (generation, width) = (a.generation.min(b.generation), a.width.min(b.width));
    PcieLink { generation, width, max_payload: a.max_payload }
}

/// What is wrong with a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LinkTrouble {
    /// It has fewer lanes than both ends support.
    Narrowed {
        /// Its state.
        now: PcieLink,
        /// What both ends support.
        best: PcieLink,
    },
    /// It is slower than both ends support.
    Slowed {
        /// Its state.
        now: PcieLink,
        /// What both ends support.
        best: PcieLink,
    },
    /// The port supports less than the device.
    SlotBelowDevice {
        /// What both ends support.
        slot: PcieLink,
        /// What the device supports.
        device: PcieLink,
    },
}

/// Judges a link by what its ends support; none where they do not report it.
pub fn judge(ends: &Ends) -> Vec<LinkTrouble> {
    let (Some(now), Some(device), Some(best)) =
        (ends.now.link(), ends.device_max.link(), ends.best())
    else {
        return Vec::new();
    };
    let mut troubles = Vec::new();
    if now.width < best.width {
        troubles.push(LinkTrouble::Narrowed { now, best });
    }
    if now.generation < best.generation {
        troubles.push(LinkTrouble::Slowed { now, best });
    }
    if best.line() < device.line() {
        troubles.push(LinkTrouble::SlotBelowDevice { slot: best, device });
    }
    troubles
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn link(generation: u8, width: u8) -> PcieLink {
        PcieLink::new(generation, width).unwrap()
    }

    #[test]
    fn one_trouble_at_a_time() {
        let best = link(5, 16);
        let full = best.into();
        let fine = Ends { now: full, device_max: full, port_max: full, ..Ends::default() };
        assert_eq!(judge(&fine), []);
        let now = link(5, 8);
        let narrowed = Ends { now: now.into(), ..fine };
        assert_eq!(judge(&narrowed), [LinkTrouble::Narrowed { now, best }]);
        let now = link(4, 16);
        assert_eq!(judge(&Ends { now: now.into(), ..fine }), [LinkTrouble::Slowed { now, best }]);
        let slot = link(4, 8);
        let small = Ends { now: slot.into(), port_max: slot.into(), ..fine };
        assert_eq!(judge(&small), [LinkTrouble::SlotBelowDevice { slot, device: best }]);
        assert_eq!(judge(&Ends { device_max: PcieReading::default(), ..small }), []);
    }

    proptest! {
        /// Whatever the two ends are, a link at its best can only be found to have a small slot.
        #[test]
        fn a_link_at_its_best(a in 0..4_usize, b in 0..4_usize, x in 1..=6_u8, y in 1..=6_u8) {
            let width = |at: usize| [1, 4, 8, 16][at];
            let (device, port) = (link(x, width(a)), link(y, width(b)));
            let ends = Ends { device_max: device.into(), port_max: port.into(), ..Ends::default() };
            let best = ends.best().unwrap();
            let troubles = judge(&Ends { now: best.into(), ..ends });
            prop_assert_eq!(troubles.is_empty(), best.line() >= device.line());
            let small = troubles.iter().all(|t| matches!(t, LinkTrouble::SlotBelowDevice { .. }));
            prop_assert!(small, "{:?}", troubles);
        }
    }
}
