//! The sentence that a colleague would say over one's shoulder.
//! Not the evidence: findings carry that. Not the judgement: `busbw_hardware::limits` has that.

use busbw_core::finding::{Finding, Severity};
use busbw_core::{Benchmark, Collective};
use busbw_hardware::{
    limits::{Bottleneck, Rating, Resource},
    machine::Nics,
};
use busbw_logs::measurement::Figure;

use super::{
    context::{Context, of_size},
    limit::{Ceiling, CrossedResource},
    rules,
};
use busbw_core::quantity::{bytes, list, percent, rate, time};

/// Share of a PCIe packet with 256 B of data that is data: 256 / (256 + 26), as in `PcieLink`.
const PAYLOAD_SHARE_256_B: f64 = 256.0 / 282.0;

pub(super) fn sentence(context: &Context<'_>, findings: &[Finding]) -> String {
    if let Some(wrong) = findings.iter().find(|finding| finding.severity == Severity::Error) {
        return capital(&wrong.cause);
    }
    if context.measured.is_none() {
        let alone = findings.iter().find(|finding| finding.rule == rules::LOG_ALONE);
        let first = alone.or(findings.first());
        if let (false, Some(first)) = (context.run.source.form.facts().benchmark, first) {
            return capital(&first.cause);
        }
        return "The source has no figure to explain.".to_owned();
    }
    if let Some((size, device, host)) = rules::device_and_host_latency(context) {
        return format!(
            "{} at {} with device memory, {} with host memory. Software costs the difference, not PCIe or the network.",
            time(device),
            bytes(size),
            time(host)
        );
    }
    let software = context.judgement.bottleneck == Bottleneck::Software;
    if let Some(growing) = findings.iter().find(|one| one.rule == "not-there-yet" && !software) {
        let remedy = growing.remedy.as_deref().unwrap_or_default();
        return format!("{} {}", capital(&growing.cause), capital(remedy));
    }
    if let (Some(half), Some(ceiling)) =
        (findings.iter().find(|finding| finding.rule == rules::HALF_PORT), &context.ceiling)
    {
        let share = percent(context.judgement.percent.unwrap_or(0.0));
        let both = rate(ceiling.busbw);
        return format!(
            "{} Both halves allow {both} GB/s, of which this is {share} %.",
            capital(&half.cause)
        );
    }
    // Far below a link the transport may explain it.
    let transport = findings.iter().find(|finding| finding.rule == rules::SOCKETS);
    let dips = findings.iter().any(|finding| finding.rule == "dip");
    let mut parts = vec![limit(context, transport, dips)];
    let seen: Vec<&str> = findings
        .iter()
        .filter(|finding| rules::OF_SOME_SIZES.contains(&&*finding.rule))
        .map(|finding| finding.cause.split(':').next().unwrap_or(""))
        .collect();
    if !seen.is_empty() {
        parts.push(capital(&list(&seen, "and")));
    }
    let first = findings.iter().find(|finding| {
        finding.severity == Severity::Slow
            && !rules::OF_SOME_SIZES.contains(&&*finding.rule)
            && !["slot-narrower-than-nic", "far-below-the-limit"].contains(&&*finding.rule)
    });
    let said = |first: &&Finding| parts.iter().any(|part| part.contains(&first.cause));
    match (first.filter(|first| !said(first)), &context.judgement.bottleneck) {
        (None, _) => {}
        _ if context.settings_range.is_some() => {}
        // A cause that the log shows comes before the links that it is not, or that are not known.
        (Some(first), Bottleneck::Elsewhere { .. }) => parts.insert(0, capital(&first.cause)),
        (Some(first), Bottleneck::Unknown { .. }) if context.ceiling.is_none() => {
            parts.insert(0, capital(&first.cause));
        }
        (Some(first), _) => parts.push(capital(&first.cause)),
    }
    parts.join(" ")
}

pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    if text.starts_with("xGMI") {
        return text.to_owned();
    }
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

