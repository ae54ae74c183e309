//! Where the limit lies, as seen from what NCCL expects, and what a result far below it means.
//! Not the limit itself (`limit`).

use model::limits::{Algorithm, Candidate, Possible};

use super::super::{
    context::Context,
    finding::{Confidence, Finding, Weight, percent, rate},
    limit::Culprit,
    sentence::FAR,
};

/// Algorithms that would allow a result if something is true that nothing says, and what.
fn allowed_if(context: &Context<'_>, busbw: f64) -> Vec<(Algorithm, String)> {
    let allows = |one: &&Candidate| match &one.limit.payload {
        Some(bound) => !bound.exceeded_by(busbw),
        None => false,
    };
    let candidates = context.candidates.iter().filter(allows);
    candidates
        .filter_map(|one| match &one.possible {
            Possible::If(why) => Some((one.limit.algorithm, why.clone())),
            Possible::Yes | Possible::No(_) => None,
        })
        .collect()
}

pub(super) fn look(context: &Context<'_>) -> Vec<Finding> {
    let (Some(ceiling), Some(busbw), Some(of_limit)) =
        (&context.ceiling, context.busbw(), context.percent())
    else {
        return Vec::new();
    };
    if of_limit > 100.5 {
        let mut finding = Finding::new(
            "above-the-limit",
            Weight::Wrong,
            Confidence::Likely,
            "the result is above what the machine as described allows, so the description is not what ran",
        )
        .evidence(format!("{} of {} GB/s", rate(busbw), rate(ceiling.busbw)));
        for (algorithm, why) in allowed_if(context, busbw) {
            finding = finding.evidence(format!("{} would allow it, {why}", algorithm.name()));
        }
        return vec![
            finding
                .remedy("give the machine (--machine) and its number of hosts (--nodes) as they were; look for links that the description lacks")
                .confirm("NCCL_DEBUG=INFO …, and busbw topo on every host"),
        ];
    }
    let expected = ceiling.nccl_expects.map(|expects| busbw / expects * 100.0);
    // What healthy machines reach by NVLS is a good four fifths of what NCCL expects.
    if of_limit >= FAR
        || expected.is_some_and(|percent| percent >= 80.0)
        || context.culprit == Culprit::Software
    {
        return Vec::new();
    }
    let silent = context.run.library.is_empty();
    let mut finding = Finding::new(
        "far-below-the-limit",
        Weight::Slow,
        Confidence::Likely,
        format!("{} % of the limit: something else than links holds it back", percent(of_limit)),
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
