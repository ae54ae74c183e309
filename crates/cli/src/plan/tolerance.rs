//! How many parts of a fabric may fail before a target is missed, and how soon a network recovers from one.
//! Not the counting (`busbw_hardware::forecast::tolerance`), and not single failures (`fabric`).

use std::io::{self, Write};

use anyhow::Result;
use busbw_core::{
    columns::aligned,
    exit::Exit,
    quantity::{bytes, rate},
};
use busbw_hardware::{
    fabric::{Failure, Routing},
    forecast::{
        Question, Target, Tolerance, Unanswerable,
        tolerance::{Chance, Method, Most},
    },
    recovery::{Network, Recovery, recoveries},
};
use busbw_render::answer::{Out, answer, json_line};
use serde::Serialize;

use super::figures::short;
use super::{SCHEMA, fabric, picture, usage};
use crate::options::PlanArguments;

/// The size where none is named, bytes: the last of a table.
const DEFAULT_BYTES: u64 = 8 << 30;

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'r> {
    plan_schema: u32,
    busbw: &'static str,
    question: &'static str,
    #[serde(flatten)]
    subject: fabric::Subject<'r>,
    kinds: &'r [Tolerance],
    networks: &'r [Left],
}

/// A network, when one part has failed at the worst place.
#[derive(Serialize)]
struct Left {
    #[serde(flatten)]
    recovery: Recovery,
    /// busbw of the first dimension, GB/s.
    whole: f64,
    /// The same with one part of each kind lost; none where a host has no way left.
    failed: Vec<Option<f64>>,
}

/// Answers and prints.
///
/// # Errors
/// What is asked does not fit the fabric, or stdout or the picture cannot be written.
pub(super) fn run(arguments: &PlanArguments, question: &Question, target: Target) -> Result<Exit> {
    let size = arguments.min_bytes.or(arguments.max_bytes).unwrap_or(DEFAULT_BYTES);
    if arguments.max_bytes.is_some_and(|last| last != size) {
        return Err(usage("--target is of one size: name it with -b, without -e").into());
    }
    if let Some(more) = question.failures.iter().find(|one| one.count != 1 || one.seed.is_some()) {
        let kind = Failure { count: 1, seed: None, ..more.clone() };
        return Err(usage(format!(
            "--fail {more}: --target finds the number and tries the places: say {kind}"
        ))
        .into());
    }
    let question = Question { sizes: vec![size], ..question.clone() };
    let refused = |error: Unanswerable| usage(error.to_string());
    let kinds = question.failures.iter().map(|kind| question.tolerance(kind, target));
    let kinds = kinds.collect::<Result<Vec<_>, _>>().map_err(refused)?;
    let networks = left(&question).map_err(refused)?;
    if let Some(file) = &arguments.svg {
        picture::write(file, &drawn(&question, &kinds))?;
    }
    answer(|out, _| {
        if arguments.json {
            return json_line(out, &report(&question, &kinds, &networks));
        }
        if arguments.csv {
            return csv(out, &kinds);
        }
        let whole = Question { failures: Vec::new(), ..question.clone() };
        fabric::head(out, &whole)?;
        kinds.iter().try_for_each(|kind| print(out, kind))?;
        print_networks(out, &question, &networks)
    })?;
    Ok(Exit::Ok)
}

fn report<'r>(question: &'r Question, kinds: &'r [Tolerance], networks: &'r [Left]) -> Report<'r> {
    Report {
        plan_schema: SCHEMA,
        busbw: env!("CARGO_PKG_VERSION"),
        question: "tolerance",
        subject: fabric::Subject::of(question),
        kinds,
        networks,
    }
}

