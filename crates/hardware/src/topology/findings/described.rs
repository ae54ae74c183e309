//! What is wrong with a machine that one has only read about.
//! Not with a tree of devices: a machine has no more than slots and NICs.

use super::{Finding, Kind};
use crate::{
    limits::framing,
    machine::{Machine, Nics},
    topology::rates::shown,
};

/// What a machine that one has only read about shows.
pub fn of_machine(machine: &Machine) -> Vec<Finding> {
    let small = |nics: &Nics| {
        let (slot, line) = (nics.slot?, framing::line(nics)?);
        let sum = line * nics.sharing as f64;
        let (kind, what) = match slot.line() {
            least if least < line => {
                let (slot, nic) = (shown(least), shown(line));
                (Kind::Slot, format!("the slot ({slot}) is narrower than the NIC ({nic})"))
            }
            least if least < sum => {
                let (slot, sum) = (shown(least), shown(sum));
                (
                    Kind::SharedSlot,
                    format!("{} share a slot of {slot}, and are together {sum}", nics.sharing),
                )
            }
            _ => return None,
        };
        Some(Finding {
            kind,
            subject: format!("{} NICs", nics.count),
            what,
            evidence: format!("the machine file: {slot}, {} Gb/s", line * 8.0),
            cost: Some(sum.max(line) - slot.line()),
            remedy: "a slot of more lanes or a newer generation".to_owned(),
            confirm: "sudo lspci -vv | grep -e LnkCap: -e LnkSta:".to_owned(),
        })
    };
    machine.node.nics.iter().filter_map(small).collect()
}
