//! One communicator by several sources: the one that tells most of it.
//! Not which groups are one communicator (`busbw_logs::hang`).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use busbw_logs::hang::{Evidence, Source};

use super::assess::{State, Stuck};

/// Calls in which ranks wait, one of collectives for each communicator, and messages; and the first mismatch of each communicator.
pub(super) fn merged<'a>(
    evidence: &Evidence,
    states: &'a [State],
) -> (Vec<&'a Stuck>, Vec<&'a Stuck>) {
    let group = |one: &Stuck| evidence.groups.get(one.group);
    let communicator = |one: &Stuck| group(one).map_or(one.group, |group| group.communicator);
    let source = |one: &Stuck| group(one).map_or(Source::Log, |group| group.source);
    let mut mismatches: BTreeMap<usize, &Stuck> = BTreeMap::new();
    for one in states.iter().filter_map(|state| state.mismatch.as_ref()) {
        let known = mismatches.entry(communicator(one)).or_insert(one);
        if source(one) < source(known) {
            *known = one;
        }
    }
    let mut best: BTreeMap<usize, &Stuck> = BTreeMap::new();
    let mut messages = Vec::new();
    for one in states.iter().flat_map(|state| &state.stuck) {
        if one.is_message {
            messages.push(one);
            continue;
        }
        let key = communicator(one);
        // Counts differ because of the call that is known.
        if source(one) == Source::Ras && one.differing.is_some() && mismatches.contains_key(&key) {
            continue;
        }
        let known = best.entry(key).or_insert(one);
        if tells(one, source(one)) > tells(known, source(known)) {
            *known = one;
        }
    }
    // In the order of the evidence.
    let mut stuck: Vec<&Stuck> = best.into_values().chain(messages).collect();
    stuck.sort_by_key(|one| one.group);
    (stuck, mismatches.into_values().collect())
}

/// How much a source tells: of all ranks, of what is over, and who has not come. Counts of launches differ where ranks run ahead.
fn tells(one: &Stuck, source: Source) -> impl Ord + use<> {
    (
        Reverse(one.unknown.len()),
        source != Source::Ras,
        one.differing.is_some(),
        !one.absent.is_empty(),
        Reverse(source),
    )
}
