//! Devices that NCCL makes of several (NCCL_NET_MERGE_LEVEL): what it expects of their number and properties, and messages over them.
//! Not which devices NCCL merges.

use super::without_device;
use crate::plugin::check::{
    RuleOutcome,
    subject::{Line, Message, Outcome, Subject, words},
};

/// As ncclTopoProcessNet of NCCL's src/graph/topo.cc calls it: the new device is the last of `devices`, and names its parts.
pub(super) fn merged(subject: &Subject) -> Outcome<RuleOutcome> {
    let plugin = subject.plugin;
    let waived = |why: String| Ok(RuleOutcome::Waived(why));
    match subject.devices {
        0 => return Ok(without_device()),
        1 => return waived("it has one device only".to_owned()),
        _ if !plugin.can_merge() => {
            return waived("it has no makeVDevice: NCCL uses each device by itself".to_owned());
        }
        _ => {}
    }
    let number = match plugin.merge(&[0, 1]) {
        Ok(number) => number,
        Err(refused) => return waived(format!("it refuses devices 0 and 1: {refused}")),
    };
    let count = plugin.devices().map_err(words)?;
    if number != subject.devices || count != subject.devices + 1 {
        return Err(format!(
            "the new device is {number} of {count}; NCCL takes it for {} of {}",
            subject.devices,
            subject.devices + 1
        ));
    }
    let is = plugin.properties(number).map_err(words)?;
    if is.parts != [0, 1] {
        return Err(format!("the new device consists of {:?}, not of devices 0 and 1", is.parts));
    }
    for part in 0..2 {
        let own = plugin.properties(part).map_err(words)?;
        if own.name == is.name || is.speed < own.speed {
            return Err(format!(
                "the new device is called {} and has {} Mb/s; its part {part} is {}, {} Mb/s",
                is.name, is.speed, own.name, own.speed
            ));
        }
    }
    let (messages, bytes) = Message::row([1, 4097, 1 << 20, 3 << 20]);
    let (sender, receiver) = subject.pair_over(number)?;
    let mut line = Line::new(sender, receiver, bytes)?;
    line.exchange(&messages)?;
    line.close()?;
    Ok(RuleOutcome::Pass)
}
