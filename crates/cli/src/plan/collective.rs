//! A collective on hosts: the table by size, what the range rests on, and whether a named figure is plausible.
//! Not the prediction (`busbw_hardware::prediction`).

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::Result;
use busbw_analysis::machine_argument::MachineArgument;
use busbw_core::{
    Collective,
    columns::aligned,
    exit::Exit,
    quantity::{bytes, count, list, rate},
};
use busbw_hardware::{
    limits::{RankPlacement, Resource},
    machine::{Machine, ready},
    prediction::{
        Basis, Expected, Left, Most, NoPrediction, Plausibility, Position, Question, Span,
        plausibility,
    },
    tuning::Version,
};
use busbw_render::answer::{Out, answer, json_line};
use serde::Serialize;

use super::{SCHEMA, picture, usage};
use crate::options::PlanArguments;

/// First and last size where none is named, bytes.
const FIRST_BYTES: u64 = 8;
const LAST_BYTES: u64 = 8 << 30;

/// The newest release whose cost model is known.
pub(super) const NEWEST: Version = Version::last_of(30);

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'r> {
    plan_schema: u32,
    busbw: &'static str,
    question: &'static str,
    machine: &'r Machine,
    ranks: usize,
    nodes: usize,
    per_node: usize,
    collective: Collective,
    nccl: String,
    rows: &'r [Expected],
    guessed: Vec<String>,
    assumed: Vec<String>,
    unchecked: Vec<String>,
    measured: Option<Plausibility>,
}

/// Predicts and prints.
///
/// # Errors
/// No machine is named or known, ranks do not fit it, a fact is missing, or stdout cannot be written.
pub(super) fn run(arguments: &PlanArguments, collective: Collective) -> Result<Exit> {
    let machine = machine(arguments)?;
    let placement = placement(arguments, &machine)?;
    let version = arguments.nccl.unwrap_or(NEWEST);
    let algorithm = arguments.algorithm;
    let question = Question { machine: &machine, placement, collective, version, algorithm };
    let sizes = sizes(arguments)?;
    let refused = |e: NoPrediction| {
        let more = match e {
            NoPrediction::Missing { .. } => {
                "; write it into a machine file (docs/machine_files.md) and name that with --machine"
            }
            _ => "",
        };
        usage(format!("no prediction: {e}{more}"))
    };
    let rows: Result<Vec<Expected>, _> = sizes.iter().map(|size| question.expect(*size)).collect();
    let rows = rows.map_err(refused)?;
    let Some(last) = rows.last() else { return Ok(Exit::Ok) };
    let measured = match arguments.measured {
        None => None,
        Some(busbw) => {
            let at = question.expect(arguments.size.unwrap_or(last.bytes)).map_err(refused)?;
            Some((plausibility(&question, &at, busbw).map_err(refused)?, at))
        }
    };
    if let Some(file) = &arguments.svg {
        picture::write(file, &drawn(&question, &rows))?;
    }
    let impossible = measured.as_ref().is_some_and(|(one, _)| one.position == Position::Impossible);
    answer(|out, _| {
        if arguments.json {
            let limit = question.limit_of(last.algorithm);
            return json_line(
                out,
                &Report {
                    plan_schema: SCHEMA,
                    busbw: env!("CARGO_PKG_VERSION"),
                    question: "collective",
                    machine: &machine,
                    ranks: placement.ranks(),
                    nodes: placement.nodes,
                    per_node: placement.per_node,
                    collective,
                    nccl: release(version),
                    rows: &rows,
                    guessed: question.guessed(),
                    assumed: limit.assumed,
                    unchecked: limit.unchecked,
                    measured: measured.as_ref().map(|(one, _)| one.clone()),
                },
            );
        }
        if arguments.csv {
            return csv(out, &rows);
        }
        if let Some((verdict, at)) = &measured {
            head(out, &question)?;
            return judge(out, &question, verdict, at);
        }
        head(out, &question)?;
        table(out, &rows)?;
        foot(out, &question, last)
    })?;
    Ok(if impossible { Exit::Internal } else { Exit::Ok })
}

fn machine(arguments: &PlanArguments) -> Result<Machine> {
    let Some(word) = arguments.machine.as_deref() else {
        return Err(usage(format!(
            "--machine is missing: a ready machine ({}) or a machine file",
            ready::names().join(", ")
        ))
        .into());
    };
    let named = MachineArgument::read(Path::new(word)).and_then(|named| named.machine());
    let mut machine = named.map_err(|e| usage(format!("--machine: {e}")))?;
    machine.nodes = arguments.nodes.unwrap_or(machine.nodes);
    if machine.node.gpus == 0 {
        return Err(usage(format!("{word} has no GPUs: a plan is of GPUs")).into());
    }
    Ok(machine)
}