/// What NCCL's own network and busbw's plugin have left: the former hashes its connections onto what is there, the latter weighs
/// its paths.
fn left(question: &Question) -> Result<Vec<Left>, Unanswerable> {
    let rdma = question.fabric.nics().is_some_and(|nics| nics.kind.rdma());
    let shown = match rdma {
        true => [Network::NcclRdma, Network::BusbwRdma],
        false => [Network::NcclSockets, Network::BusbwTcp],
    };
    let recoveries = recoveries(question.nccl).into_iter();
    let recoveries = recoveries.filter(|recovery| shown.contains(&recovery.network));
    let with = |routing: Routing, failures: Vec<Failure>| {
        let mut question = Question { failures, ..question.clone() };
        // Packets that switches spread are spread for both.
        if question.fabric.routing == Routing::Ecmp {
            question.fabric.routing = routing;
        }
        match question.answer() {
            Ok(answer) => {
                let first = answer.dimensions.iter().flat_map(|one| &one.sizes).next();
                Ok(first.map(|size| size.busbw))
            }
            Err(Unanswerable::CutOff) => Ok(None),
            Err(error) => Err(error),
        }
    };
    recoveries
        .map(|recovery| {
            let routing = match recovery.network {
                Network::NcclRdma | Network::NcclSockets => Routing::Ecmp,
                Network::BusbwTcp | Network::BusbwRdma => Routing::Spray,
            };
            let failed = question.failures.iter().map(|kind| with(routing, vec![kind.clone()]));
            Ok(Left {
                whole: with(routing, Vec::new())?.unwrap_or(0.0),
                failed: failed.collect::<Result<Vec<_>, _>>()?,
                recovery,
            })
        })
        .collect()
}

fn drawn(question: &Question, kinds: &[Tolerance]) -> picture::ByFailures {
    let size = bytes(question.sizes.first().copied().unwrap_or(0));
    let rows =
        |kind: &Tolerance| kind.rows.iter().map(|row| (row.failed, row.worst, row.best)).collect();
    let names: Vec<&str> = kinds.iter().map(|kind| kind.kind.as_str()).collect();
    let target =
        kinds.first().and_then(|kind| kind.whole.get(kind.of)).map_or(0.0, |whole| whole.target);
    picture::ByFailures {
        title: format!("{}, {size}", fabric::title(question)),
        axis: format!("failed: {}", names.join(", ")),
        kinds: kinds.iter().map(|kind| (kind.kind.clone(), rows(kind))).collect(),
        target,
    }
}

fn print(out: &mut Out, said: &Tolerance) -> io::Result<()> {
    let several = said.whole.len() > 1;
    for whole in &said.whole {
        let of = if several { format!("{}: ", whole.name) } else { String::new() };
        writeln!(
            out,
            "{of}{} GB/s of {} expected of the whole fabric, target {} GB/s",
            rate(whole.busbw),
            bytes(said.bytes),
            rate(whole.target),
        )?;
    }
    let how = match said.method {
        Method::Exact => "counted".to_owned(),
        Method::Simulated { hashes: 1, .. } => "simulated".to_owned(),
        Method::Simulated { hashes, .. } => format!("simulated, medians of {hashes} hashes"),
    };
    writeln!(out, "{}: {} there are, {} carry bytes; {how}", said.kind, said.parts, said.used)?;
    let (Some(worst), Some(best)) = (&said.worst, &said.best) else {
        return writeln!(out, "  none may fail: the whole fabric misses the target");
    };
    most(out, worst, "wherever they are", several)?;
    most(out, best, "at the best places", several)?;
    if !said.likely.is_empty() {
        let each = said.likely.iter().map(|one| {
            format!("{} with a chance of {} % or more", one.failed, short(one.chance * 100.0))
        });
        writeln!(out, "  at random places: {}", each.collect::<Vec<_>>().join(", "))?;
    }
    let of = said
        .whole
        .get(said.of)
        .filter(|_| several)
        .map_or(String::new(), |one| format!("{}: ", one.name));
    let heading = ["failed", "worst places", "best places", "target met at random"];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    lines[0][1] = format!("{of}{}", heading[1]);
    for row in &said.rows {
        let busbw = |busbw: f64| if busbw > 0.0 { rate(busbw) } else { "cut off".to_owned() };
        lines.push(vec![
            row.failed.to_string(),
            busbw(row.worst),
            busbw(row.best),
            chance(row.chance),
        ]);
    }
    write!(out, "{}", aligned(&lines))?;
    writeln!(
        out,
        "GB/s of busbw; worst places: all at one switch, host or NVLink domain; best: where they cost the least{}",
        match said.method {
            Method::Exact => String::new(),
            Method::Simulated { draws, .. } =>
                format!("; at random: {draws} draws, with 95 % intervals"),
        }
    )
}

