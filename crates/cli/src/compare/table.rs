//! A comparison as text for people, or as Markdown.
//! Not what the figures mean (`busbw_analysis::comparison`).

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use busbw_analysis::comparison::{Basis, Matched, Point};
use busbw_logs::measurement::Figure;
use busbw_stats::Verdict;

use super::{
    Against, Outcome,
    headline::{headlines, spread},
    sides::Source,
};
use busbw_core::{
    columns::aligned,
    printable::printable,
    quantity::{bytes, count, rate, time},
};

/// Up to this size the time of an operation is shown, not its bandwidth: starting it is most of that.
const MAX_TIMED_BYTES: u64 = 32 << 10;
/// Maximum of points and tables that are listed by name.
const MAX_LISTED: usize = 3;

/// Prints all comparisons.
pub(super) fn print(
    out: &mut impl Write,
    outcome: &Outcome<'_>,
    markdown: bool,
    colour: bool,
) -> io::Result<()> {
    let prefix = if markdown { "- " } else { "# " };
    if !markdown {
        writeln!(out, "# busbw compare")?;
    }
    for (number, one) in outcome.comparisons.iter().enumerate() {
        for line in headlines(&one.matching.rows, &letter(number + 1)) {
            let line = printable(&line);
            match markdown {
                true => writeln!(out, "**{line}**\n")?,
                false => writeln!(out, "# {line}")?,
            }
        }
    }
    let head =
        |side: &Source| printable(&format!("{}: {}", side.side.name, side.about)).into_owned();
    writeln!(out, "{prefix}A {}", head(outcome.baseline))?;
    remarks(out, prefix, "A", outcome.baseline)?;
    for (number, one) in outcome.comparisons.iter().enumerate() {
        let letter = letter(number + 1);
        writeln!(out, "{prefix}{letter} {}", head(one.candidate))?;
        remarks(out, prefix, &letter, one.candidate)?;
    }
    for (number, one) in outcome.comparisons.iter().enumerate() {
        against(out, one, &letter(number + 1), markdown, colour)?;
    }
    if let Some(gate) = &outcome.limit_gate {
        gate.print(out, prefix)?;
    }
    Ok(())
}

fn remarks(out: &mut impl Write, prefix: &str, letter: &str, side: &Source) -> io::Result<()> {
    side.remarks().iter().try_for_each(|remark| writeln!(out, "{prefix}{letter}, {remark}"))
}

/// The letter of a side: A to Z, then AA to AZ, and so on.
pub(super) fn letter(number: usize) -> String {
    let last = char::from(b'A' + (number % 26) as u8);
    match number / 26 {
        0 => last.to_string(),
        before => format!("{}{last}", letter(before - 1)),
    }
}

fn against(
    out: &mut impl Write,
    one: &Against<'_>,
    letter: &str,
    markdown: bool,
    colour: bool,
) -> io::Result<()> {
    let prefix = if markdown { "\n" } else { "# " };
    if !one.differences.is_empty() {
        let differences: Vec<String> = one
            .differences
            .iter()
            .map(|d| {
                printable(&format!("{} {} | {}", d.what, d.baseline, d.candidate)).into_owned()
            })
            .collect();
        writeln!(out, "{prefix}A and {letter} differ: {}", differences.join("; "))?;
    }
    let mut cases: BTreeMap<String, Vec<&Matched>> = BTreeMap::new();
    for row in &one.matching.rows {
        cases.entry(row.point.case()).or_default().push(row);
    }
    for (case, rows) in &cases {
        let title = format!(
            "{case}: busbw in GB/s, or time; {letter}/A is how many times as fast, with its 95 % interval"
        );
        let cells = cells(rows, letter);
        if markdown {
            writeln!(out, "\n**{title}**\n\n{}", as_markdown(&cells))?;
        } else {
            let table = aligned(&cells);
            let table = if colour { coloured(&table) } else { table };
            write!(out, "#\n# {title}\n{table}")?;
        }
    }
    if !markdown {
        writeln!(out, "#")?;
    }
    writeln!(out, "{prefix}{}", summary(&one.matching.rows))?;
    for (side, points) in
        [("A", &one.matching.only_baseline), (letter, &one.matching.only_candidate)]
    {
        if !points.is_empty() {
            writeln!(out, "{prefix}only in {side}: {}", list_points(points))?;
        }
    }
    Ok(())
}

