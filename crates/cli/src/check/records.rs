//! From the record of a launch to what a check takes of it: figures, or why there are none and who failed.
//! Not starting launches (`stages`), and not the lines.

use busbw_analysis::{
    check::{CollectiveFigures, Failure, LimitShare, Look, Who},
    comparison::Side,
    explain::{Explanation, Hardware, Verdict, explain},
};
use busbw_core::{exit::Exit, pairs::Pairs, record::Folded};
use busbw_logs::measurement::Measurement;

use crate::sweep::Launch;

/// The figures of a launch of the collective.
///
/// # Errors
/// It failed.
pub(super) fn figures(launch: &Launch, hardware: &Hardware) -> Result<CollectiveFigures, Failure> {
    let record = completed(launch)?;
    let run = Measurement::from_record(record.clone(), "");
    let side = Side::of("this check", [&run]);
    if side.points.is_empty() {
        let waived = record.rows.iter().find_map(|row| row.waived.clone());
        let why = waived.unwrap_or_else(|| "no size was measured".to_owned());
        return Err(Failure::Tool(why));
    }
    let explanations = explain(vec![run], hardware);
    let limit = explanations.first().map(share);
    Ok(CollectiveFigures { side, ranks: record.run.plan.ranks(), limit })
}

/// A run's share of its limit, or what is missing to tell.
fn share(explanation: &Explanation) -> Result<LimitShare, String> {
    let measured = explanation.measured.as_ref();
    let known = measured.zip(explanation.limit.as_ref()).zip(explanation.percent);
    let Some(((measured, limit), percent)) = known else {
        return Err(match explanation.missing.first() {
            Some(missing) => format!("missing: {missing}"),
            None => "nothing tells what limits this collective".to_owned(),
        });
    };
    if explanation.verdict == Verdict::Unknown {
        // Links that only a name suggests are no limit to fail by.
        return Err(format!("assumed: {}", explanation.assumed.join("; ")));
    }
    let crossed = limit.resources.iter().find(|crossed| crossed.resource == limit.set_by);
    let set_by = crossed.map_or(limit.set_by.name(), |crossed| &crossed.name);
    Ok(LimitShare {
        size: measured.size,
        busbw: measured.busbw.unwrap_or(percent / 100.0 * limit.busbw),
        limit: limit.busbw,
        percent,
        set_by: set_by.to_owned(),
    })
}

/// The matrices of a launch of pairs.
///
/// # Errors
/// It failed.
pub(super) fn looks(launch: &Launch) -> Result<Vec<Look>, Failure> {
    let record = completed(launch)?;
    let look = |row| {
        let of = Pairs::of_row(&record.run, &record.verbs, row)?;
        let pairs = row.pairs.as_ref()?;
        Some(Look { test: pairs.test, labels: of.labels, verdict: pairs.verdict.clone() })
    };
    let looks: Vec<Look> = record.rows.iter().filter_map(look).collect();
    if looks.is_empty() {
        let waived = record.rows.iter().find_map(|row| row.waived.clone());
        return Err(Failure::Tool(waived.unwrap_or_else(|| "no pair was measured".to_owned())));
    }
    Ok(looks)
}

/// The hosts of a record, in the order of their first ranks.
pub(super) fn hosts(record: &Folded) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    for device in &record.run.devices {
        if !hosts.contains(&device.host) {
            hosts.push(device.host.clone());
        }
    }
    hosts
}

/// The record of a launch that completed with right data.
fn completed(launch: &Launch) -> Result<&Folded, Failure> {
    match (&launch.failure, &launch.record) {
        (None, Some(record)) => Ok(record),
        (Some((code, text)), record) => Err(failure(*code, text, record.as_ref())),
        (None, None) => Err(Failure::Tool("the launch left no record".to_owned())),
    }
}

/// Whose failure it is. A record begins when all ranks have come together: before that nothing tells the launcher's
/// failure from a host's.
fn failure(code: u8, text: &str, record: Option<&Folded>) -> Failure {
    // The record goes with this process, unless the user keeps it.
    let text = text.trim_end_matches('.').trim_end_matches("; its record says where").to_owned();
    let blames = [Exit::Library, Exit::Timeout, Exit::RankLost, Exit::WrongData].map(Exit::code);
    let (true, Some(record)) = (blames.contains(&code), record) else {
        return Failure::Tool(text);
    };
    let rank = match code == Exit::WrongData.code() {
        true => wrong_rank(record),
        // Others report a rank that does not answer: only a lost one is surely the one that the message names.
        false => named_rank(&text).filter(|_| code == Exit::RankLost.code()),
    };
    let device = rank.and_then(|rank| record.run.devices.iter().find(|d| d.rank == rank));
    let who = device.map(|device| Who { rank: device.rank, host: device.host.clone() });
    Failure::Job { text, who }
}

/// The only rank with wrong data; none where several have them, since a collective spreads what one rank sends.
fn wrong_rank(record: &Folded) -> Option<usize> {
    let halves = record.rows.iter().flat_map(|row| row.out_of_place.iter().chain(&row.in_place));
    let mut ranks = halves.flat_map(|half| &half.wrong_places).map(|place| place.rank);
    let first = ranks.next()?;
    ranks.all(|rank| rank == first).then_some(first)
}

/// The first `rank N` of a message.
fn named_rank(text: &str) -> Option<usize> {
    text.split("rank ").skip(1).find_map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_ranks_have_met_it_is_the_tools_failure() {
        let tool = |code| matches!(failure(code, "x", None), Failure::Tool(_));
        for exit in [Exit::Usage, Exit::Library, Exit::Timeout, Exit::RankLost, Exit::Impossible] {
            assert!(tool(exit.code()), "{exit:?}");
        }
    }

    #[test]
    fn the_rank_that_a_message_names() {
        assert_eq!(named_rank("rank 3 (host b) was lost"), Some(3));
        assert_eq!(named_rank("the ranks 1 and 2; rank 12: gone"), Some(12));
        assert_eq!(named_rank("no rank at all"), None);
    }
}
