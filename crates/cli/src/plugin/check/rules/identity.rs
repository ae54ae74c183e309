//! What a plugin reports about itself.
//! Not what it does.

use nccl_plugin_abi::net::{MAX_MESSAGE_BYTES, PTR_HOST};

use super::without_device;
use crate::plugin::check::{
    RuleOutcome,
    child::{self, Asked},
    subject::{Outcome, Subject, words},
};

/// NCCL calls these functions without a check.
pub(super) fn table(subject: &Subject) -> Outcome<RuleOutcome> {
    let absent = subject.plugin.absent();
    Ok(match absent.is_empty() {
        true => RuleOutcome::Pass,
        false => RuleOutcome::Fail(format!("these are null: {}", absent.join(", "))),
    })
}

/// Names select among plugins (NCCL_NET), and these are NCCL's own.
pub(super) fn name(subject: &Subject) -> Outcome<RuleOutcome> {
    let name = subject.plugin.name();
    Ok(match name.to_ascii_lowercase().as_str() {
        "" => RuleOutcome::Fail("it has no name".to_owned()),
        "ib" | "socket" => RuleOutcome::Fail(format!("{name} is the name of NCCL's own network")),
        _ => RuleOutcome::Pass,
    })
}

pub(super) fn properties(subject: &Subject) -> Outcome<RuleOutcome> {
    if subject.devices == 0 {
        return Ok(without_device());
    }
    let mut wrong = Vec::new();
    for device in 0..subject.devices {
        let is = subject.plugin.properties(device).map_err(words)?;
        let mut no = |text: String| wrong.push(format!("device {device}: {text}"));
        if is.name.is_empty() {
            no("it has no name".to_owned());
        }
        if is.speed <= 0 {
            no(format!("speed is {} Mb/s; NCCL takes 10 Gb/s instead", is.speed));
        }
        if is.ptr_support & PTR_HOST == 0 {
            no(format!("ptrSupport is {}: no memory of hosts", is.ptr_support));
        }
        if is.max_comms <= 0 {
            no(format!("maxComms is {}", is.max_comms));
        }
        if is.max_recvs <= 0 {
            no(format!("maxRecvs is {}", is.max_recvs));
        }
        if !is.latency.is_finite() || is.latency < 0.0 {
            no(format!("latency is {} us", is.latency));
        }
        for (name, most) in [("maxP2pBytes", is.max_p2p_bytes), ("maxCollBytes", is.max_coll_bytes)]
        {
            if let Some(most) = most.filter(|most| !(1..=MAX_MESSAGE_BYTES).contains(most)) {
                no(format!("{name} is {most}; NCCL takes 1 to 1 TiB"));
            }
        }
    }
    Ok(if wrong.is_empty() { RuleOutcome::Pass } else { RuleOutcome::Fail(wrong.join("; ")) })
}

/// NCCL reads them in several places, and combines the answers.
pub(super) fn stable(subject: &Subject) -> Outcome<RuleOutcome> {
    if subject.devices == 0 {
        return Ok(without_device());
    }
    for device in 0..subject.devices {
        let first = subject.plugin.properties(device).map_err(words)?;
        for _ in 0..100 {
            let count = subject.plugin.devices().map_err(words)?;
            if count != subject.devices {
                let text = format!("{} devices at first, then {count}", subject.devices);
                return Ok(RuleOutcome::Fail(text));
            }
            let now = subject.plugin.properties(device).map_err(words)?;
            if now != first {
                let text = format!("device {device} was {first:?}, then {now:?}");
                return Ok(RuleOutcome::Fail(text));
            }
        }
    }
    Ok(RuleOutcome::Pass)
}

/// The table's version depends on NCCL's version alone.
pub(super) fn versions(subject: &Subject) -> Outcome<RuleOutcome> {
    let ask = |version| {
        let asked = Asked { version: Some(version), ..subject.asked.clone() };
        child::describe(&asked).map_err(|why| format!("v{version}: {why}"))
    };
    let first = ask(subject.plugin.version())?;
    let others = first.versions.iter().filter(|version| **version != first.version);
    if first.versions.len() < 2 {
        return Ok(RuleOutcome::Waived("it has one table only".to_owned()));
    }
    for version in others {
        let other = ask(*version)?;
        if (&other.name, &other.devices) != (&first.name, &first.devices) {
            return Ok(RuleOutcome::Fail(format!(
                "v{} is {} with {:?}; v{version} is {} with {:?}",
                first.version, first.name, first.devices, other.name, other.devices
            )));
        }
    }
    Ok(RuleOutcome::Pass)
}
