//! Several senders to one port: what each gets, the queue, when it overflows or pauses, and what an alltoall makes of it.
//! Not the formulas (`busbw_hardware::{incast, lossless, collisions}`).

use std::io::{self, Write};

use anyhow::Result;
use busbw_core::{columns::aligned, exit::Exit, quantity};
use busbw_hardware::{
    collisions::{Flows, busiest},
    incast::{Incast, MOST_SENDERS, Queue, Reached},
    lossless::{headroom, in_flight, marking, thresholds},
};
use busbw_render::answer::{Out, answer, json_line};
use serde::Serialize;

use super::{
    SCHEMA,
    collective::microseconds,
    figures::{buffer, percent, short},
    networks::{DEFAULT_MTU, required},
    usage,
};
use crate::options::PlanArguments;

#[derive(Serialize)]
struct Report {
    plan_schema: u32,
    busbw: &'static str,
    question: &'static str,
    #[serde(flatten)]
    incast: Incast,
    /// Bytes that a sender has on its way at most; none: without bound.
    window: Option<f64>,
    /// Bytes that each sends; none: they send on.
    message: Option<f64>,
    share_gbps: f64,
    time_us: Option<f64>,
    queue: Queue,
    /// Bytes of the queue from which on it is marked.
    kmin: f64,
    /// When the first sender can have slowed.
    slowed: Option<Reached>,
    buffer: Option<Buffer>,
    pauses: Option<Pauses>,
    /// Ranks that exchange with each other, by the order in which each takes the others.
    orders: Vec<Order>,
}

/// Where nothing pauses senders.
#[derive(Serialize)]
struct Buffer {
    /// Bytes of the switch.
    bytes: f64,
    /// When the queue has all of it; none: it fits.
    overflows: Option<Reached>,
    /// The most senders whose queue fits; none: any number.
    senders: Option<usize>,
    /// Bytes that are lost before the queue is shorter again; none: without bound.
    lost: Option<f64>,
}

/// Where ports pause senders.
#[derive(Serialize)]
struct Pauses {
    /// Bytes of a port's class from which on it pauses its sender.
    threshold: f64,
    /// Bytes of headroom of a port's class.
    headroom: f64,
    /// When that is reached at every sender's port; none: never.
    reached: Option<Reached>,
    /// Share of the time that a sender is paused from then on.
    paused: f64,
}

/// An order of peers.
#[derive(Serialize)]
struct Order {
    /// `each to the next`, …
    order: &'static str,
    /// Senders to the busiest rank.
    senders: f64,
    /// Bytes of the queue there.
    queue: Option<f64>,
}

/// Computes and prints.
///
/// # Errors
/// A figure is missing, or stdout cannot be written.
pub(super) fn run(arguments: &PlanArguments) -> Result<Exit> {
    let senders = required(arguments.senders, "--senders, such as 8")?;
    let rate_gbps = required(arguments.rate, "--rate, such as 400G")?;
    let round_trip_us = required(arguments.round_trip, "--round-trip, such as 9us")?;
    let window = arguments.window.unwrap_or_else(|| in_flight(rate_gbps, round_trip_us));
    let message = arguments.min_bytes.map_or(f64::INFINITY, |bytes| bytes as f64);
    let incast = Incast { senders, rate_gbps, round_trip_us, window, message };
    let finite = |bytes: f64| bytes.is_finite().then_some(bytes);
    let report = Report {
        plan_schema: SCHEMA,
        busbw: env!("CARGO_PKG_VERSION"),
        question: "incast",
        incast,
        window: finite(window),
        message: finite(message),
        share_gbps: incast.share_gbps(),
        time_us: incast.time_us(),
        queue: incast.queue(),
        kmin: marking(rate_gbps, None).kmin,
        slowed: incast.slowed(),
        buffer: arguments
            .buffer
            .filter(|_| arguments.cable.is_none())
            .map(|bytes| overflow(&incast, bytes)),
        pauses: pauses(arguments, &incast)?,
        orders: orders(&incast),
    };
    answer(|out, _| match arguments.json {
        true => json_line(out, &report),
        false => print(out, &report),
    })?;
    Ok(Exit::Ok)
}

fn overflow(incast: &Incast, bytes: f64) -> Buffer {
    let senders = incast.senders_that_fit(bytes);
    Buffer {
        bytes,
        overflows: incast.reaches(bytes),
        senders: (senders < MOST_SENDERS).then_some(senders),
        lost: incast.queue().peak.map(|peak| (peak - bytes).max(0.0)),
    }
}

