//! Where the limit lies, as seen from what NCCL expects, and what a result far below it means.
//! Not the limit itself (`limit`).

use busbw_hardware::limits::{Standing, Verdict};

use super::super::{
    context::Context,
    finding::{Confidence, Finding, Weight},
};
use busbw_core::quantity::{list, percent, rate};

pub(super) fn look(context: &Context<'_>) -> Vec<Finding> {
    let judged = &context.judgement;
    let (Some(ceiling), Some(busbw), Some(of_limit)) =
        (&context.ceiling, context.busbw(), judged.percent)
    else {
        return Vec::new();
    };
    let evidence = format!("{} of {} GB/s", rate(busbw), rate(ceiling.busbw));
    match judged.standing {
        Some(Standing::Above) => {
            return vec![
                Finding::new(
                    "above-the-limit",
                    Weight::Wrong,
                    Confidence::Likely,
                    "the result is above what the machine as described allows, so the description is not what ran",
                )
                .evidence(evidence)
                .remedy("give the machine (--machine) and its number of hosts (--nodes) as they were; look for links that the description lacks")
                .confirm("NCCL_DEBUG=INFO …, and busbw topo on every host"),
            ];
        }
        Some(Standing::Below | Standing::FarBelow) if judged.verdict != Verdict::Software => {}
        _ => return Vec::new(),
    }
    let mut finding = Finding::new(
        "far-below-the-limit",
        Weight::Slow,
        Confidence::Likely,
        if ceiling.unchecked.is_empty() {
            format!("{} % of the limit: something else than links holds it back", percent(of_limit))
        } else {
            format!(
                "{} % of the limit: something else than the links that are known holds it back",
                percent(of_limit)
            )
        },
    )
    .evidence(evidence);
    if !ceiling.unchecked.is_empty() {
        finding = finding.evidence(format!("not known: {}", list(&ceiling.unchecked, "and")));
    }
    // Not the likelier algorithm, and no less within its bound.
    let unlikely = ceiling.choice.unlikely.iter().map(|(one, _)| one.name()).collect::<Vec<_>>();
    if !unlikely.is_empty() {
        finding.confidence = Confidence::Possible;
        let algorithm = ceiling.choice.algorithm.name();
        finding = finding.evidence(format!(
            "the limit is that of {algorithm}; if {} ran, it is another one",
            list(&unlikely, "or")
        ));
    }
    if let Some(expected) = judged.of_expected {
        finding = finding.evidence(format!("{} % of what NCCL expects", percent(expected)));
    }
    if let Verdict::Unknown { missing } = &judged.verdict
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
        finding = finding.remedy("run it once with NCCL_DEBUG=INFO, and give that log to busbw explain together with this one");
    }
    let debug = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING …";
    vec![finding.confirm(format!("{debug}; {links}"))]
}
