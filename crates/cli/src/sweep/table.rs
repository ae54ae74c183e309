//! A sweep as a table: rows are sizes, columns environments.
//! Not what the figures mean (`busbw_analysis::sweep`).

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write};

use busbw_core::messages::Messages;
use busbw_stats::{Comparison, Verdict};

use busbw_analysis::sweep::Show;
use busbw_analysis::sweep::{Cell, Outcome, Tried, sentence};
use busbw_core::columns::aligned;

/// The complete table: a line for each environment above it, the closing sentence below it.
pub fn table(outcome: &Outcome) -> String {
    let mut text = head(outcome);
    for (number, environment) in outcome.environments.iter().enumerate() {
        let baseline = if outcome.baseline == Some(number) { " (baseline)" } else { "" };
        let settings = environment.settings();
        let status = status(environment, outcome.launches);
        let _ = writeln!(text, "# {}: {settings}{baseline}{status}", environment.name);
    }
    text.push_str("#\n");
    text.push_str(&cells(outcome));
    text.push_str(&foot(outcome));
    text
}

/// The first line: benchmark, hardware and number of launches.
pub fn head(outcome: &Outcome) -> String {
    let is_messages = Messages::from_name(&outcome.program).is_some();
    let what = match outcome.show {
        Show::Algbw if is_messages => "bandwidth in GB/s",
        Show::Time if is_messages => "time of a message in us",
        Show::Busbw => "busbw in GB/s, out of place",
        Show::Algbw => "algbw in GB/s, out of place",
        Show::Time => "time in us, out of place",
    };
    let mut text = format!(
        "# busbw {}: {}, {}\n# {what}; {}\n",
        outcome.command,
        outcome.program,
        outcome.on,
        launches(outcome),
    );
    if outcome.baseline.is_some() {
        text.push_str(
            "# ×: times as fast as the baseline; + faster, - slower, = the same, ? not decided by these launches\n",
        );
    }
    text.push_str("#\n");
    text
}

/// The number of launches behind the figures of each column, and whether that number allows an
/// interval.
fn launches(outcome: &Outcome) -> String {
    let cells = |number| outcome.rows.iter().filter_map(move |row| row.cell(number));
    // Columns by their number of launches; an interrupted launch has the first rows only.
    let mut groups: BTreeMap<Reverse<(usize, usize)>, Vec<&str>> = BTreeMap::new();
    for (number, environment) in outcome.environments.iter().enumerate() {
        let counts = || cells(number).map(|cell| cell.launches_us.len());
        if let (Some(least), Some(most)) = (counts().min(), counts().max()) {
            groups.entry(Reverse((most, least))).or_default().push(&environment.name);
        }
    }
    let range = |(most, least): (usize, usize)| match most - least {
        0 => most.to_string(),
        _ => format!("{least} to {most}"),
    };
    let of = match groups.iter().collect::<Vec<_>>().as_slice() {
        [] => return "no launch has a result".to_owned(),
        [(Reverse((1, 1)), _)] => "one launch each".to_owned(),
        [(Reverse(counts), _)] => format!("medians of {} launches in turns", range(*counts)),
        several => {
            let each = several.iter().map(|(Reverse(counts), names)| {
                format!("{} of {}", range(*counts), names.join(", "))
            });
            format!("medians of launches in turns: {}", each.collect::<Vec<_>>().join("; "))
        }
    };
    let mut all = (0..outcome.environments.len()).flat_map(cells);
    let interval = match all.any(|cell| cell.interval_us.is_some()) {
        true => "± half their 95 % interval",
        false => "too few for an interval (6)",
    };
    format!("{of}, {interval}")
}

/// The status of an environment, unless it is complete.
fn status(environment: &Tried, wanted: u32) -> String {
    match (&environment.waived, &environment.failed) {
        (Some(reason), _) => format!("\n#    WAIVED: {reason}"),
        (None, Some(failed)) => format!("\n#    FAILED (exit {}): {}", failed.exit, failed.reason),
        (None, None) if environment.launches < wanted as usize => {
            let why = if environment.cut { "time" } else { "interrupted" };
            format!("\n#    {} of {wanted} launches ({why})", environment.launches)
        }
        (None, None) => String::new(),
    }
}

/// The rows, under their headings. Environments without a figure have no column.
pub fn cells(outcome: &Outcome) -> String {
    let shown: Vec<usize> = (0..outcome.environments.len())
        .filter(|number| outcome.rows.iter().any(|row| row.cell(*number).is_some()))
        .collect();
    let mut lines: Vec<Vec<String>> = vec![vec!["size".to_owned()]];
    for number in &shown {
        let name = outcome.environments.get(*number).map_or("", |environment| &environment.name);
        lines[0].extend([name.to_owned(), "±%".to_owned()]);
        if outcome.baseline.is_some_and(|baseline| baseline != *number) {
            lines[0].push("×".to_owned());
        }
    }
    for row in &outcome.rows {
        let mut line = vec![row.label()];
        for number in &shown {
            let cell = row.cell(*number);
            line.push(cell.map_or("-".to_owned(), |cell| figure(outcome.show, cell)));
            line.push(cell.and_then(half_width).unwrap_or_default());
            if outcome.baseline.is_some_and(|baseline| baseline != *number) {
                let against = cell.and_then(|cell| cell.against.as_ref());
                line.push(against.map_or("-".to_owned(), multiple));
            }
        }
        lines.push(line);
    }
    aligned(&lines)
}

