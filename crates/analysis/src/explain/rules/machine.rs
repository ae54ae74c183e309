//! A machine that is not the one of the run.
//! Not figures that disagree with the number of ranks (`agreement`).

use super::super::{
    context::Context,
    finding::{Confidence, Finding, Weight},
};

pub(super) fn look(context: &Context<'_>) -> Vec<Finding> {
    let Some(known) = context.machine.as_ref().filter(|known| !known.contradictions.is_empty())
    else {
        return Vec::new();
    };
    let limit = match context.ceiling {
        Some(_) => "; limit and percent are those of another machine",
        None => "",
    };
    vec![
        Finding::new(
            "machine-disagrees",
            Weight::Wrong,
            Confidence::Certain,
            format!("{}{limit}", known.contradictions.join("; ")),
        )
        .evidence("the run's own list of devices, against --machine and --nodes")
        .remedy("name the machine that the run was on, or leave --machine out")
        .confirm("nvidia-smi -L on one of its hosts"),
    ]
}
