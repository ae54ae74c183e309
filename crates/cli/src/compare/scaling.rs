//! `compare --by nodes`: the scaling efficiency of one machine over its number of hosts.
//! Not a comparison of two machines.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use anyhow::Result;
use busbw_analysis::comparison::{Point, Scaled, Width, scale};
use busbw_core::exit::Exit;
use serde::Serialize;

use super::{SCHEMA, print_remark, sides::Source, table};
use crate::options::CompareArguments;
use busbw_core::{
    columns::aligned,
    quantity::{bytes, count, rate},
};
use busbw_render::answer::{answer, json_line};

/// What `--by nodes` found.
#[derive(Debug, Serialize)]
struct Scaling<'a> {
    compare_schema: u32,
    by: &'static str,
    sides: &'a [Source],
    /// Sides that do not state their number of hosts: they are ordered by ranks.
    hosts_unknown: Vec<&'a str>,
    scaled: Vec<Scaled>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<Gate>,
}

/// Whether every point keeps its bus bandwidth.
#[derive(Debug, Serialize)]
struct Gate {
    fail_below: f64,
    held: bool,
    failed: Vec<BelowGate>,
}

/// A point whose efficiency is below the gate.
#[derive(Debug, Serialize)]
struct BelowGate {
    #[serde(flatten)]
    point: Point,
    on: Width,
    efficiency: f64,
}

/// Prints the efficiency of every point that was measured on several numbers of hosts or ranks.
pub(super) fn run(arguments: &CompareArguments, sources: &[Source]) -> Result<Exit> {
    let scaled = scale(sources.iter().flat_map(|source| &source.runs));
    if scaled.is_empty() {
        print_remark(
            "nothing was compared: no point with a bus bandwidth was measured on different numbers of hosts or ranks",
        );
        return Ok(Exit::Internal);
    }
    let unknown = |source: &&Source| source.runs.iter().any(|run| run.hosts.is_none());
    let scaling = Scaling {
        compare_schema: SCHEMA,
        by: "nodes",
        sides: sources,
        hosts_unknown: sources.iter().filter(unknown).map(|one| one.side.name.as_str()).collect(),
        gate: arguments.fail_below.map(|least| gate(least, &scaled)),
        scaled,
    };
    answer(|out, _| match arguments.json {
        true => json_line(out, &scaling),
        false => print(out, &scaling, arguments.markdown),
    })?;
    let Some(gate) = &scaling.gate else { return Ok(Exit::Ok) };
    for below in &gate.failed {
        print_remark(&format!("below {}: {}", gate.fail_below, sentence(below)));
    }
    Ok(if gate.held { Exit::Ok } else { Exit::Internal })
}

fn gate(least: f64, scaled: &[Scaled]) -> Gate {
    let steps = scaled.iter().flat_map(|one| one.steps.iter().map(move |step| (one, step)));
    let failed: Vec<BelowGate> = steps
        .filter(|(_, step)| step.efficiency < least)
        .map(|(one, step)| BelowGate {
            point: one.point.clone(),
            on: step.width,
            efficiency: step.efficiency,
        })
        .collect();
    Gate { fail_below: least, held: failed.is_empty(), failed }
}

fn sentence(below: &BelowGate) -> String {
    let place = if below.point.in_place { " in place" } else { "" };
    format!(
        "{}, {}{place}: on {}, {:.1} % of the bus bandwidth on the fewest",
        below.point.case(),
        bytes(below.point.size),
        width_name(below.on),
        below.efficiency * 100.0
    )
}

/// `2 hosts, 16 ranks`.
fn width_name(width: Width) -> String {
    let ranks = count(width.ranks as u64, "rank");
    match width.hosts {
        Some(hosts) => format!("{}, {ranks}", count(hosts as u64, "host")),
        None => ranks,
    }
}

fn print(out: &mut impl Write, scaling: &Scaling<'_>, markdown: bool) -> io::Result<()> {
    let prefix = if markdown { "- " } else { "# " };
    let title = "busbw compare --by nodes: busbw in GB/s, and its share of that on the fewest hosts and ranks";
    if markdown {
        writeln!(out, "**{title}**\n")?;
    } else {
        writeln!(out, "# {title}")?;
    }
    for source in scaling.sides {
        writeln!(out, "{prefix}{}: {}", source.side.name, source.about)?;
        for remark in source.remarks() {
            writeln!(out, "{prefix}{}, {remark}", source.side.name)?;
        }
    }
    if !scaling.hosts_unknown.is_empty() {
        let names = scaling.hosts_unknown.join(", ");
        writeln!(out, "{prefix}{names}: the number of hosts is not known; ordered by ranks")?;
    }
    let mut cases: Vec<String> = scaling.scaled.iter().map(|one| title_of(&one.point)).collect();
    cases.dedup();
    for case in cases {
        let of = |one: &&Scaled| title_of(&one.point) == case;
        let rows: Vec<&Scaled> = scaling.scaled.iter().filter(of).collect();
        let launches: BTreeSet<usize> = rows
            .iter()
            .flat_map(|row| row.steps.iter().map(|step| step.times.launches_us.len()))
            .collect();
        let lines = cells(&rows);
        let of = match (launches.first(), launches.last()) {
            (Some(1), Some(1)) | (None, _) | (_, None) => "one launch each".to_owned(),
            (Some(least), Some(most)) if least == most => format!("medians of {most} launches"),
            (Some(least), Some(most)) => format!("medians of {least} to {most} launches"),
        };
        if markdown {
            writeln!(out, "\n**{case}** ({of})\n\n{}", table::as_markdown(&lines))?;
        } else {
            write!(out, "#\n# {case} ({of})\n{}", aligned(&lines))?;
        }
    }
    Ok(())
}

/// The title of a table: a point without its size, placement and ranks.
fn title_of(point: &Point) -> String {
    let case = point.case();
    let parts: Vec<&str> = case.split(", ").collect();
    match parts.as_slice() {
        [what, _, group] => format!("{what}, {group}"),
        [what, ..] => (*what).to_owned(),
        [] => case.clone(),
    }
}

fn cells(rows: &[&Scaled]) -> Vec<Vec<String>> {
    let mut widths: Vec<Width> = Vec::new();
    for step in rows.iter().flat_map(|row| &row.steps) {
        if !widths.contains(&step.width) {
            widths.push(step.width);
        }
    }
    let known = widths.iter().all(|width| width.hosts.is_some());
    widths.sort_by_key(|width| (width.hosts.filter(|_| known), width.ranks, width.hosts));
    let mut head = vec!["size".to_owned(), "place".to_owned()];
    for (number, width) in widths.iter().enumerate() {
        head.push(width_name(*width));
        if number > 0 {
            head.push("%".to_owned());
        }
    }
    let mut lines = vec![head];
    for row in rows {
        let place = if row.point.in_place { "in" } else { "out" };
        let mut line = vec![bytes(row.point.size).replace(' ', ""), place.to_owned()];
        for (number, width) in widths.iter().enumerate() {
            let step = row.steps.iter().find(|step| step.width == *width);
            let busbw = step.and_then(|step| step.times.busbw);
            line.push(busbw.map_or("-".to_owned(), rate));
            if number > 0 {
                let share = step.map(|step| format!("{:.1}", step.efficiency * 100.0));
                line.push(share.unwrap_or_else(|| "-".to_owned()));
            }
        }
        lines.push(line);
    }
    lines
}
