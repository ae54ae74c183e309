//! A machine that is not the one of the run.
//! Not figures that disagree with the number of ranks (`agreement`).

use busbw_core::finding::{Confidence, Finding, Severity};

use super::super::context::Context;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let Some(known) = context.machine.as_ref().filter(|known| !known.contradictions.is_empty())
    else {
        return Vec::new();
    };
    let limit = match context.ceiling {
        Some(_) => "; limit and percent belong to another machine",
        None => "",
    };
    vec![
        Finding::new(
            "machine-disagrees",
            Severity::Error,
            format!("{}{limit}", known.contradictions.join("; ")),
        )
        .confidence(Confidence::Certain)
        .evidence("the run's own list of devices, against --machine and --nodes")
        .remedy("give the machine that the run used, or leave --machine out")
        .confirm("nvidia-smi -L on one of its hosts"),
    ]
}
