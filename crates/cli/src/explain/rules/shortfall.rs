//! Where the limit lies, as seen from what NCCL expects, and what a result far below it means.
//! Not the limit itself (`limit`).

use super::super::{
    context::Context,
    finding::{Confidence, Finding, Weight, percent, rate},
    limit::Culprit,
    sentence::FAR,
};

pub(super) fn look(context: &Context<'_>) -> Vec<Finding> {
    let (Some(ceiling), Some(busbw), Some(of_limit)) =
        (&context.ceiling, context.busbw(), context.percent())
    else {
        return Vec::new();
    };
    if of_limit > 100.5 {
        return vec![
            Finding::new("above-the-limit", Weight::Wrong, Confidence::Certain, "the result is above what the machine as described allows")
                .evidence(format!("{} of {} GB/s", rate(busbw), rate(ceiling.busbw)))
                .remedy("the machine is not the one described, ranks were placed otherwise, or figures were edited")
                .confirm("NCCL_DEBUG=INFO …, and busbw topo on every host"),
        ];
    }
    let expected = ceiling.nccl_expects.map(|expects| busbw / expects * 100.0);
    if of_limit >= FAR || expected.is_some_and(|percent| percent >= 90.0) {
        return Vec::new();
    }
    let silent = context.run.library.is_empty();
    let mut finding = Finding::new(
        "far-below-the-limit",
        Weight::Slow,
        Confidence::Certain,
        format!(
            "{} % of the limit: the hardware as described does not explain it",
            percent(of_limit)
        ),
    )
    .evidence(format!("{} of {} GB/s", rate(busbw), rate(ceiling.busbw)));
    if let Some(expected) = expected {
        finding = finding.evidence(format!("{} % of what NCCL expects", percent(expected)));
    }
    if silent {
        finding = finding.remedy("run it once with NCCL_DEBUG=INFO, and give that log to busbw explain together with this one");
    }
    if let Culprit::Unknown { missing } = &context.culprit
        && !missing.is_empty()
    {
        finding = finding.evidence(format!("not known: {}", missing.join("; ")));
    }
    vec![finding.confirm("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING …; nvidia-smi nvlink --status; nvidia-smi topo -m")]
}