fn cells(rows: &[&Matched], letter: &str) -> Vec<Vec<String>> {
    let [b, ratio] = [letter.to_string(), format!("{letter}/A")];
    let head = ["size", "place", "A", &b, &ratio, "95 %", "verdict"].map(str::to_owned);
    let mut lines = vec![head.to_vec()];
    for row in rows {
        let speeds = row.baseline.busbw.zip(row.candidate.busbw).filter(|_| !is_timed(&row.point));
        let (a, b) = match speeds {
            Some((a, b)) => (rate(a), rate(b)),
            None => (time(row.baseline.time_us), time(row.candidate.time_us)),
        };
        lines.push(vec![
            bytes(row.point.size).replace(' ', ""),
            if row.point.in_place { "in" } else { "out" }.to_owned(),
            a,
            b,
            format!("{:.3}", row.speed),
            row.interval.map_or("-".to_owned(), |i| format!("{:.3}-{:.3}", i.low, i.high)),
            verdict(row).to_owned(),
        ]);
    }
    lines
}

/// Whether a point's figure is its time: it says nothing of bandwidth.
fn is_timed(point: &Point) -> bool {
    point.figure == Figure::Latency || point.size <= MAX_TIMED_BYTES
}

pub(super) fn verdict(row: &Matched) -> &'static str {
    match row.verdict {
        _ if row.candidate.wrong > 0 => "WRONG data",
        _ if row.baseline.wrong > 0 => "WRONG data in A",
        Verdict::Same => "same",
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Inconclusive(_) => "inconclusive",
    }
}

fn coloured(table: &str) -> String {
    table
        .replace("  slower\n", "  \x1b[31mslower\x1b[0m\n")
        .replace("  faster\n", "  \x1b[32mfaster\x1b[0m\n")
}

pub(super) fn as_markdown(lines: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        text.push_str(&format!("| {} |\n", line.join(" | ")));
        if number == 0 {
            text.push_str(&format!("|{}\n", "---:|".repeat(line.len())));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// The number of each verdict, and the most frequent reason for inconclusive ones.
fn summary(rows: &[Matched]) -> String {
    if rows.is_empty() {
        return "no point in common".to_owned();
    }
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows {
        *counts.entry(verdict(row)).or_default() += 1;
        if let Verdict::Inconclusive(reason) = row.verdict {
            // The reason up to its figures, which differ from row to row.
            let text = reason.to_string();
            let short = text.split(" (").next().unwrap_or(&text).to_owned();
            *reasons.entry(short).or_default() += 1;
        }
    }
    let counted: Vec<String> =
        ["WRONG data", "WRONG data in A", "same", "faster", "slower", "inconclusive"]
            .iter()
            .filter_map(|word| Some(format!("{} {word}", counts.get(word)?)))
            .collect();
    let mut text = format!("{}: {}", count(rows.len() as u64, "point"), counted.join(", "));
    if let Some((reason, _)) = reasons.iter().max_by_key(|(_, number)| **number) {
        text.push_str(&format!(" ({reason})"));
    }
    let by_history: Vec<&Matched> =
        rows.iter().filter(|row| matches!(row.basis, Basis::History(_))).collect();
    if let Some(spread) = spread(&by_history) {
        text.push_str(&format!("; {} of them {spread}", by_history.len()));
    }
    text
}

/// The number of points, with the first of them by name.
pub(super) fn list_points(points: &[Point]) -> String {
    let named: Vec<String> = points.iter().take(MAX_LISTED).map(point_name).collect();
    let more = if points.len() > MAX_LISTED { ", …" } else { "" };
    format!("{} ({}{more})", count(points.len() as u64, "point"), named.join("; "))
}

/// The tables of a side with their sizes: what it could share with another side.
pub(super) fn describe_tables(points: &[Point]) -> String {
    let mut cases: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for point in points {
        let (least, most) = cases.entry(point.case()).or_insert((point.size, point.size));
        (*least, *most) = ((*least).min(point.size), (*most).max(point.size));
    }
    let more = cases.len().saturating_sub(MAX_LISTED);
    let case = |(case, (least, most)): (String, (u64, u64))| match least == most {
        true => format!("{case}, {}", bytes(least)),
        false => format!("{case}, {} to {}", bytes(least), bytes(most)),
    };
    let mut tables: Vec<String> = cases.into_iter().take(MAX_LISTED).map(case).collect();
    if more > 0 {
        tables.push(count(more as u64, "more table"));
    }
    if tables.is_empty() { "no figure".to_owned() } else { tables.join(" and ") }
}

fn point_name(point: &Point) -> String {
    let place = if point.in_place { " in place" } else { "" };
    format!("{}, {}{place}", point.case(), bytes(point.size))
}

fn launches(number: usize) -> String {
    if number == 1 { "1 launch".to_owned() } else { format!("{number} launches") }
}

/// A point with its ratio and interval, for a gate's message.
pub(super) fn sentence(row: &Matched) -> String {
    let interval = match row.interval {
        Some(interval) => format!(" ({:.3} to {:.3})", interval.low, interval.high),
        None => {
            let [a, b] = [&row.baseline, &row.candidate].map(|side| side.launches_us.len());
            format!(", from {} against {}", launches(b), launches(a))
        }
    };
    format!("{}: {:.3} times as fast{interval}", point_name(&row.point), row.speed)
}