fn limit(context: &Context<'_>, transport: Option<&Finding>, dips: bool) -> String {
    let (Some(ceiling), Some(busbw)) = (&context.ceiling, context.busbw()) else {
        return without_limit(context);
    };
    let judged = &context.judgement;
    let of_limit = percent(judged.percent.unwrap_or(0.0));
    let text = match &judged.bottleneck {
        Bottleneck::SetBy { .. } if ceiling.attained.is_some() => as_attained(ceiling, busbw),
        Bottleneck::SetBy { resource } => match ceiling.crossed(*resource) {
            Some(crossed) if crossed.resource == Resource::NicSlot => slot(context, ceiling, crossed, busbw),
            Some(crossed) => set_by(context, ceiling, crossed, busbw, dips),
            None => format!("The result is {of_limit} % of the limit."),
        },
        Bottleneck::Software => too_short(context, ceiling, busbw),
        Bottleneck::AboveLimit => {
            "The result is above what the described machine allows: the description or the result is wrong."
                .to_owned()
        }
        Bottleneck::Elsewhere { .. } if context.settings_range.is_some() => {
            settings(context, busbw, &of_limit)
        }
        Bottleneck::Elsewhere { considered } => {
            let nics = nics(context);
            let name = |one: &Resource| match one {
                Resource::Nic if nics > 1 => "the NICs together".to_owned(),
                one => ceiling.name(*one).to_owned(),
            };
            let parts: Vec<String> = considered.iter().map(name).collect();
            let cause = match transport {
                Some(finding) => finding.cause.as_str(),
                None if context.run.library.is_empty() && context.by_nccl() => {
                    "NCCL's log would show what does"
                }
                None => "look at software and settings",
            };
            let (verb, parts) = match parts.as_slice() {
                [only] => ("is not", only.clone()),
                all => ("is", format!("neither {}", list(all, "nor"))),
            };
            let expected = expected(context, ceiling, " and ", "");
            let unchecked = match ceiling.unchecked.as_slice() {
                [] => String::new(),
                facts => {
                    format!(" What is not known may limit it as well: {}.", list(facts, "and"))
                }
            };
            format!(
                "At {of_limit} % of the limit{expected}, {parts} as described {verb} what holds it back; {cause}.{unchecked}"
            )
        }
        Bottleneck::Unknown { missing } => {
            let share = match expected(context, ceiling, "", "") {
                expected if expected.is_empty() => format!("{of_limit} % of the limit"),
                expected => expected,
            };
            format!(
                "The result is {share}. The bottleneck is unknown without more: {}.",
                missing.join("; ")
            )
        }
    };
    if matches!(judged.bottleneck, Bottleneck::Software) {
        return text;
    }
    text + one_gpus_nics(context, ceiling) + &ceiling.choice.describe()
}

/// Settings alone change the result.
fn settings(context: &Context<'_>, busbw: f64, of_limit: &str) -> String {
    let (low, high) = context.settings_range.unwrap_or_default();
    let expected = context.ceiling.as_ref().map(|ceiling| expected(context, ceiling, " and ", ""));
    let expected = expected.unwrap_or_default();
    format!(
        "{} GB/s is {of_limit} % of the limit{expected}; settings alone move it from {} to {}, so it is not the line: look at queue pairs and channels, and at the counters of NICs and switches.",
        rate(busbw),
        rate(low),
        rate(high)
    )
}