fn most(out: &mut Out, said: &Most, places: &str, several: bool) -> io::Result<()> {
    let least = if said.at_least { "at least " } else { "" };
    write!(out, "  {least}{} may fail {places}", said.failed)?;
    match &said.then {
        None if said.at_least => writeln!(out, "; no more were tried"),
        None => writeln!(out),
        Some(then) => {
            let at = then.at.as_ref().map_or(String::new(), |at| format!(" of {at}"));
            let of = if several { format!(" for {}", then.dimension) } else { String::new() };
            match then.cut_off {
                true => writeln!(out, "; one more cuts a host off{of}: {}{at}", then.limited_by),
                false => writeln!(
                    out,
                    "; with one more {} GB/s{of}, held back by {}{at}",
                    rate(then.busbw),
                    then.limited_by
                ),
            }
        }
    }
}

fn chance(chance: Chance) -> String {
    let percent = |share: f64| match share * 100.0 {
        100.0 => "100".to_owned(),
        percent if percent >= 99.995 => ">99.99".to_owned(),
        percent if percent > 0.0 && percent < 0.005 => "<0.01".to_owned(),
        percent => short(percent),
    };
    let [low, high] = chance.interval;
    match low < high {
        true => format!("{} % ({}-{})", percent(chance.of), percent(low), percent(high)),
        false => format!("{} %", percent(chance.of)),
    }
}

/// A time as the table has it.
fn seconds(us: Option<f64>) -> String {
    match us {
        None => "not known".to_owned(),
        Some(us) if us < 1e6 => format!("{} ms", short(us / 1e3)),
        Some(us) if us < 1e8 => format!("{} s", short(us / 1e6)),
        Some(us) => format!("{} min", short(us / 6e7)),
    }
}

fn print_networks(out: &mut Out, question: &Question, networks: &[Left]) -> io::Result<()> {
    let mut heading = vec!["network".to_owned(), "whole".to_owned()];
    heading.extend(question.failures.iter().map(|kind| format!("one {kind} lost")));
    heading.extend(["other ways after", "without any the job ends after"].map(str::to_owned));
    let mut lines = vec![heading];
    for one in networks {
        let mut line = vec![one.recovery.network.name().to_owned(), rate(one.whole)];
        line.extend(one.failed.iter().map(|busbw| busbw.map_or("job ends".to_owned(), rate)));
        line.extend([seconds(one.recovery.moved_us), seconds(one.recovery.ends_us)]);
        lines.push(line);
    }
    write!(out, "{}", aligned(&lines))?;
    for one in networks {
        let Recovery { network, how, source, .. } = &one.recovery;
        writeln!(out, "{}: {how} ({source})", network.name())?;
    }
    Ok(())
}

fn csv(out: &mut Out, kinds: &[Tolerance]) -> io::Result<()> {
    writeln!(
        out,
        "kind,size,dimension,target,failed,busbw_worst,busbw_best,chance,chance_low,chance_high"
    )?;
    for kind in kinds {
        let Some(whole) = kind.whole.get(kind.of) else { continue };
        for row in &kind.rows {
            let [low, high] = row.chance.interval;
            writeln!(
                out,
                "{},{},{},{:.4},{},{:.4},{:.4},{:.6},{low:.6},{high:.6}",
                kind.kind,
                kind.bytes,
                whole.name,
                whole.target,
                row.failed,
                row.worst,
                row.best,
                row.chance.of,
            )?;
        }
    }
    Ok(())
}
