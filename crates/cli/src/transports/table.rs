//! Transports as tables: requested and confirmed ones, then sizes.
//! Not the figures' origin (`evidence`).

use std::fmt::Write;

use super::layers;
use crate::sweep::{cells, digits, figure, foot, head, multiple};
use busbw_analysis::sweep::{Cell, Outcome, SizeRow};
use busbw_analysis::sweep::{Conclusion, Percent, Transport};
use busbw_core::columns::aligned;

/// The complete text.
pub fn table(outcome: &Outcome) -> String {
    let mut text = head(outcome);
    text.push_str(&evidence_lines(outcome));
    text.push_str(&notes(outcome));
    text.push_str("#\n");
    text.push_str(&cells(outcome));
    text.push_str(&foot(outcome));
    text
}

/// A line for each transport, with its figure at the largest size.
fn evidence_lines(outcome: &Outcome) -> String {
    let largest = outcome.rows.last();
    let at = largest.map_or("-".to_owned(), |row| format!("at {}", row.label()));
    let mut heading = vec!["asked".to_owned(), "verdict".to_owned(), "ran".to_owned()];
    heading.extend(["by".to_owned(), at, "×".to_owned(), "% of limit".to_owned()]);
    let mut lines = vec![heading];
    for (number, environment) in outcome.environments.iter().enumerate() {
        let of = shown(outcome, number);
        let cell = of.map(|(_, cell)| cell);
        let mut line = vec![environment.name.clone()];
        let transport = environment.transport.as_ref();
        match (transport, &environment.waived, &environment.failed) {
            (_, Some(_), _) => line.extend(["WAIVED", "-", "-"].map(str::to_owned)),
            (None, ..) => line.extend(["FAILED", "-", "-"].map(str::to_owned)),
            (Some(_), None, Some(_)) => line.extend(["FAILED", "-", "-"].map(str::to_owned)),
            (Some(found), None, None) => {
                let ran = if found.found.is_empty() { "-" } else { &found.found };
                line.extend([found.verdict.word().to_owned(), ran.to_owned(), found.by()]);
            }
        }
        let mark = if cell.is_some_and(|cell| cell.cut) { "*" } else { "" };
        let of = of.filter(|(row, _)| largest.is_some_and(|largest| largest.size != row.size));
        let size = of.map_or(String::new(), |(row, _)| format!(" ({})", row.label()));
        line.push(cell.map_or("-".to_owned(), |cell| figure(outcome.show, cell) + mark + &size));
        let against = cell.and_then(|cell| cell.against.as_ref()).map(multiple);
        let is_baseline = outcome.baseline == Some(number) && cell.is_some();
        line.push(against.unwrap_or_else(|| if is_baseline { "1" } else { "-" }.to_owned()));
        line.push(percent(transport));
        lines.push(line);
    }
    aligned_left(&lines, 4)
}

fn percent(transport: Option<&Transport>) -> String {
    match transport.and_then(|found| found.limit.as_ref()) {
        Some(Percent::Known(percent)) => format!("{} %", digits(*percent)),
        _ => "-".to_owned(),
    }
}

/// Details of the lines above: settings, reasons, rules.
fn notes(outcome: &Outcome) -> String {
    let mut text = "#\n".to_owned();
    for environment in &outcome.environments {
        let name = &environment.name;
        if let Some(reason) = &environment.waived {
            let _ = writeln!(text, "# {name}: WAIVED: {reason}");
            continue;
        }
        let _ = writeln!(text, "# {name}: {}", environment.settings());
        if let Some(failed) = &environment.failed {
            let _ = writeln!(text, "#    FAILED (exit {}): {}", failed.exit, failed.reason);
        } else if environment.launches < outcome.launches as usize {
            let why = if environment.cut { "time" } else { "interrupted" };
            let _ = writeln!(
                text,
                "#    {} of {} launches ({why})",
                environment.launches, outcome.launches
            );
        }
        let Some(found) = environment.transport.as_ref().filter(|_| environment.failed.is_none())
        else {
            continue;
        };
        let why = found.why.as_deref().unwrap_or("");
        match found.verdict {
            Conclusion::Proven => {}
            Conclusion::Replaced => {
                let _ = writeln!(text, "#    asked for {name}, got {}: {why}", found.found);
            }
            Conclusion::Mixed => {
                let _ = writeln!(text, "#    not only {name}, but {}: {why}", found.found);
            }
            Conclusion::Conflicting | Conclusion::Unproven => {
                let _ = writeln!(text, "#    {}: {why}", found.verdict.word());
            }
        }
    }
    if a_figure_is_cut(outcome) {
        text.push_str("# *: measured with fewer batches or iterations than asked for: the list below the table\n");
    }
    let unknown = outcome.environments.iter().find_map(|environment| {
        match environment.transport.as_ref()?.limit.as_ref()? {
            Percent::Unknown(why) => Some(why),
            Percent::Known(_) => None,
        }
    });
    if let Some(why) = unknown {
        let _ = writeln!(text, "# % of limit: - where it is not known: {why}");
    }
    for line in layers::lines(outcome) {
        let _ = writeln!(text, "# {line}");
    }
    text
}

/// The figure of a transport's line: of the largest size, or of messages beside it, which end before, of their own largest.
fn shown(outcome: &Outcome, number: usize) -> Option<(&SizeRow, &Cell)> {
    let mut all = outcome.rows.iter().rev().map(|row| (row, row.cell(number)));
    let largest = all.next().and_then(|(row, cell)| Some((row, cell?)));
    largest.or_else(|| {
        let shorter = all.find_map(|(row, cell)| Some((row, cell?)));
        shorter.filter(|(_, cell)| cell.is_beside)
    })
}

/// Whether the time limit cut a figure of those lines.
fn a_figure_is_cut(outcome: &Outcome) -> bool {
    (0..outcome.environments.len()).any(|n| shown(outcome, n).is_some_and(|(_, cell)| cell.cut))
}

/// The first columns to the left, the others to the right.
fn aligned_left(lines: &[Vec<String>], left: usize) -> String {
    let widest = |column: usize| {
        lines.iter().filter_map(|line| Some(line.get(column)?.chars().count())).max().unwrap_or(0)
    };
    let pad = |line: &Vec<String>| {
        let pad = |(column, cell): (usize, &String)| match column < left {
            true => format!("{cell:<width$}", width = widest(column)),
            false => cell.clone(),
        };
        line.iter().enumerate().map(pad).collect()
    };
    let padded: Vec<Vec<String>> = lines.iter().map(pad).collect();
    aligned(&padded)
}
