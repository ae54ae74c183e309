//! A sweep as comma-separated values: a line a cell, with one heading.
//! Not the JSON: that is the outcome itself.

use busbw_stats::Verdict;

use busbw_analysis::sweep::Outcome;
use busbw_render::lines;

/// The heading.
const HEADING: &str = "environment,settings,size,case,launches,time_us,low_us,high_us,algbw,busbw,batches,iterations,multiple,verdict,asked,proven,note,beside\n";

/// All cells. An environment without a cell has one line with the reason.
pub fn csv(outcome: &Outcome) -> String {
    let mut records = Vec::new();
    for (number, environment) in outcome.environments.iter().enumerate() {
        let failed = environment.failed.as_ref().map(|failed| format!("failed: {}", failed.reason));
        let waived = environment.waived.as_ref().map(|reason| format!("waived: {reason}"));
        let note = waived.or(failed).unwrap_or_default();
        let (asked, proven) = environment.transport.as_ref().map_or_else(Default::default, |t| {
            (t.asked.clone(), format!("{}: {}", t.verdict.word(), t.found))
        });
        let first = vec![environment.name.clone(), environment.settings()];
        let last = |is_beside: bool| {
            let beside = if is_beside { "yes" } else { "" };
            vec![asked.clone(), proven.clone(), note.clone(), beside.to_owned()]
        };
        let cells = outcome.rows.iter().filter_map(|row| Some((row, row.cell(number)?)));
        let mut any = false;
        for (row, cell) in cells {
            any = true;
            let (low, high) = cell
                .interval_us
                .map_or_else(Default::default, |i| (i.low.to_string(), i.high.to_string()));
            let ratio = cell.against.and_then(|against| against.ratio);
            let verdict = cell.against.map_or("", |against| word(&against.verdict));
            let middle = vec![
                row.size.to_string(),
                row.case.join(" "),
                cell.launches_us.len().to_string(),
                cell.time_us.to_string(),
                low,
                high,
                cell.algbw.to_string(),
                cell.busbw.to_string(),
                cell.batches.to_string(),
                cell.iterations.to_string(),
                ratio.map_or_else(String::new, |ratio| (1.0 / ratio).to_string()),
                verdict.to_owned(),
            ];
            records.push([first.clone(), middle, last(cell.is_beside)].concat());
        }
        if !any {
            records.push([first, vec![String::new(); 12], last(false)].concat());
        }
    }
    HEADING.to_owned() + &lines(&records)
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Same => "same",
        Verdict::Inconclusive(_) => "undecided",
    }
}
