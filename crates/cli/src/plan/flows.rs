//! Flows of a file: when each has arrived, and which link holds it back.
//! Not the simulator (`busbw_hardware::flows`), and not collectives.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::Result;
use busbw_core::{columns::aligned, exit::Exit, quantity::count};
use busbw_hardware::flows::{FlowFile, Outcome, Packet};
use busbw_render::answer::{Out, answer, json_line};
use serde::Serialize;

use super::{SCHEMA, collective::microseconds, figures::short};
use crate::{fabric_source, options::PlanArguments};

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'f> {
    plan_schema: u32,
    busbw: &'static str,
    question: &'static str,
    packet: Option<Packet>,
    /// None where a flow never arrives.
    end_us: Option<f64>,
    flows: Vec<Row<'f>>,
}

/// A flow.
#[derive(Serialize)]
struct Row<'f> {
    name: &'f str,
    bytes: f64,
    start_us: f64,
    /// Its last byte has arrived; none where it never does.
    arrival_us: Option<f64>,
    /// Bytes over the time from `start_us`, Gb/s of data.
    gbps: Option<f64>,
    /// The link that held it back when it ended.
    held_by: Option<&'f str>,
}

/// Simulates and prints.
///
/// # Errors
/// The file is no flow file, or stdout cannot be written.
pub(super) fn run(arguments: &PlanArguments, file: &Path) -> Result<Exit> {
    let file = fabric_source::read_flows(file)?;
    let outcome = file.simulate();
    let report = Report {
        plan_schema: SCHEMA,
        busbw: env!("CARGO_PKG_VERSION"),
        question: "flows",
        packet: file.packet,
        end_us: finite(outcome.end_us()),
        flows: rows(&file, &outcome),
    };
    answer(|out, _| {
        if arguments.json {
            return json_line(out, &report);
        }
        if arguments.csv {
            return csv(out, &report);
        }
        print(out, &file, &report)
    })?;
    Ok(Exit::Ok)
}

fn finite(us: f64) -> Option<f64> {
    us.is_finite().then_some(us)
}

fn rows<'f>(file: &'f FlowFile, outcome: &Outcome) -> Vec<Row<'f>> {
    let row = |at: usize, name: &'f String| {
        let flow = &file.flows[at];
        let arrival_us = finite(outcome.arrival_us[at]);
        let took = arrival_us.map(|arrival| arrival - flow.start_us).filter(|us| *us > 0.0);
        Row {
            name,
            bytes: flow.bytes,
            start_us: flow.start_us,
            arrival_us,
            gbps: took.map(|us| flow.bytes * 8.0 / us / 1e3),
            held_by: outcome.held_by[at].map(|link| file.links[link as usize].as_str()),
        }
    };
    file.names.iter().enumerate().map(|(at, name)| row(at, name)).collect()
}

fn print(out: &mut Out, file: &FlowFile, report: &Report<'_>) -> io::Result<()> {
    writeln!(
        out,
        "{} over {}, shared max-min fair{}",
        count(file.flows.len() as u64, "flow"),
        count(file.links.len() as u64, "link"),
        match file.changes.len() {
            0 => String::new(),
            changes => format!("; {} meanwhile", count(changes as u64, "change")),
        }
    )?;
    let mut lines =
        vec![["flow", "bytes", "arrives us", "Gb/s", "held by"].map(str::to_owned).to_vec()];
    for row in &report.flows {
        lines.push(vec![
            row.name.to_owned(),
            short(row.bytes),
            row.arrival_us.map_or("never".to_owned(), microseconds),
            row.gbps.map_or("-".to_owned(), short_rate),
            row.held_by.unwrap_or("-").to_owned(),
        ]);
    }
    write!(out, "{}", aligned(&lines))?;
    match report.end_us {
        Some(end) => writeln!(out, "all have arrived after {} us", microseconds(end))?,
        None => writeln!(out, "some never arrive: a link of theirs carries nothing")?,
    }
    match report.packet {
        Some(Packet { payload, wire }) => writeln!(
            out,
            "Gb/s of data: links carry {} B for {} of it",
            short(wire),
            short(payload)
        ),
        None => writeln!(out, "Gb/s; links carry no headers, as the file has no [packet]"),
    }
}

/// Four digits of a rate.
fn short_rate(gbps: f64) -> String {
    match gbps {
        100.0.. => format!("{gbps:.1}"),
        1.0.. => format!("{gbps:.3}"),
        _ => format!("{gbps:.4}"),
    }
}

fn csv(out: &mut Out, report: &Report<'_>) -> io::Result<()> {
    writeln!(out, "flow,bytes,start_us,arrival_us,gbps,held_by")?;
    let cell = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
    for row in &report.flows {
        writeln!(
            out,
            "{},{},{},{},{},{}",
            row.name,
            row.bytes,
            row.start_us,
            cell(row.arrival_us),
            cell(row.gbps),
            row.held_by.unwrap_or("")
        )?;
    }
    Ok(())
}
