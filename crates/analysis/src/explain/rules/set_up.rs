//! What NCCL's log says of the way of a result that no limit is known for: channels and transports.
//! Not a log without a table (`log_alone`), and not what of it costs bandwidth (`network`).

use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_library_logs::nccl::transports_set_up;

use super::{super::context::Context, SET_UP, log_alone::channels};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let library = &context.run.library;
    if context.ceiling.is_some() || context.measured.is_none() || library.is_empty() {
        return Vec::new();
    }
    let connected = library.iter().any(|facts| !facts.transports.is_empty());
    let transports = connected.then(|| transports_set_up(library));
    let said: Vec<String> = channels(library).into_iter().chain(transports).collect();
    if said.is_empty() {
        return Vec::new();
    }
    vec![
        Finding::new(SET_UP, Severity::Note, format!("by NCCL's log: {}", said.join("; ")))
            .confidence(Confidence::Certain),
    ]
}
