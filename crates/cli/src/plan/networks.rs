//! Questions about networks: buffers that must not overflow, throughput under loss, flows that collide.
//! Not the formulas and their sources (`busbw_hardware::{lossless, loss, collisions}`).

use std::io::{self, Write};

use anyhow::Result;
use busbw_core::{columns::aligned, exit::Exit, quantity::count};
use busbw_hardware::{
    collisions::{Busiest, Flows, Method, busiest},
    loss::{Recovery, cost_of_step, goodput, window},
    lossless::{
        BufferNeed, DEFAULT_MARGIN, Headroom, Marking, Thresholds, buffer_need, headroom, marking,
        thresholds,
    },
};
use busbw_render::answer::{Out, answer, json_line};
use serde::Serialize;

use super::{
    SCHEMA,
    figures::{buffer, percent, short},
    usage,
};
use crate::options::PlanArguments;

/// Payload of a packet where nothing is said: RoCE's largest MTU, bytes.
pub(super) const DEFAULT_MTU: u32 = 4096;

/// Shares of lost packets where none is named.
const DEFAULT_LOSSES: [f64; 2] = [0.001, 0.01];

#[derive(Serialize)]
struct Lossless {
    plan_schema: u32,
    busbw: &'static str,
    question: &'static str,
    rate_gbps: f64,
    ports: usize,
    classes: usize,
    margin: f64,
    round_trip_us: Option<f64>,
    need: Option<BufferNeed>,
    cable_m: Option<f64>,
    headroom: Option<Headroom>,
    thresholds: Option<Thresholds>,
    marking: Marking,
}

/// Buffer by round trip, headroom by cable, thresholds by both.
pub(super) fn lossless(arguments: &PlanArguments) -> Result<Exit> {
    let rate = required(arguments.rate, "--rate, such as 400G")?;
    if arguments.round_trip.is_none() && arguments.cable.is_none() {
        return Err(usage(
            "lossless takes --round-trip, such as 9us, or --cable, such as 100m, or both",
        )
        .into());
    }
    let (ports, classes) = (arguments.ports.unwrap_or(1), arguments.classes.unwrap_or(1));
    let margin = arguments.margin.unwrap_or(DEFAULT_MARGIN);
    let need =
        arguments.round_trip.map(|us| buffer_need(rate, us, ports, margin, arguments.buffer));
    let mtu = f64::from(arguments.mtu.unwrap_or(DEFAULT_MTU));
    let room = match arguments.cable {
        None => None,
        Some(metres) => Some(headroom(rate, metres, mtu).ok_or_else(|| {
            usage(format!(
                "--cable: how soon a port of {} Gb/s answers a pause frame is not known here (IEEE 802.3 31B.3.7: 10, 25, 40, 100, 200, 400)",
                short(rate)
            ))
        })?),
    };
    let limits = room
        .as_ref()
        .zip(arguments.buffer)
        .map(|(room, bytes)| thresholds(bytes, ports, classes, room.total));
    let answered = Lossless {
        plan_schema: SCHEMA,
        busbw: env!("CARGO_PKG_VERSION"),
        question: "lossless",
        rate_gbps: rate,
        ports,
        classes,
        margin,
        round_trip_us: arguments.round_trip,
        need,
        cable_m: arguments.cable,
        headroom: room,
        thresholds: limits.clone().flatten(),
        marking: marking(rate, arguments.round_trip),
    };
    answer(|out, _| match arguments.json {
        true => json_line(out, &answered),
        false => print_lossless(out, &answered, arguments, limits.is_some()),
    })?;
    Ok(Exit::Ok)
}

