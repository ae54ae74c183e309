//! Prints what was read: each run, then the counts of a source's lines.
//! Not its meaning (`busbw-analysis`).

use std::io::{self, Write};

use crate::measurement::{Device, Measurement, disagreements, stated_average_differs};

use super::Lines;
use busbw_core::{
    printable::printable,
    quantity::{bytes, count, list, rate, time},
};

/// Maximum of figures printed that disagree with the others of their row.
const MAX_DISAGREEMENTS_SHOWN: usize = 4;

/// Prints a run.
///
/// # Errors
/// When `out` cannot be written.
pub fn print(out: &mut impl Write, run: &Measurement, colour: bool) -> io::Result<()> {
    let place = match run.source.line {
        0 | 1 => run.source.name.clone(),
        line => format!("{}, line {line}", run.source.name),
    };
    let (place, subject) = (printable(&place), self::subject(run));
    let subject = printable(&subject);
    if colour {
        writeln!(out, "\x1b[1m{place}: {subject}\x1b[0m")?;
    } else {
        writeln!(out, "{place}: {subject}")?;
    }
    writeln!(out, "  {}", rows(run))?;
    let odd = disagreements(run);
    for one in odd.iter().take(MAX_DISAGREEMENTS_SHOWN) {
        let place = if one.in_place { "in place" } else { "out of place" };
        writeln!(
            out,
            "  disagrees: {} {} GB/s of {} {place}, where size and time give {}",
            one.column,
            rate(one.written),
            bytes(one.size),
            rate(one.computed)
        )?;
    }
    if odd.len() > MAX_DISAGREEMENTS_SHOWN {
        writeln!(
            out,
            "  disagrees: {} more",
            count((odd.len() - MAX_DISAGREEMENTS_SHOWN) as u64, "figure")
        )?;
    }
    if let (Some(stated), Some(mean)) = (run.stated_average, stated_average_differs(run)) {
        writeln!(
            out,
            "  disagrees: the stated average of {} GB/s, where the rows give {}",
            rate(stated),
            rate(mean)
        )?;
    }
    for error in &run.errors {
        writeln!(out, "  failed: {}", printable(error))?;
    }
    Ok(())
}

/// What ran where, in a line.
pub fn subject(run: &Measurement) -> String {
    let mut said = vec![run.test_name().to_owned()];
    if let Some(ranks) = run.rank_count() {
        let hosts = run.hosts.map_or(String::new(), |n| format!(" on {}", count(n as u64, "host")));
        said.push(format!("{}{hosts}", count(ranks as u64, "rank")));
    }
    said.extend(groups(run));
    if run.copies > 1 {
        said.push(format!("{} copies of the run in one text", run.copies));
    }
    let mut names: Vec<&str> = run.devices.iter().map(name).filter(|n| !n.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    if !names.is_empty() {
        said.push(list(&names, "and"));
    }
    said.extend(run.nccl.as_ref().map(|version| format!("NCCL {version}")));
    let program = run.source.form.facts().name;
    let version = run.source.version.as_deref().map_or(String::new(), |v| format!(" {v}"));
    said.push(format!("{program}{version}"));
    said.join(", ")
}

/// Which communicator the ranks are of, where the run had several, and whose rows there are as well.
fn groups(run: &Measurement) -> Option<String> {
    let first = run.group()?;
    let mut others: Vec<u64> = run.rows.iter().filter_map(|row| row.group).collect();
    others.sort_unstable();
    others.dedup();
    others.retain(|group| *group != first);
    let names: Vec<String> = others.iter().map(|group| format!("group {group}")).collect();
    let also = if names.is_empty() { "" } else { ", and rows of " };
    Some(format!("group {first}{also}{}", list(&names, "and")))
}

fn name(device: &Device) -> &str {
    &device.name
}

fn rows(run: &Measurement) -> String {
    let number = run.rows.len() as u64 + run.rows_left_out;
    let (first, last) =
        (run.rows.iter().map(|r| r.size).min(), run.rows.iter().map(|r| r.size).max());
    let (Some(first), Some(last)) = (first, last) else { return "no rows".to_owned() };
    let sizes =
        if first == last { bytes(first) } else { format!("{} to {}", bytes(first), bytes(last)) };
    let mut said = vec![format!("{}, {sizes}", count(number, "row"))];
    if run.rows_left_out > 0 {
        said.push(format!("the first {} are kept", run.rows.len()));
    }
    if let Some(peak) = run.peak() {
        let place = if peak.in_place { " in place" } else { "" };
        let figure = peak.figure().unwrap_or_default();
        let kind = if peak.half.busbw.is_some() { "busbw" } else { "bandwidth" };
        said.push(format!("best {kind} {} GB/s at {}{place}", rate(figure), bytes(peak.row.size)));
    } else if let Some(fastest) = fastest(run) {
        said.push(format!("fastest {}", time(fastest)));
    }
    let wrong: u64 =
        run.rows.iter().flat_map(crate::measurement::Row::both).filter_map(|h| h.wrong).sum();
    if wrong > 0 {
        said.push(format!("{} WRONG", count(wrong, "element")));
    }
    said.join("; ")
}

fn fastest(run: &Measurement) -> Option<f64> {
    let times =
        run.rows.iter().flat_map(|row| run.halves(row)).filter_map(|(_, half)| half.time_us);
    times.reduce(f64::min)
}

/// The counts of a source's lines, in one line; none of a source that has no lines.
pub fn source(lines: &Lines) -> Option<String> {
    if lines.all == 0 {
        return None;
    }
    let mut said = vec![count(lines.rows, "row")];
    for (number, what) in [
        (lines.joined, "rests of rows"),
        (lines.known, "heads and feet"),
        (lines.nccl, "of NCCL"),
        (lines.unrecognised, "not recognised"),
    ] {
        if number > 0 {
            said.push(format!("{number} {what}"));
        }
    }
    let mut text = format!("of {} {}", count(lines.all, "line"), list(&said, "and"));
    if lines.cut > 0 {
        text.push_str(&format!("; {} cut or without figures", count(lines.cut, "row")));
    }
    if lines.zeros > 0 {
        text.push_str(&format!("; {} skipped", count(lines.zeros, "zero byte")));
    }
    for example in &lines.examples {
        text.push_str("\n  | ");
        text.push_str(&printable(example));
    }
    Some(text)
}
