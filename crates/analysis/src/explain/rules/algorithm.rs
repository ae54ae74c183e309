//! The algorithm that ran: the one that NCCL's log names, or those that the result does not exclude.
//! Not its wording (`choice`).

use super::super::{
    choice::Basis,
    context::{Context, at},
    limit::logged_algorithms,
};
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::{list, rate};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let note = |confidence, cause: String| {
        Finding::new("algorithm", Severity::Note, cause).confidence(confidence)
    };
    if let Some(measured) = &context.measured {
        let logged = logged_algorithms(context, measured.size);
        if !logged.is_empty() {
            let cause = format!("NCCL chose {} {}", list(&logged, "and"), at(measured.size));
            return vec![note(Confidence::Certain, cause).evidence("TUNING lines in NCCL's log")];
        }
    }
    let Some(choice) = context.ceiling.as_ref().map(|ceiling| &ceiling.choice) else {
        return Vec::new();
    };
    let Some(only) = choice.only() else { return Vec::new() };
    let confidence = match choice.basis {
        Basis::Conditional => Confidence::Possible,
        _ => Confidence::Likely,
    };
    let busbw = context.busbw().unwrap_or(0.0);
    let mut found =
        note(confidence, only).evidence(format!("{} GB/s is {}", rate(busbw), choice.above()));
    if let Some(others) = choice.conditional_alternatives(&context.candidates, busbw) {
        found = found.evidence(others);
    }
    vec![found.confirm("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING … | grep -- '-> Algo'")]
}
