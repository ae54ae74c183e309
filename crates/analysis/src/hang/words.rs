//! Names of ranks, calls and waits in the sentences of a verdict.
//! Not the verdict (`report`).

use std::collections::BTreeSet;

use busbw_library_logs::failure::ranks;
use busbw_logs::hang::{Call, Evidence, Group};

use super::assess::Who;

/// `AllReduce` as PyTorch and busbw write it.
pub(super) fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars().take(64) {
        if c.is_ascii_uppercase() && !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Their ranks in the job, where each is known.
pub(super) fn of_job<'a>(
    all: impl IntoIterator<Item = &'a Who>,
    evidence: &Evidence,
) -> Option<BTreeSet<u32>> {
    all.into_iter().map(|who| evidence.processes.get(who.process?)?.rank).collect()
}

/// `Ranks 0-3 and 5`; where their ranks in the job are not known those in the communicator.
pub(super) fn named<'a>(
    all: impl IntoIterator<Item = &'a Who> + Clone,
    evidence: &Evidence,
    group: Option<&Group>,
) -> String {
    if let Some(known) = of_job(all.clone(), evidence).filter(|known| !known.is_empty()) {
        return ranks(&known);
    }
    let own: BTreeSet<u32> = all.into_iter().map(|who| who.rank).collect();
    match group {
        Some(group) => format!("{} of {}", ranks(&own), group.name),
        None => ranks(&own),
    }
}

/// With a small letter.
pub(super) fn lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        format!("{}{}", first.to_ascii_lowercase(), chars.as_str())
    })
}

/// `all_reduce number 6 of 262144 elements (Float)`.
pub(super) fn call(call: &Call) -> String {
    let elements = call.elements.filter(|elements| *elements > 0);
    let elements = elements.map_or(String::new(), |elements| {
        let datatype = match call.datatype.as_str() {
            "" => String::new(),
            name => format!(" ({name})"),
        };
        format!(" of {elements} elements{datatype}")
    });
    format!("{} number {}{elements}", call.operation, call.number)
}

/// ` 41 s`, where it is known.
pub(super) fn waited(ms: Option<u64>) -> String {
    match ms {
        None => String::new(),
        Some(ms) if ms < 1000 => format!(" {ms} ms"),
        Some(ms) => format!(" {} s", ms / 1000),
    }
}

/// `1 call`, `3 calls`.
pub(super) fn calls(count: u64) -> String {
    if count == 1 { "1 call".to_owned() } else { format!("{count} calls") }
}
