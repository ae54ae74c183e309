//! Results above the limit, and far below it.
//! Not the limit itself (`limit`).

use busbw_hardware::limits::{Bottleneck, Rating};

use super::{super::context::Context, half_port};
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::{list, percent, rate};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    // The half that is not used is the rest.
    if !half_port::check(context).is_empty() {
        return Vec::new();
    }
    let judged = &context.judgement;
    let (Some(ceiling), Some(busbw), Some(of_limit)) =
        (&context.ceiling, context.busbw(), judged.percent)
    else {
        return Vec::new();
    };
    let evidence = format!("{} of {} GB/s", rate(busbw), rate(ceiling.busbw));
    match judged.rating {
        Some(Rating::Above) => {
            return vec![
                Finding::new("above-the-limit", Severity::Error, "the result is above the limit of the described machine: the description does not match the machine that ran").confidence(Confidence::Likely)
                .evidence(evidence)
                .remedy("correct the machine (--machine) and the number of hosts (--nodes); look for links that the description lacks")
                .confirm("NCCL_DEBUG=INFO …, and busbw topo on every host"),
            ];
        }
        Some(Rating::Below | Rating::FarBelow) if judged.bottleneck != Bottleneck::Software => {}
        _ => return Vec::new(),
    }
    let mut finding = Finding::new(
        "far-below-the-limit",
        Severity::Slow,
        if ceiling.unchecked.is_empty() {
            format!(
                "the result is {} % of the limit: the bottleneck is not a link",
                percent(of_limit)
            )
        } else {
            format!(
                "the result is {} % of the limit: the bottleneck is not one of the known links",
                percent(of_limit)
            )
        },
    )
    .confidence(Confidence::Likely)
    .evidence(evidence);
    if context.by_assumed_links() {
        finding.severity = Severity::Note;
        finding.cause =
            format!("the result is {} % of a limit whose links are assumed", percent(of_limit));
    }
    if !ceiling.unchecked.is_empty() {
        finding = finding.evidence(format!("not known: {}", list(&ceiling.unchecked, "and")));
    }
    // An unlikelier algorithm with a lower bound would explain it.
    let unlikely = ceiling.choice.unlikely.iter().map(|(one, _)| one.name()).collect::<Vec<_>>();
    if !unlikely.is_empty() {
        finding.confidence = Some(Confidence::Possible);
        let algorithm = ceiling.choice.algorithm.name();
        finding = finding.evidence(format!(
            "the limit is that of {algorithm}; if {} ran, the limit is another",
            list(&unlikely, "or")
        ));
    }
    if let Some(expected) = judged.of_expected {
        finding = finding.evidence(format!("{} % of what NCCL expects", percent(expected)));
    }
    if let Bottleneck::Unknown { missing } = &judged.bottleneck
        && !missing.is_empty()
    {
        finding = finding.evidence(format!("not known: {}", missing.join("; ")));
    }
    let amd = context.machine.as_ref().is_some_and(|known| known.machine.links_called() == "xGMI");
    let nvlink = context.machine.as_ref().is_none_or(|known| known.machine.node.nvlink.is_some());
    let links = match (amd, nvlink) {
        (true, _) => "rocm-smi --showtopo; rocm-smi --showxgmierr",
        (false, true) => "nvidia-smi nvlink --status; nvidia-smi topo -m",
        (false, false) => "nvidia-smi topo -m; sudo lspci -vv | grep LnkSta",
    };
    if !context.by_nccl() {
        return vec![finding.confirm(format!("busbw topo on every host; {links}"))];
    }
    if context.run.library.is_empty() {
        finding = finding.remedy("run it once with NCCL_DEBUG=INFO and give that log to busbw explain together with this one");
    }
    let debug = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING …";
    vec![finding.confirm(format!("{debug}; {links}"))]
}
