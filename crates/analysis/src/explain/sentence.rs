//! The sentence that a colleague would say over one's shoulder.
//! Not the evidence: findings carry that. Not the judgement: `busbw_hardware::limits` has that.

use busbw_core::Collective;
use busbw_hardware::{
    limits::{Resource, Standing, Verdict},
    machine::Nics,
};
use busbw_logs::measurement::Form;

use super::{
    context::Context,
    finding::{Finding, Weight},
    limit::{Ceiling, Part},
};
use busbw_core::quantity::{bytes, list, percent, rate, time};

/// What 256 B of data are of a PCIe packet with its headers: 256 / (256 + 26), as `PcieLink` has it.
const USUAL_PAYLOAD_256: f64 = 256.0 / 282.0;

pub(super) fn sentence(context: &Context<'_>, findings: &[Finding]) -> String {
    if let Some(wrong) = findings.iter().find(|finding| finding.weight == Weight::Wrong) {
        return capital(&wrong.cause);
    }
    if context.measured.is_none() {
        if let (Form::NetStats, Some(first)) = (context.run.source.form, findings.first()) {
            return capital(&first.cause);
        }
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
    if text.starts_with("xGMI") {
        return text.to_owned();
    }
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

fn limit(context: &Context<'_>) -> String {
    let (Some(ceiling), Some(busbw)) = (&context.ceiling, context.busbw()) else {
        return without_limit(context);
    };
    let judged = &context.judgement;
    let of_limit = percent(judged.percent.unwrap_or(0.0));
    let told = match &judged.verdict {
        Verdict::SetBy { resource } => match ceiling.part(*resource) {
            Some(part) if part.resource == Resource::NicSlot => slot(context, ceiling, part, busbw),
            Some(part) => set_by(context, ceiling, part, busbw),
            None => format!("It is {of_limit} % of the limit."),
        },
        Verdict::Software => too_short(context, ceiling, busbw),
        Verdict::AboveLimit => {
            "It is above what the machine as described allows: one of the two is not what it seems."
                .to_owned()
        }
        Verdict::NotTheLine { considered } => {
            let nics = nics(context);
            let name = |one: &Resource| match one {
                Resource::Nic if nics > 1 => "the NICs together".to_owned(),
                one => ceiling.name(*one).to_owned(),
            };
            let parts: Vec<String> = considered.iter().map(name).collect();
            let cause = if context.run.library.is_empty() && context.by_nccl() {
                "what does cannot be told without NCCL's log"
            } else {
                "look at software and settings"
            };
            let (verb, parts) = match parts.as_slice() {
                [only] => ("is not", only.clone()),
                all => ("is", format!("neither {}", list(all, "nor"))),
            };
            let expected = expected(context, ceiling, " and ", "");
            let unchecked = match ceiling.unchecked.as_slice() {
                [] => String::new(),
                facts => {
                    format!(" What is not known may do so as well: {}.", list(facts, "and"))
                }
            };
            format!(
                "At {of_limit} % of the limit{expected}, {parts} as described {verb} what holds it back; {cause}.{unchecked}"
            )
        }
        Verdict::Unknown { missing } => {
            let share = match expected(context, ceiling, "", "") {
                expected if expected.is_empty() => format!("{of_limit} % of the limit"),
                expected => expected,
            };
            format!(
                "It is {share}, and what holds it back cannot be told without more: {}.",
                missing.join("; ")
            )
        }
    };
    if matches!(judged.verdict, Verdict::Software) {
        return told;
    }
    told + one_gpus_nics(context, ceiling) + &ceiling.choice.told()
}

/// What the limit of a message between hosts is of, where NCCL uses less.
fn one_gpus_nics(context: &Context<'_>, ceiling: &Ceiling) -> &'static str {
    let sends = context.run.collective() == Some(Collective::SendRecv);
    if sends && nics(context) > 1 && ceiling.part(Resource::Nic).is_some() {
        " The limit lets one rank's message leave over all NICs of its host; NCCL sends it over those of its GPU."
    } else {
        ""
    }
}

/// `97.0 % of what NCCL expects (370.8)`, between two texts; nothing where it expects nothing.
fn expected(context: &Context<'_>, ceiling: &Ceiling, before: &str, after: &str) -> String {
    match (context.judgement.of_expected, ceiling.nccl_expects) {
        (Some(share), Some(expects)) => {
            let share = percent(share);
            format!("{before}{share} % of what NCCL expects ({}){after}", rate(expects))
        }
        _ => String::new(),
    }
}

/// A few bytes: no link can be judged by them.
fn too_short(context: &Context<'_>, ceiling: &Ceiling, busbw: f64) -> String {
    let Some((size, took)) =
        context.measured.as_ref().and_then(|measured| Some((measured.size, measured.time_us?)))
    else {
        return "Its bytes take next to no time: starting the operation does.".to_owned();
    };
    format!(
        "{} is too little to judge a link by: it takes {}, of which its bytes need {} at the limit; starting the operation takes much of the rest. Measure up to 1 GiB or more (-e 1G).",
        bytes(size),
        time(took),
        time(took * busbw / ceiling.busbw),
    )
}

/// A slot that holds back the NIC in it.
fn slot(context: &Context<'_>, ceiling: &Ceiling, slot: &Part, busbw: f64) -> String {
    let nodes =
        context.machine.iter().flat_map(|known| &known.placement).map(|placed| placed.nodes);
    let not = if nodes.max().is_some_and(|nodes| nodes > 1) { ", not the network" } else { "" };
    let mut slots = groups(context).filter_map(|nics| nics.slot);
    let narrow = slots.any(|slot| slot.width < 16);
    let cure = if narrow { "A slot with 16 lanes" } else { "A slot of a newer generation" };
    let (the, carries, can) = if nics(context) > 1 {
        ("The PCIe slots are", "they carry", "the NICs together")
    } else {
        ("The PCIe slot is", "it carries", "the NIC")
    };
    // Where packets' size is not known, that of most hosts shows what headers would take.
    let usual = slot.line * USUAL_PAYLOAD_256;
    let packets = match slot.payload {
        Some(payload) => format!("{} without packet headers", rate(payload)),
        None => format!("{} if its packets hold the usual 256 B", rate(usual)),
    };
    let nic = ceiling.part(Resource::Nic);
    let nic = nic.map_or(String::new(), |nic| format!(", where {can} could do {}", rate(nic.line)));
    // With more ranks busbw is another figure than what crosses the slot.
    let allows = if (slot.busbw / slot.payload.unwrap_or(slot.line) - 1.0).abs() > 0.005 {
        format!(" That allows a busbw of {} GB/s.", rate(slot.busbw))
    } else {
        String::new()
    };
    let mut shares = vec![format!("{} % of the slot's limit", percent(busbw / slot.busbw * 100.0))];
    if slot.payload.is_none() {
        let share = busbw / slot.busbw / USUAL_PAYLOAD_256 * 100.0;
        shares.push(if share <= 100.0 {
            format!("{} % of it without headers", percent(share))
        } else {
            "more than packets of 256 B leave of it (they are larger)".to_owned()
        });
    }
    if let Some(nccl) = slot.nccl {
        let expects = slot.busbw * nccl / slot.payload.unwrap_or(slot.line);
        shares.push(format!(
            "{} % of what NCCL expects of it ({})",
            percent(busbw / expects * 100.0),
            rate(expects)
        ));
    }
    format!(
        "{the} the bottleneck{not}: {carries} {} GB/s at most ({packets}){nic}.{allows} {} GB/s is {}. {cure} is the cure.",
        rate(slot.line),
        rate(busbw),
        list(&shares, "and"),
    )
}

fn groups<'a>(context: &'a Context<'_>) -> impl Iterator<Item = &'a Nics> {
    context.machine.iter().flat_map(|known| &known.machine.node.nics)
}

/// NICs of a host.
fn nics(context: &Context<'_>) -> usize {
    groups(context).map(|nics| nics.count).sum()
}

/// Any other resource; every figure is its own.
fn set_by(context: &Context<'_>, ceiling: &Ceiling, part: &Part, busbw: f64) -> String {
    let (what, verb) = match part.resource {
        Resource::Nic => ("the NICs".to_owned(), "set"),
        Resource::GpuPcie => ("the GPUs' PCIe links".to_owned(), "set"),
        Resource::GpuLinks => (part.name.replace("of the GPU", "of the GPUs"), "together set"),
        Resource::BetweenSockets => ("the link between the sockets".to_owned(), "sets"),
        Resource::NicSlot | Resource::NvLink => (part.name.clone(), "sets"),
    };
    let figure = match (part.payload, verb) {
        (Some(_), _) => "what their packets can carry",
        (None, "sets") => "its line rate",
        (None, _) => "their line rate",
    };
    let share = format!(
        "{} of {} GB/s, {} % of {figure}",
        rate(busbw),
        rate(part.busbw),
        percent(busbw / part.busbw * 100.0)
    );
    let what = capital(&what);
    let what = what.trim_end_matches('.');
    let expected = expected(context, ceiling, ", and ", "");
    match context.judgement.standing {
        Some(Standing::At) => format!("{what} {verb} the limit, and this is at it: {share}."),
        Some(Standing::AsExpected) => {
            format!("{what} {verb} the limit: {share}{expected}: nothing is wrong.")
        }
        Some(Standing::Healthy) => format!("{what} {verb} the limit: {share}{expected}."),
        _ => format!("{what} {verb} the limit: {share}{expected}. Something else takes the rest."),
    }
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
    match &context.judgement.verdict {
        Verdict::Unknown { missing } if !missing.is_empty() => {
            format!(
                "{figure}: whether that is good cannot be told without {}.",
                list(missing, "and")
            )
        }
        _ => format!("{figure}."),
    }
}
