//! The sentence that a colleague would say over one's shoulder.
//! Not the evidence: findings carry that.

use model::limits::{Algorithm, Resource};

use super::{
    context::Context,
    finding::{Finding, Weight, bytes, list, percent, rate, time},
    limit::{Basis, Ceiling, Culprit},
    rules::names,
};

/// From this percentage on a result is at its limit.
const AT: f64 = 95.0;

/// Above this percentage of it, another algorithm or better hardware than NCCL reckons with ran.
const EXCEEDS: f64 = 102.0;

/// Above this percentage of what NCCL expects of an algorithm it is hardly the one that ran, so that its
/// limit is not the one that was met.
const FAR_ABOVE: f64 = 110.0;

/// Below this percentage of the limit something stands between.
pub(super) const FAR: f64 = 70.0;

/// What 256 B of data are of a PCIe packet with its headers: 256 / (256 + 26), as `PcieLink` has it.
const USUAL_PAYLOAD_256: f64 = 256.0 / 282.0;

/// From this percentage of what NCCL expects on, nothing is wrong.
const EXPECTED: f64 = 95.0;

pub(super) fn sentence(context: &Context<'_>, findings: &[Finding]) -> String {
    if let Some(wrong) = findings.iter().find(|finding| finding.weight == Weight::Wrong) {
        return capital(&wrong.cause);
    }
    if context.measured.is_none() {
        return if context.run.library.is_empty() {
            "There is no figure to explain.".to_owned()
        } else {
            "There are NCCL's lines and no table: see what they say of transports.".to_owned()
        };
    }
    if let Some(memory) = findings.iter().find(|finding| finding.rule == "device-memory-latency") {
        return capital(&memory.cause);
    }
    let mut parts = vec![limit(context)];
    let unsteady = ["unsteady", "dip"];
    let seen: Vec<&str> = findings
        .iter()
        .filter(|finding| unsteady.contains(&finding.rule))
        .map(|finding| finding.cause.split(':').next().unwrap_or(""))
        .collect();
    if !seen.is_empty() {
        parts.push(capital(&list(&seen, "and")));
    }
    let first = findings.iter().find(|finding| {
        finding.weight == Weight::Slow
            && !unsteady.contains(&finding.rule)
            && !["slot-narrower-than-nic", "far-below-the-limit"].contains(&finding.rule)
    });
    if let Some(first) = first {
        parts.push(capital(&first.cause));
    }
    parts.join(" ")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

fn limit(context: &Context<'_>) -> String {
    let (Some(ceiling), Some(busbw), Some(of_limit)) =
        (&context.ceiling, context.busbw(), context.percent())
    else {
        return without_limit(context);
    };
    let expected = ceiling.nccl_expects.map(|expects| busbw / expects * 100.0);
    let mut told = match &context.culprit {
        Culprit::Resource { resource: Resource::NicSlot } => {
            slot(context, ceiling, busbw, of_limit)
        }
        Culprit::Resource { resource } => {
            resource_sentence(*resource, ceiling, busbw, of_limit, expected)
        }
        Culprit::Software => {
            "Its bytes take next to no time: starting the operation does.".to_owned()
        }
        Culprit::AboveLimit => {
            "It is above what the machine as described allows: one of the two is not what it seems."
                .to_owned()
        }
        Culprit::NotTheHardware { considered } => {
            let parts: Vec<&str> = considered.iter().map(|resource| resource.name()).collect();
            let expected = expected.map_or(String::new(), |expected| {
                format!(" ({} % of what NCCL expects)", percent(expected))
            });
            let cause = if context.run.library.is_empty() {
                "what does cannot be told without NCCL's log"
            } else {
                "look at software and settings"
            };
            let (verb, parts) = match parts.as_slice() {
                [only] => ("is not", (*only).to_owned()),
                all => ("is", format!("neither {}", list(all, "nor"))),
            };
            format!(
                "At {} % of the limit{expected}, {parts} as described {verb} what holds it back; {cause}.",
                percent(of_limit)
            )
        }
        Culprit::Unknown { missing } => {
            let share = match expected {
                Some(expected) => format!(
                    "{} % of what NCCL expects ({} GB/s)",
                    percent(expected),
                    rate(ceiling.nccl_expects.unwrap_or(0.0))
                ),
                None => format!("{} % of the limit", percent(of_limit)),
            };
            format!(
                "It is {share}, and what holds it back cannot be told without more: {}.",
                missing.join("; ")
            )
        }
    };
    if !ceiling.excluded.is_empty()
        && !ceiling.explained_by.is_empty()
        && ceiling.basis != Basis::Said
    {
        let (algorithm, bound) =
            ceiling.excluded.iter().copied().fold((ceiling.algorithm, 0.0), |most, one| {
                if one.1 > most.1 { one } else { most }
            });
        told.push_str(&format!(
            " It is above the {} bound of {} GB/s: only {} explains it.",
            algorithm.name(),
            rate(bound),
            names(&ceiling.explained_by)
        ));
    } else if ceiling.basis == Basis::LowestBound && ceiling.explained_by.len() > 1 {
        told.push_str(&alternatives(context, ceiling, busbw));
    }
    told
}

/// What else may have run, for the result does not tell.
fn alternatives(context: &Context<'_>, ceiling: &Ceiling, busbw: f64) -> String {
    let ran = ceiling.algorithm.name();
    let others: Vec<Algorithm> =
        ceiling.explained_by.iter().copied().filter(|one| *one != ceiling.algorithm).collect();
    let Some(expects) = ceiling.nccl_expects.filter(|expects| busbw > expects * 1.02) else {
        let others = names(&others);
        return format!(
            " That is if {ran} ran; {others} would be possible as well, and the log would tell."
        );
    };
    let expected = |algorithm: &Algorithm| {
        let candidate = context.candidates.iter().find(|one| one.limit.algorithm == *algorithm);
        candidate.and_then(|one| one.limit.expects.as_ref()).map_or(f64::INFINITY, |one| one.low)
    };
    let likelier: Vec<Algorithm> =
        others.into_iter().filter(|algorithm| expected(algorithm) >= busbw).collect();
    let likelier = match likelier.as_slice() {
        [] => String::new(),
        some => format!(": {} is likelier", names(some)),
    };
    format!(
        " The limit is that of {ran}, of which NCCL expects no more than {}{likelier}. Only the log can tell.",
        rate(expects)
    )
}

fn slot(context: &Context<'_>, ceiling: &Ceiling, busbw: f64, of_limit: f64) -> String {
    let nic = ceiling.resources.iter().find(|(resource, _)| *resource == Resource::Nic);
    let nic =
        nic.map_or(String::new(), |(_, full)| format!(", where the NIC could do {}", rate(*full)));
    let expects = ceiling.nccl_expects.map_or(String::new(), |expects| {
        format!(
            ", and {} % of what NCCL expects of it ({})",
            percent(busbw / expects * 100.0),
            rate(expects)
        )
    });
    let placement = context.machine.as_ref().and_then(|machine| machine.placement);
    let several = placement.is_some_and(|placement| placement.nodes > 1);
    let not = if several { ", not the network" } else { "" };
    let nics = context.machine.iter().flat_map(|machine| &machine.machine.node.nics);
    let narrow = nics.filter_map(|nics| nics.slot).any(|slot| slot.width < 16);
    let cure = if narrow { "A slot with 16 lanes" } else { "A slot of a newer generation" };
    // Where packets' size is not known, that of most hosts shows what headers would take.
    let packets = if ceiling.figure == "payload" {
        format!("{} without packet headers", rate(ceiling.busbw))
    } else {
        let less = ceiling.line * USUAL_PAYLOAD_256;
        let share = percent(busbw / less * 100.0);
        format!("{} if its packets hold the usual 256 B; this is {share} % of that", rate(less))
    };
    format!(
        "The PCIe slot is the bottleneck{not}: it carries {} GB/s at most ({packets}){nic}. {} GB/s is {} % of the slot's limit{expects}. {cure} is the cure.",
        rate(ceiling.line),
        rate(busbw),
        percent(of_limit)
    )
}

fn resource_sentence(
    resource: Resource,
    ceiling: &Ceiling,
    busbw: f64,
    of_limit: f64,
    expected: Option<f64>,
) -> String {
    let what = match resource {
        Resource::Nic => "the NICs",
        Resource::NvLink => "NVLink",
        Resource::GpuPcie => "the GPUs' PCIe links",
        Resource::BetweenSockets => "the link between the sockets",
        Resource::NicSlot => "the NICs' PCIe slots",
    };
    let figure =
        if ceiling.figure == "payload" { "what their packets can carry" } else { "line rate" };
    let figure = match resource {
        Resource::NvLink if ceiling.figure == "payload" => "the limit",
        Resource::NvLink => "its line rate",
        _ => figure,
    };
    let share = format!(
        "{} of {} GB/s, {} % of {figure}",
        rate(busbw),
        rate(ceiling.busbw),
        percent(of_limit)
    );
    let verb = if resource == Resource::NvLink || resource == Resource::BetweenSockets {
        "sets"
    } else {
        "set"
    };
    match expected {
        _ if of_limit >= AT && expected.is_none_or(|expected| expected < FAR_ABOVE) => {
            format!("{} {verb} the limit, and this is at it: {share}.", capital_word(what))
        }
        Some(expected) if (EXPECTED..EXCEEDS).contains(&expected) => format!(
            "{} {verb} the limit: {share}, and {} % of what NCCL expects ({}): nothing is wrong.",
            capital_word(what),
            percent(expected),
            rate(ceiling.nccl_expects.unwrap_or(0.0))
        ),
        Some(expected) => format!(
            "{} {verb} the limit: {share}, and {} % of what NCCL expects ({}).{}",
            capital_word(what),
            percent(expected),
            rate(ceiling.nccl_expects.unwrap_or(0.0)),
            rest(of_limit),
        ),
        None => format!("{} {verb} the limit: {share}.{}", capital_word(what), rest(of_limit)),
    }
}

/// What is far from its limit is held back by something else as well.
fn rest(of_limit: f64) -> &'static str {
    if of_limit < FAR { " Something else takes the rest." } else { "" }
}

fn capital_word(text: &str) -> String {
    let mut told = capital(text);
    told.pop();
    told
}

fn without_limit(context: &Context<'_>) -> String {
    let Some(measured) = &context.measured else {
        return "There is no figure to explain.".to_owned();
    };
    let figure = match (measured.busbw, measured.time_us) {
        (Some(busbw), _) => format!("{} GB/s at {}", rate(busbw), bytes(measured.size)),
        (None, Some(us)) => format!("{} at {}", time(us), bytes(measured.size)),
        (None, None) => "What was measured".to_owned(),
    };
    match &context.culprit {
        Culprit::Unknown { missing } if !missing.is_empty() => {
            format!(
                "{figure}: whether that is good cannot be told without {}.",
                list(missing, "and")
            )
        }
        _ => format!("{figure}."),
    }
}