fn placement(arguments: &PlanArguments, machine: &Machine) -> Result<RankPlacement> {
    let most = machine.gpus();
    let gpus = arguments.gpus.unwrap_or(most);
    let hosts = count(machine.nodes as u64, "host");
    if gpus > most {
        return Err(usage(format!(
            "--gpus {gpus}: there are {most} GPUs on {hosts} of {}; name more hosts with --nodes",
            machine.name
        ))
        .into());
    }
    if gpus < 2 {
        return Err(
            usage(format!("a collective takes two GPUs, and here are {gpus}, on {hosts}")).into()
        );
    }
    // Hosts that are named are used, all of them.
    let nodes = match arguments.nodes {
        Some(nodes) => nodes,
        None => gpus.div_ceil(machine.node.gpus),
    };
    if nodes > gpus || !gpus.is_multiple_of(nodes) {
        return Err(usage(format!(
            "--gpus {gpus} cannot be spread evenly over {}",
            count(nodes as u64, "host")
        ))
        .into());
    }
    Ok(RankPlacement::new(nodes, gpus / nodes))
}

pub(super) fn sizes(arguments: &PlanArguments) -> Result<Vec<u64>> {
    let last = arguments.max_bytes.unwrap_or(LAST_BYTES.max(arguments.min_bytes.unwrap_or(0)));
    let first = arguments.min_bytes.unwrap_or(FIRST_BYTES.min(last));
    if first > last {
        return Err(usage(format!(
            "-b {first} is above -e {last}: the first size must not be above the last"
        ))
        .into());
    }
    let doubled = std::iter::successors(Some(first), |size| size.checked_mul(2));
    Ok(doubled.take_while(|size| *size <= last).collect())
}

pub(super) fn release(version: Version) -> String {
    match version.patch {
        u32::MAX => format!("2.{}", version.minor),
        patch => format!("2.{}.{patch}", version.minor),
    }
}

fn drawn(question: &Question<'_>, rows: &[Expected]) -> picture::BySize {
    let RankPlacement { nodes, per_node, .. } = question.placement;
    let hosts = count(nodes as u64, "host");
    let name = question.collective.name();
    let range = |span: &Span| [span.low, span.high];
    let points = rows.iter().map(|row| picture::Point {
        bytes: row.bytes,
        busbw: row.busbw.middle,
        busbw_range: range(&row.busbw),
        time_us: row.time_us.middle,
        time_range_us: range(&row.time_us),
    });
    picture::BySize {
        title: format!(
            "{name} on {}: {hosts} of {}",
            question.machine.name,
            count(per_node as u64, "GPU")
        ),
        curves: vec![picture::Curve {
            name: "expected".to_owned(),
            points: points.collect(),
            line: Some(picture::Line {
                name: "limit of the chosen algorithm".to_owned(),
                points: rows.iter().map(|row| (row.bytes, row.limit.busbw)).collect(),
            }),
        }],
    }
}

fn head(out: &mut Out, question: &Question<'_>) -> io::Result<()> {
    let RankPlacement { nodes, per_node, .. } = question.placement;
    let hosts = count(nodes as u64, "host");
    let chooser = match question.collective.spec().tuned_by_nccl {
        true => format!("NCCL {}'s cost model chooses", release(question.version)),
        false => "sends and receives, of which NCCL's cost model says nothing".to_owned(),
    };
    writeln!(
        out,
        "{} on {}: {hosts} of {}, {}; {chooser}",
        question.collective.name(),
        question.machine.name,
        count(per_node as u64, "GPU"),
        count(question.placement.ranks() as u64, "rank"),
    )
}

fn table(out: &mut Out, rows: &[Expected]) -> io::Result<()> {
    let heading = ["size", "algorithm", "protocol", "time us", "algbw", "busbw", "range", "limit"];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    for row in rows {
        lines.push(vec![
            bytes(row.bytes),
            row.algorithm.name().to_owned(),
            row.protocol.map_or("-", |protocol| protocol.name()).to_owned(),
            microseconds(row.time_us.middle),
            rate(row.algbw.middle),
            rate(row.busbw.middle),
            range(&row.busbw),
            rate(row.limit.busbw),
        ]);
    }
    write!(out, "{}", aligned(&lines))
}

pub(super) fn microseconds(us: f64) -> String {
    if us < 1000.0 { format!("{us:.1}") } else { format!("{us:.0}") }
}

fn range(span: &Span) -> String {
    format!("{}-{}", rate(span.low), rate(span.high))
}