fn print_lossless(
    out: &mut Out,
    said: &Lossless,
    arguments: &PlanArguments,
    bounded: bool,
) -> io::Result<()> {
    let ports = count(said.ports as u64, "port");
    if let Some((need, us)) = said.need.as_ref().zip(said.round_trip_us) {
        writeln!(
            out,
            "buffer of a port: {} Gb/s × {} us × 2 directions × {} = {}",
            short(said.rate_gbps),
            short(us),
            short(said.margin),
            buffer(need.port)
        )?;
        writeln!(out, "buffer of {ports}: {}", buffer(need.switch))?;
        if let (Some(has), Some(suffices)) = (need.has, need.suffices) {
            let verdict = if suffices { "suffices" } else { "does not suffice" };
            writeln!(
                out,
                "the switch has {}: it {verdict}; enough for {} us, or for {}",
                buffer(has),
                short(need.longest_round_trip_us.unwrap_or(0.0)),
                count(need.ports_served.unwrap_or(0), "port")
            )?;
        }
    }
    if let Some((room, metres)) = said.headroom.as_ref().zip(said.cable_m) {
        writeln!(
            out,
            "PFC headroom of a class: {} in {} m of fibre there and back + {} a frame of its own + {} the PFC frame + {} until the other end stops + {} a frame that it has begun = {}",
            buffer(room.cable),
            short(metres),
            buffer(room.own_frame),
            buffer(room.pfc_frame),
            buffer(room.response),
            buffer(room.peer_frame),
            buffer(room.total)
        )?;
        let all = room.total * said.ports as f64 * said.classes as f64;
        writeln!(out, "headroom of {ports} × {}: {}", classes(said.classes), buffer(all))?;
        match &said.thresholds {
            Some(limits) => writeln!(
                out,
                "with {}: PFC from {} a class at most, ECN below {} (DCQCN section 4)",
                buffer(arguments.buffer.unwrap_or(0.0)),
                buffer(limits.pfc),
                buffer(limits.ecn)
            )?,
            None if bounded => writeln!(
                out,
                "that is more than the buffer of {}: fewer lossless classes, ports or metres",
                buffer(arguments.buffer.unwrap_or(0.0))
            )?,
            None => {}
        }
    }
    write!(
        out,
        "ECN marks from Kmin {} to Kmax {} (in proportion to the rate, HPCC section 5.1)",
        buffer(said.marking.kmin),
        buffer(said.marking.kmax)
    )?;
    match said.marking.dctcp {
        Some(least) => writeln!(out, "; DCTCP: above {} (C × RTT / 7)", buffer(least)),
        None => writeln!(out),
    }
}

fn classes(number: usize) -> String {
    match number {
        1 => "1 class".to_owned(),
        more => format!("{more} classes"),
    }
}

#[derive(Serialize)]
struct Loss {
    plan_schema: u32,
    busbw: &'static str,
    question: &'static str,
    rate_gbps: f64,
    round_trip_us: f64,
    mtu: u32,
    window: f64,
    exposed: Option<f64>,
    rows: Vec<LossRow>,
}

#[derive(Serialize)]
struct LossRow {
    lost: f64,
    recovery: Recovery,
    goodput: f64,
    cost_of_step: Option<f64>,
}

/// Throughput by share of lost packets and recovery.
pub(super) fn loss(arguments: &PlanArguments) -> Result<Exit> {
    let rate = required(arguments.rate, "--rate, such as 400G")?;
    let round_trip = required(arguments.round_trip, "--round-trip, such as 9us")?;
    let mtu = arguments.mtu.unwrap_or(DEFAULT_MTU);
    let window = window(rate, round_trip, f64::from(mtu));
    let losses = arguments.drop.map_or(DEFAULT_LOSSES.to_vec(), |one| vec![one]);
    let of = |lost: f64| {
        Recovery::ALL.map(|recovery| {
            let goodput = goodput(recovery, lost, window);
            let cost_of_step = arguments.exposed.map(|exposed| cost_of_step(goodput, exposed));
            LossRow { lost, recovery, goodput, cost_of_step }
        })
    };
    let answered = Loss {
        plan_schema: SCHEMA,
        busbw: env!("CARGO_PKG_VERSION"),
        question: "loss",
        rate_gbps: rate,
        round_trip_us: round_trip,
        mtu,
        window,
        exposed: arguments.exposed,
        rows: losses.into_iter().flat_map(of).collect(),
    };
    answer(|out, _| match arguments.json {
        true => json_line(out, &answered),
        false => print_loss(out, &answered),
    })?;
    Ok(Exit::Ok)
}