/// With a cable's length senders are paused: thresholds are those of `lossless`.
fn pauses(arguments: &PlanArguments, incast: &Incast) -> Result<Option<Pauses>> {
    let Some(metres) = arguments.cable else {
        if let Some(option) = [
            ("--ports", arguments.ports.is_some()),
            ("--classes", arguments.classes.is_some()),
            ("--mtu", arguments.mtu.is_some()),
        ]
        .into_iter()
        .find_map(|(option, given)| given.then_some(option))
        {
            return Err(usage(format!(
                "{option} is of PFC: incast reads it with --cable, such as 100m"
            ))
            .into());
        }
        return Ok(None);
    };
    let bytes =
        required(arguments.buffer, "--cable asks when PFC pauses: --buffer, such as 165.2MB,")?;
    let ports = arguments.ports.unwrap_or(incast.senders + 1);
    if ports <= incast.senders {
        return Err(usage(format!(
            "--ports {ports}: {} senders and the receiver have {} ports",
            incast.senders,
            incast.senders + 1
        ))
        .into());
    }
    let mtu = f64::from(arguments.mtu.unwrap_or(DEFAULT_MTU));
    let room = headroom(incast.rate_gbps, metres, mtu).ok_or_else(|| {
        usage(format!(
            "--cable: how soon a port of {} Gb/s answers a pause frame is not known here (IEEE 802.3 31B.3.7: 10, 25, 40, 100, 200, 400)",
            short(incast.rate_gbps)
        ))
    })?;
    let limits = thresholds(bytes, ports, arguments.classes.unwrap_or(1), room.total).ok_or_else(|| {
        usage(format!(
            "--buffer {}: the headroom of {ports} ports alone does not fit: fewer classes, ports or metres",
            buffer(bytes)
        ))
    })?;
    Ok(Some(Pauses {
        threshold: limits.pfc,
        headroom: room.total,
        reached: incast.pauses(limits.pfc),
        paused: 1.0 - 1.0 / incast.senders as f64,
    }))
}

/// An exchange among the senders and the receiver, one peer at a time: how many meet at the busiest rank.
fn orders(incast: &Incast) -> Vec<Order> {
    let ranks = incast.senders + 1;
    let found = busiest(Flows { flows: ranks, queue_pairs: 1, links: ranks });
    let of = |order, senders: f64| Order {
        order,
        senders,
        queue: Incast { senders: senders.ceil() as usize, ..*incast }.queue().peak,
    };
    vec![
        of("rank r to r + i", 1.0),
        of("drawn: half of the time at most", found.median),
        of("drawn: 99 of 100 times at most", found.p99),
        of("all to the same", incast.senders as f64),
    ]
}

fn print(out: &mut Out, said: &Report) -> io::Result<()> {
    let incast = &said.incast;
    writeln!(
        out,
        "{} to one port of {} Gb/s, {} us there and back: {} Gb/s each",
        quantity::count(incast.senders as u64, "sender"),
        short(incast.rate_gbps),
        short(incast.round_trip_us),
        short(said.share_gbps)
    )?;
    if let (Some(us), Some(message)) = (said.time_us, said.message) {
        writeln!(
            out,
            "{} of each have arrived after {} us, one alone after {} us",
            quantity::bytes(message as u64),
            microseconds(us),
            microseconds(Incast { senders: 1, ..*incast }.time_us().unwrap_or(us))
        )?;
    }
    let window = said.window.map_or("any number of bytes".to_owned(), buffer);
    match (said.queue.peak, said.queue.peak_us) {
        (Some(peak), Some(us)) => writeln!(
            out,
            "queue: {} at most, after {} us, as a sender has {window} on its way at most",
            buffer(peak),
            microseconds(us)
        )?,
        _ => writeln!(
            out,
            "queue: it grows until something slows the senders: {window} may be on the way"
        )?,
    }
    match &said.slowed {
        Some(slowed) => writeln!(
            out,
            "ECN: marked from {} on; the first sender can have slowed after {} us, with {} in the queue",
            buffer(said.kmin),
            microseconds(slowed.after_us),
            buffer(slowed.queue)
        )?,
        None => writeln!(out, "ECN: never marked, as that begins at {}", buffer(said.kmin))?,
    }
    if let Some(room) = &said.buffer {
        print_buffer(out, room)?;
    }
    if let Some(pauses) = &said.pauses {
        print_pauses(out, pauses)?;
    }
    let heading = ["an exchange, one peer at a time", "senders at the busiest", "its queue"];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    for order in &said.orders {
        let queue = order.queue.map_or("grows".to_owned(), buffer);
        lines.push(vec![order.order.to_owned(), short(order.senders), queue]);
    }
    write!(out, "{}", aligned(&lines))?;
    writeln!(
        out,
        "an exchange (alltoall, EP's dispatch) among {} ranks; drawn: each draws the rank that it sends to",
        incast.senders + 1
    )
}

fn print_buffer(out: &mut Out, room: &Buffer) -> io::Result<()> {
    let fits = match room.senders {
        Some(senders) => format!("the queue of {} fits", quantity::count(senders as u64, "sender")),
        None => "the queue of any number of senders fits".to_owned(),
    };
    match &room.overflows {
        None => writeln!(
            out,
            "buffer of {}: it suffices, if the port may take all of it; {fits}",
            buffer(room.bytes)
        ),
        Some(full) => {
            let lost = room.lost.map_or("all that comes above the port's rate".to_owned(), buffer);
            writeln!(
                out,
                "buffer of {}: full after {} us, even if the port may take all of it; then {lost} are lost; {fits}",
                buffer(room.bytes),
                microseconds(full.after_us)
            )
        }
    }
}

fn print_pauses(out: &mut Out, said: &Pauses) -> io::Result<()> {
    match &said.reached {
        None => writeln!(
            out,
            "PFC: never pauses, as a class of a port may hold {}",
            buffer(said.threshold)
        ),
        Some(reached) => writeln!(
            out,
            "PFC: pauses every sender after {} us, when its port's class holds {} and {} in all wait; then each is paused {} of the time",
            microseconds(reached.after_us),
            buffer(said.threshold),
            buffer(reached.queue),
            percent(said.paused)
        ),
    }
}