/// What large sizes are limited by, what the range rests on, and what was guessed.
fn foot(out: &mut Out, question: &Question<'_>, last: &Expected) -> io::Result<()> {
    let limit = question.limit_of(last.algorithm);
    let machine = question.machine;
    let by = |resource: Resource| resource.name_on(machine);
    writeln!(
        out,
        "GB/s; a range is of busbw. limit: no true result of {} is above {} GB/s (set by {}).",
        last.algorithm,
        rate(last.limit.busbw),
        list(&last.limit.set_by.iter().map(|one| by(*one)).collect::<Vec<_>>(), "and"),
    )?;
    writeln!(
        out,
        "{} is expected to limit large sizes: {} to {} % of its rate is attained. {}",
        by(last.limited_by),
        (last.attained.low * 100.0).round(),
        (last.attained.high * 100.0).round(),
        basis(&last.attained.basis),
    )?;
    let others = question.others(last);
    if question.algorithm.is_none() && !others.is_empty() {
        let each = others.iter().map(|one| format!("{} {}", one.algorithm, range(&one.busbw)));
        let each: Vec<String> = each.collect();
        writeln!(out, "by other algorithms at {}: {}", bytes(last.bytes), each.join(", "))?;
    }
    for assumed in limit.assumed {
        writeln!(out, "assumed: {assumed}")?;
    }
    for guessed in question.guessed() {
        writeln!(out, "guessed: {guessed}")?;
    }
    for unchecked in limit.unchecked {
        writeln!(out, "not known, could only lower it: {unchecked}")?;
    }
    Ok(())
}

fn basis(basis: &Basis) -> String {
    match basis {
        Basis::Known { points, of } => {
            format!("Known from {}: {of}.", count(*points as u64, "public result"))
        }
        Basis::Borrowed { points, of } => format!(
            "Not known itself; borrowed from {}: {of}.",
            count(*points as u64, "public result")
        ),
        Basis::Nccl => {
            "Not known from results: from NCCL's constant less 15 % up to the limit.".to_owned()
        }
        Basis::Unknown => "Not known: half of the limit, up to the limit.".to_owned(),
    }
}

/// The sentence on a figure that somebody named.
fn judge(
    out: &mut Out,
    question: &Question<'_>,
    said: &Plausibility,
    at: &Expected,
) -> io::Result<()> {
    let named = |all: &[Most]| {
        let each = all.iter().map(|one| format!("{} ({})", one.algorithm, rate(one.busbw)));
        list(&each.collect::<Vec<_>>(), "and")
    };
    let verdict = match said.position {
        Position::Impossible => "impossible: above the limit of every algorithm that can run here",
        Position::Above => "above all that is expected, though not above every limit",
        Position::Within => "plausible: in the range of what is expected",
        Position::Below => "below what is expected",
    };
    writeln!(out, "{} GB/s at {}: {verdict}", rate(said.busbw), bytes(said.bytes))?;
    if !said.excluded.is_empty() {
        writeln!(out, "  above the limit of {}: excluded", named(&said.excluded))?;
    }
    if !said.unlikely.is_empty() {
        writeln!(out, "  above the most expected of {}: unlikely", named(&said.unlikely))?;
    }
    for Left { algorithm, busbw: span } in &said.left {
        let place = match said.busbw {
            busbw if span.holds(busbw) => "in its range".to_owned(),
            busbw => format!("{:.1} % below its least", (1.0 - busbw / span.low) * 100.0),
        };
        writeln!(out, "  {algorithm}: {} GB/s expected, {place}", range(span))?;
    }
    // What is below every range needs no other way to explain it.
    let conditional = said.conditional.iter().filter(|_| said.position != Position::Below);
    for one in conditional {
        let names: Vec<&str> = one.algorithms.iter().map(|algorithm| algorithm.name()).collect();
        writeln!(out, "  {} would allow it, if {}", list(&names, "and"), one.condition)?;
    }
    writeln!(
        out,
        "  NCCL {}'s choice here is {}: {} GB/s expected ({}); this is {:.1} % of it",
        release(question.version),
        at.algorithm,
        rate(at.busbw.middle),
        range(&at.busbw),
        said.percent,
    )?;
    for mistake in &said.mistakes {
        writeln!(out, "  in that range if {}: {} GB/s", mistake.what, rate(mistake.busbw))?;
    }
    writeln!(out, "  {}", basis(&at.attained.basis))
}

fn csv(out: &mut Out, rows: &[Expected]) -> io::Result<()> {
    writeln!(
        out,
        "size,algorithm,protocol,time_us,time_us_low,time_us_high,algbw,busbw,busbw_low,busbw_high,limit_busbw,limited_by"
    )?;
    for row in rows {
        writeln!(
            out,
            "{},{},{},{:.3},{:.3},{:.3},{:.4},{:.4},{:.4},{:.4},{:.4},{}",
            row.bytes,
            row.algorithm,
            row.protocol.map_or("", |protocol| protocol.name()),
            row.time_us.middle,
            row.time_us.low,
            row.time_us.high,
            row.algbw.middle,
            row.busbw.middle,
            row.busbw.low,
            row.busbw.high,
            row.limit.busbw,
            row.limited_by,
        )?;
    }
    Ok(())
}