/// A remark where the limit of sendrecv counts all NICs of a host, while NCCL uses those of one GPU.
fn one_gpus_nics(context: &Context<'_>, ceiling: &Ceiling) -> &'static str {
    let sends = context.run.collective() == Some(Collective::SendRecv);
    if sends && nics(context) > 1 && ceiling.crossed(Resource::Nic).is_some() {
        " The limit counts all NICs of a host for one rank's message; NCCL uses only those of its GPU."
    } else {
        ""
    }
}

/// `97.0 % of what NCCL expects (370.8)` between `before` and `after`; empty where NCCL has no model.
fn expected(context: &Context<'_>, ceiling: &Ceiling, before: &str, after: &str) -> String {
    match (context.judgement.of_expected, ceiling.nccl_expects) {
        (Some(share), Some(expects)) => {
            let share = percent(share);
            format!("{before}{share} % of what NCCL expects ({}){after}", rate(expects))
        }
        _ => String::new(),
    }
}

/// The measured size is too small to rate a link.
fn too_short(context: &Context<'_>, ceiling: &Ceiling, busbw: f64) -> String {
    let Some((size, took)) =
        context.measured.as_ref().and_then(|measured| Some((measured.size, measured.time_us?)))
    else {
        return "The size is too small to rate a link: most of the time is the start of the operation.".to_owned();
    };
    format!(
        "{} is too small to rate a link: it takes {}, of which its bytes need {} at the limit; the start of the operation takes much of the rest. Measure up to 1 GiB or more (-e 1G).",
        bytes(size),
        time(took),
        time(took * busbw / ceiling.busbw),
    )
}

/// The PCIe slot is the bottleneck of the NIC in it.
fn slot(context: &Context<'_>, ceiling: &Ceiling, slot: &CrossedResource, busbw: f64) -> String {
    let nodes =
        context.machine.iter().flat_map(|known| &known.placement).map(|placed| placed.nodes);
    let not = if nodes.max().is_some_and(|nodes| nodes > 1) { ", not the network" } else { "" };
    let mut slots = groups(context).filter_map(|nics| nics.slot);
    let narrow = slots.any(|slot| slot.width < 16);
    let told = context.machine.as_ref().is_some_and(|known| known.named);
    let cure = match narrow {
        _ if !told => "a faster slot",
        true => "a slot with 16 lanes",
        false => "a slot of a newer PCIe generation",
    };
    let (the, carries, can) = if nics(context) > 1 {
        ("The PCIe slots are", "they carry", "the NICs together")
    } else {
        ("The PCIe slot is", "it carries", "the NIC")
    };
    // Where the packet size is not known, 256 B (the size on most hosts) shows the cost of headers.
    let usual = slot.line_rate * PAYLOAD_SHARE_256_B;
    let packets = match slot.payload_rate {
        Some(payload) => format!("{} without packet headers", rate(payload)),
        None => format!("{} if its packets hold the usual 256 B", rate(usual)),
    };
    let nic = ceiling.crossed(Resource::Nic);
    let nic =
        nic.map_or(String::new(), |nic| format!(", where {can} could do {}", rate(nic.line_rate)));
    // With more ranks busbw is another figure than what crosses the slot.
    let allows = if (slot.busbw / slot.payload_rate.unwrap_or(slot.line_rate) - 1.0).abs() > 0.005 {
        format!(" That allows a busbw of {} GB/s.", rate(slot.busbw))
    } else {
        String::new()
    };
    let mut shares = vec![format!("{} % of the slot's limit", percent(busbw / slot.busbw * 100.0))];
    if slot.payload_rate.is_none() {
        let share = busbw / slot.busbw / PAYLOAD_SHARE_256_B * 100.0;
        shares.push(if share <= 100.0 {
            format!("{} % of it without headers", percent(share))
        } else {
            "more than packets of 256 B could carry (they are larger)".to_owned()
        });
    }
    if let Some(nccl) = slot.nccl_rate {
        let expects = slot.busbw * nccl / slot.payload_rate.unwrap_or(slot.line_rate);
        shares.push(format!(
            "{} % of what NCCL expects of it ({})",
            percent(busbw / expects * 100.0),
            rate(expects)
        ));
    }
    format!(
        "{the} the bottleneck{not}: {carries} {} GB/s at most ({packets}){nic}.{allows} {} GB/s is {}. Move the NIC to {cure}.",
        rate(slot.line_rate),
        rate(busbw),
        list(&shares, "and"),
    )
}

fn groups<'a>(context: &'a Context<'_>) -> impl Iterator<Item = &'a Nics> {
    context.machine.iter().flat_map(|known| &known.machine.node.nics)
}

/// Number of NICs of a host.
fn nics(context: &Context<'_>) -> usize {
    groups(context).map(|nics| nics.count).sum()
}

/// As fast as published runs, which are far from the limit.
fn as_attained(ceiling: &Ceiling, busbw: f64) -> String {
    let (attained, source) =
        ceiling.attained.as_ref().map_or((0.0, ""), |known| (known.busbw, known.source));
    format!(
        "{} GB/s is as good as published runs of GPUs with such NVLinks ({} GB/s; {source}). {} allows {} by {} on paper, which no run is known to reach.",
        rate(busbw),
        rate(attained),
        ceiling.name(ceiling.set_by),
        rate(ceiling.busbw),
        ceiling.choice.algorithm.name(),
    )
}

/// Any other resource is the bottleneck; every figure is that of this resource.
fn set_by(
    context: &Context<'_>,
    ceiling: &Ceiling,
    crossed: &CrossedResource,
    busbw: f64,
    dips: bool,
) -> String {
    let (what, verb) = match crossed.resource {
        Resource::Nic => ("the NICs".to_owned(), "set"),
        Resource::GpuPcie => ("the GPUs' PCIe links".to_owned(), "set"),
        Resource::GpuLinks => (crossed.name.replace("of the GPU", "of the GPUs"), "together set"),
        Resource::BetweenSockets => ("the link between the sockets".to_owned(), "sets"),
        Resource::NicSlot | Resource::NvLink => (crossed.name.clone(), "sets"),
    };
    let figure = match (crossed.payload_rate, verb) {
        (Some(_), _) => "what their packets can carry",
        (None, "sets") => "its line rate",
        (None, _) => "their line rate",
    };
    let share = format!(
        "{} of {} GB/s, {} % of {figure}",
        rate(busbw),
        rate(crossed.busbw),
        percent(busbw / crossed.busbw * 100.0)
    );
    let what = capital(&what);
    let what = what.trim_end_matches('.');
    let limit =
        ceiling.choice.certain().map_or("the limit".to_owned(), |of| format!("the limit of {of}"));
    let expected = expected(context, ceiling, ", and ", "");
    match context.judgement.rating {
        Some(Rating::At) => format!("{what} {verb} {limit}, and the result is at it: {share}."),
        Some(Rating::AsExpected) => {
            // A dip is wrong at its sizes, whatever the largest size reaches.
            let fine = if dips { "" } else { " Nothing is wrong." };
            format!("{what} {verb} {limit}: {share}{expected}.{fine}")
        }
        Some(Rating::Healthy) => format!("{what} {verb} {limit}: {share}{expected}."),
        _ => format!("{what} {verb} {limit}: {share}{expected}. Something else costs the rest."),
    }
}

fn without_limit(context: &Context<'_>) -> String {
    let Some(measured) = &context.measured else {
        return "The source has no figure to explain.".to_owned();
    };
    let figure = match (measured.busbw, measured.time_us) {
        (Some(busbw), _) => format!("{} GB/s{}", rate(busbw), of_size(measured.size)),
        (None, Some(us)) => format!("{} at {}", time(us), bytes(measured.size)),
        (None, None) => "What was measured".to_owned(),
    };
    if context.run.test.name.as_deref() == Some(Benchmark::Replay.name()) {
        return format!(
            "{figure} of calls in all. A sequence has no hardware limit here; compare it with another run (busbw compare A B)."
        );
    }
    match &context.judgement.bottleneck {
        Bottleneck::Unknown { missing } if !missing.is_empty() => {
            format!("{figure}; to rate it, busbw needs {}.", list(missing, "and"))
        }
        _ if context.run.test.figure == Figure::Latency => format!(
            "{figure}. Latency has no hardware limit here; compare it with another run (busbw compare A B)."
        ),
        _ => format!("{figure}. No limit is known for this test."),
    }
}