/// Of links below 1 Gb/s, as emulated ones are, three decimals.
fn gbps(rate: f64) -> String {
    if rate < 1.0 { format!("{rate:.3}") } else { format!("{rate:.1}") }
}

fn print_loss(out: &mut Out, said: &Loss) -> io::Result<()> {
    writeln!(
        out,
        "{} Gb/s, packets of {} B, {} us until a lost packet is sent again: W = {:.0} packet times",
        if said.rate_gbps < 1.0 { gbps(said.rate_gbps) } else { short(said.rate_gbps) },
        said.mtu,
        short(said.round_trip_us),
        said.window
    )?;
    let mut heading = vec!["lost", "recovery", "of the rate", "Gb/s"];
    if said.exposed.is_some() {
        heading.push("costs of a step");
    }
    let mut lines = vec![heading.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for row in &said.rows {
        let mut line = vec![
            percent(row.lost),
            row.recovery.name().to_owned(),
            format!("{:.1} %", row.goodput * 100.0),
            gbps(row.goodput * said.rate_gbps),
        ];
        line.extend(row.cost_of_step.map(|cost| format!("{:.1} %", cost * 100.0)));
        lines.push(line);
    }
    write!(out, "{}", aligned(&lines))?;
    if let Some(exposed) = said.exposed {
        writeln!(
            out,
            "of a step of which {} is communication that nothing hides",
            percent(exposed)
        )?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Collisions {
    plan_schema: u32,
    busbw: &'static str,
    question: &'static str,
    #[serde(flatten)]
    flows: Flows,
    busiest: Busiest,
}

/// The busiest of equal links.
pub(super) fn collisions(arguments: &PlanArguments) -> Result<Exit> {
    let links = required(arguments.uplinks, "--uplinks, such as 8")?;
    let flows = Flows {
        flows: arguments.flows.unwrap_or(links),
        queue_pairs: arguments.queue_pairs.unwrap_or(1),
        links,
    };
    let answered = Collisions {
        plan_schema: SCHEMA,
        busbw: env!("CARGO_PKG_VERSION"),
        question: "collisions",
        flows,
        busiest: busiest(flows),
    };
    answer(|out, _| match arguments.json {
        true => json_line(out, &answered),
        false => print_collisions(out, &answered),
    })?;
    Ok(Exit::Ok)
}

fn print_collisions(out: &mut Out, said: &Collisions) -> io::Result<()> {
    let Collisions { flows, busiest: found, .. } = said;
    let how = match found.method {
        Method::Exact => "exact".to_owned(),
        Method::Simulated { draws } => format!("simulated, {draws} draws"),
    };
    writeln!(
        out,
        "{} of {}, each hashed by itself, onto {} ({how})",
        count(flows.flows as u64, "flow"),
        count(flows.queue_pairs as u64, "queue pair"),
        count(flows.links as u64, "link")
    )?;
    let heading = ["busiest link carries", "flows", "slowest flow keeps"];
    let share = |load: f64| percent((1.0 / load.max(1.0)) / (1.0 / found.even.max(1.0)));
    let lines = [
        heading.map(str::to_owned).to_vec(),
        vec!["with spraying".to_owned(), short(found.even), "100 %".to_owned()],
        vec!["mean".to_owned(), short(found.mean), percent(found.slowest_share)],
        vec!["half of the time at most".to_owned(), short(found.median), share(found.median)],
        vec!["99 of 100 times at most".to_owned(), short(found.p99), share(found.p99)],
    ];
    write!(out, "{}", aligned(&lines))?;
    writeln!(
        out,
        "no collision that could be avoided: {} of the time",
        percent(found.even_probability)
    )
}

pub(super) fn required<T>(value: Option<T>, what: &str) -> Result<T> {
    value.ok_or_else(|| usage(format!("{what} is missing")).into())
}
