//! What is wrong with a machine that one has only read about.
//! Not with a tree of devices: a machine has no more than slots and NICs.

use busbw_core::finding::{Finding, Severity};

use super::cost;
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
        let (rule, cause) = match slot.line() {
            least if least < line => {
                let (slot, nic) = (shown(least), shown(line));
                ("slot", format!("the slot ({slot}) is narrower than the NIC ({nic})"))
            }
            least if least < sum => {
                let (slot, sum) = (shown(least), shown(sum));
                (
                    "shared-slot",
                    format!("{} share a slot of {slot}, and are together {sum}", nics.sharing),
                )
            }
            _ => return None,
        };
        Some(
            Finding::new(rule, Severity::Slow, cause)
                .subject(format!("{} NICs", nics.count))
                .evidence(format!("the machine file: {slot}, {} Gb/s", line * 8.0))
                .cost(cost(sum.max(line) - slot.line()))
                .remedy("a slot of more lanes or a newer generation")
                .confirm("sudo lspci -vv | grep -e LnkCap: -e LnkSta:"),
        )
    };
    machine.node.nics.iter().filter_map(small).collect()
}