/// The lines below: cut sizes, time, the best environment.
pub fn foot(outcome: &Outcome) -> String {
    let mut text = String::from("#\n");
    for (number, environment) in outcome.environments.iter().enumerate() {
        let cut = outcome.rows.iter().filter_map(|row| Some((row, row.cell(number)?)));
        let cut: Vec<String> = cut
            .filter(|(_, cell)| cell.cut)
            .map(|(row, cell)| format!("{} {}×{}", row.label(), cell.batches, cell.iterations))
            .collect();
        if !cut.is_empty() {
            let _ = writeln!(
                text,
                "# {}: time cut batches × iterations of {}",
                environment.name,
                cut.join(", ")
            );
        }
    }
    let limit = outcome.time_limit_s.map_or(String::new(), |limit| format!(" of {limit:.0} s"));
    let end = if outcome.interrupted { "; interrupted" } else { "" };
    let _ = writeln!(text, "# took {:.0} s{limit}{end}", outcome.took_s);
    if let Some(best) = sentence(outcome) {
        let _ = writeln!(text, "# {best}");
    }
    text
}

/// The text of a cell.
pub fn figure(show: Show, cell: &Cell) -> String {
    let value = match show {
        Show::Busbw => cell.busbw,
        Show::Algbw => cell.algbw,
        Show::Time => cell.time_us,
    };
    digits(value)
}

/// Two decimals, and more below 0.1 so that small figures do not vanish.
pub fn digits(value: f64) -> String {
    match value.abs() {
        small if small > 0.0 && small < 0.0995 => format!("{value:.4}"),
        _ => format!("{value:.2}"),
    }
}

fn half_width(cell: &Cell) -> Option<String> {
    let width = cell.interval_us.as_ref()?.relative_half_width(cell.time_us)?;
    Some(format!("{:.1}", width * 100.0))
}

/// `1.32+`: the speed-up over the baseline, and whether it is significant.
pub fn multiple(comparison: &Comparison) -> String {
    let sign = match comparison.verdict {
        Verdict::Faster => "+",
        Verdict::Slower => "-",
        Verdict::Same => "=",
        Verdict::Inconclusive(_) => "?",
    };
    comparison.ratio.map_or("-".to_owned(), |ratio| format!("{}{sign}", digits(1.0 / ratio)))
}

#[cfg(test)]
mod tests {
    use busbw_analysis::sweep::{
        Failed,
        example::{near, outcome},
    };

    use super::*;

    #[test]
    fn one_table() {
        let mut outcome = outcome(&[
            (1 << 20, vec![near(50.0), near(25.0), Vec::new()]),
            (4 << 20, vec![near(100.0), near(100.1), Vec::new()]),
        ]);
        let [a, b, c] = &mut outcome.environments[..] else { panic!("there are three") };
        a.variables.insert("NCCL_ALGO".to_owned(), None);
        b.variables.insert("NCCL_ALGO".to_owned(), Some("Ring".to_owned()));
        (b.launches, b.cut) = (4, true);
        c.variables.insert("NCCL_ALGO".to_owned(), Some("Rign".to_owned()));
        c.failed = Some(Failed { exit: 3, reason: "no such algorithm".to_owned() });
        for row in &mut outcome.rows {
            if let Some(cell) = &mut row.cells[1] {
                cell.launches_us.truncate(4);
                cell.interval_us = None;
            }
        }
        if let Some(cell) = &mut outcome.rows[1].cells[1] {
            (cell.cut, cell.batches, cell.iterations) = (true, 1, 3);
        }
        let expected = "\
# busbw sweep: all_reduce_perf, 8 ranks on nccl (NVIDIA H200), NCCL 2.28.9, host vm
# busbw in GB/s, out of place; medians of launches in turns: 6 of A; 4 of B, ± half their 95 % interval
# ×: times as fast as the baseline; + faster, - slower, = the same, ? not decided by these launches
#
# A: NCCL_ALGO not set (baseline)
# B: NCCL_ALGO=Ring
#    4 of 6 launches (time)
# C: NCCL_ALGO=Rign
#    FAILED (exit 3): no such algorithm
#
# size      A   ±%      B  ±%      ×
    1M  36.70  0.2  73.40      2.00+
    4M  73.40  0.2  73.33      1.00=
#
# B: time cut batches × iterations of 4M 1×3
# took 61 s of 120 s
# fastest: B at 1M, not decided at 4M (A, B); overall B
";
        assert_eq!(table(&outcome), expected);
    }

    /// The head says how many launches the figures are of, whatever was asked for.
    #[test]
    fn as_many_launches_as_there_were() {
        let few = |times: &[f64]| vec![(64, vec![times.to_vec()])];
        for (sizes, said) in [
            (few(&[1.0; 6]), "medians of 6 launches in turns, ± half their 95 % interval"),
            (few(&[1.0; 3]), "medians of 3 launches in turns, too few for an interval (6)"),
            (few(&[1.0]), "one launch each, too few for an interval (6)"),
            (
                vec![(64, vec![vec![1.0; 3]]), (128, vec![vec![1.0; 2]])],
                "medians of 2 to 3 launches in turns, too few for an interval (6)",
            ),
            (few(&[]), "no launch has a result"),
        ] {
            let head = head(&outcome(&sizes));
            assert!(head.contains(&format!("out of place; {said}\n")), "{said}: {head}");
        }
    }
}
