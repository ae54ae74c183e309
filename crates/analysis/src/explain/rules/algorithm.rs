//! Which algorithm ran: as NCCL's lines name it, or which ones the result leaves.
//! Not how that is worded (`choice`).

use super::super::{
    choice::Basis,
    context::{Context, at},
    finding::{Confidence, Finding, Weight},
    limit::said_at,
};
use busbw_core::quantity::{list, rate};

pub(super) fn look(context: &Context<'_>) -> Vec<Finding> {
    let note =
        |confidence, cause: String| Finding::new("algorithm", Weight::Note, confidence, cause);
    if let Some(measured) = &context.measured {
        let said = said_at(context, measured.size);
        if !said.is_empty() {
            let cause = format!("NCCL chose {} {}", list(&said, "and"), at(measured.size));
            return vec![note(Confidence::Certain, cause).evidence("NCCL's TUNING lines")];
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
    if let Some(unless) = choice.unless(&context.candidates, busbw) {
        found = found.evidence(unless);
    }
    vec![found.confirm("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING … | grep -- '-> Algo'")]
}
