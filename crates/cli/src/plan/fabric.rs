//! A collective on a fabric: tables by size for every dimension of a job, and what a failure costs.
//! Not the forecast (`busbw_hardware::forecast`).

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::Result;
use busbw_core::{
    Collective,
    columns::aligned,
    exit::Exit,
    quantity::{bytes, count, rate},
};
use busbw_hardware::forecast::{Answer, Job, OfDimension, Placement, Prediction, Question};
use busbw_render::answer::{Out, answer, json_line};
use serde::Serialize;

use super::collective::{NEWEST, microseconds, release, sizes};
use super::{SCHEMA, picture, tolerance, usage};
use crate::{fabric_source, options::PlanArguments};

/// What is asked about, as JSON has it.
#[derive(Serialize)]
pub(super) struct Subject<'r> {
    fabric: &'r str,
    machine: &'r str,
    hosts: usize,
    gpus: usize,
    collective: Collective,
    nccl: String,
    job: String,
    placement: String,
}

impl<'r> Subject<'r> {
    pub(super) fn of(question: &'r Question) -> Subject<'r> {
        Subject {
            fabric: &question.fabric.name,
            machine: &question.fabric.machine.name,
            hosts: question.fabric.hosts,
            gpus: question.gpus,
            collective: question.collective,
            nccl: release(question.nccl),
            job: question.job.to_string(),
            placement: question.placement.to_string(),
        }
    }
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'r> {
    plan_schema: u32,
    busbw: &'static str,
    question: &'static str,
    #[serde(flatten)]
    subject: Subject<'r>,
    failures: Vec<String>,
    dimensions: &'r [OfDimension],
    /// The same without the failures, where there are any.
    whole: Option<&'r [OfDimension]>,
    notes: &'r [String],
}

/// Forecasts and prints.
///
/// # Errors
/// The file is no fabric file, what is asked does not fit it, or stdout cannot be written.
pub(super) fn run(arguments: &PlanArguments, file: &Path, collective: Collective) -> Result<Exit> {
    let fabric = fabric_source::read(file)?;
    let gpus = arguments.gpus.unwrap_or_else(|| fabric.gpus());
    let asked = &arguments.fabric;
    let question = Question {
        gpus,
        job: asked.job.clone().unwrap_or_else(|| Job::all(gpus)),
        placement: asked.placement.unwrap_or(Placement::Packed),
        failures: asked.fail.clone(),
        nccl: arguments.nccl.unwrap_or(NEWEST),
        ..Question::new(fabric, collective, sizes(arguments)?)
    };
    if let Some(target) = asked.target {
        return tolerance::run(arguments, &question, target);
    }
    let refused = |error: busbw_hardware::forecast::Unanswerable| usage(error.to_string());
    let forecast = question.answer().map_err(refused)?;
    let whole = match question.failures.is_empty() {
        true => None,
        false => {
            let whole = Question { failures: Vec::new(), ..question.clone() };
            Some(whole.answer().map_err(refused)?)
        }
    };
    if let Some(file) = &arguments.svg {
        picture::write(file, &drawn(&question, &forecast, whole.as_ref()))?;
    }
    answer(|out, _| {
        if arguments.json {
            return json_line(out, &report(&question, &forecast, whole.as_ref()));
        }
        if arguments.csv {
            return csv(out, &forecast);
        }
        head(out, &question)?;
        for (at, dimension) in forecast.dimensions.iter().enumerate() {
            let before = whole.as_ref().and_then(|whole| whole.dimensions.get(at));
            table(out, dimension, before)?;
        }
        foot(out, &forecast)
    })?;
    Ok(Exit::Ok)
}

fn report<'r>(
    question: &'r Question,
    forecast: &'r Answer,
    whole: Option<&'r Answer>,
) -> Report<'r> {
    Report {
        plan_schema: SCHEMA,
        busbw: env!("CARGO_PKG_VERSION"),
        question: "fabric",
        subject: Subject::of(question),
        failures: question.failures.iter().map(ToString::to_string).collect(),
        dimensions: &forecast.dimensions,
        whole: whole.map(|whole| whole.dimensions.as_slice()),
        notes: &forecast.notes,
    }
}

/// busbw and time of every dimension; without failures its busbw is the line above.
fn drawn(question: &Question, forecast: &Answer, whole: Option<&Answer>) -> picture::BySize {
    let mut title = title(question);
    question.failures.iter().for_each(|failure| title.push_str(&format!("; failed: {failure}")));
    let curves = forecast.dimensions.iter().enumerate().map(|(at, dimension)| picture::Curve {
        name: format!("{} of {}", dimension.name, dimension.ranks),
        points: dimension
            .sizes
            .iter()
            .map(|row| picture::Point {
                bytes: row.bytes,
                busbw: row.busbw,
                busbw_range: row.busbw_range,
                time_us: row.time_us,
                time_range_us: row.time_range_us,
            })
            .collect(),
        line: whole.and_then(|whole| whole.dimensions.get(at)).map(|whole| picture::Line {
            name: "nothing failed".to_owned(),
            points: whole.sizes.iter().map(|row| (row.bytes, row.busbw)).collect(),
        }),
    });
    picture::BySize { title, curves: curves.collect() }
}

/// What is asked, for pictures.
pub(super) fn title(question: &Question) -> String {
    let gpus = count(question.gpus as u64, "GPU");
    format!(
        "{} on {}: {gpus}, {}",
        question.collective.name(),
        question.fabric.name,
        question.placement
    )
}

pub(super) fn head(out: &mut Out, question: &Question) -> io::Result<()> {
    let fabric = &question.fabric;
    write!(
        out,
        "{} on {}: {} of {}, {}, {}",
        question.collective.name(),
        fabric.name,
        count(question.gpus as u64, "GPU"),
        fabric.machine.name,
        question.placement,
        match question.collective.spec().tuned_by_nccl {
            true => format!("NCCL {}'s cost model chooses", release(question.nccl)),
            false => "sends and receives".to_owned(),
        }
    )?;
    for failure in &question.failures {
        write!(out, "; failed: {failure}")?;
    }
    writeln!(out)
}

fn table(out: &mut Out, dimension: &OfDimension, whole: Option<&OfDimension>) -> io::Result<()> {
    writeln!(
        out,
        "{}: {} of {}, at most {} each, at once",
        dimension.name,
        count(dimension.groups as u64, "group"),
        count(dimension.ranks as u64, "rank"),
        count(dimension.hosts as u64, "host"),
    )?;
    let mut heading = vec!["size", "algorithm", "protocol", "time us", "algbw", "busbw", "range"];
    if whole.is_some() {
        heading.extend(["whole", "lost"]);
    }
    heading.push("limited by");
    let mut lines = vec![heading.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for (at, row) in dimension.sizes.iter().enumerate() {
        let mut line = vec![
            bytes(row.bytes),
            row.algorithm.name().to_owned(),
            row.protocol.map_or("-", |protocol| protocol.name()).to_owned(),
            microseconds(row.time_us),
            rate(row.algbw),
            rate(row.busbw),
            format!("{}-{}", rate(row.busbw_range[0]), rate(row.busbw_range[1])),
        ];
        if let Some(before) = whole.and_then(|whole| whole.sizes.get(at)) {
            line.extend([rate(before.busbw), lost(row, before)]);
        }
        line.push(row.limited_by.clone());
        lines.push(line);
    }
    write!(out, "{}", aligned(&lines))
}

/// How much longer it takes, percent of the rate.
fn lost(row: &Prediction, before: &Prediction) -> String {
    format!("{:.1} %", (1.0 - before.time_us / row.time_us).max(0.0) * 100.0)
}

fn foot(out: &mut Out, forecast: &Answer) -> io::Result<()> {
    writeln!(
        out,
        "GB/s; a range is of busbw. Nothing was run: docs/fabric.md has the model and what is not in it."
    )?;
    forecast.notes.iter().try_for_each(|note| writeln!(out, "{note}"))
}

fn csv(out: &mut Out, forecast: &Answer) -> io::Result<()> {
    writeln!(
        out,
        "dimension,ranks,groups,size,algorithm,protocol,time_us,time_us_low,time_us_high,algbw,busbw,busbw_low,busbw_high,limited_by"
    )?;
    for dimension in &forecast.dimensions {
        for row in &dimension.sizes {
            writeln!(
                out,
                "{},{},{},{},{},{},{:.3},{:.3},{:.3},{:.4},{:.4},{:.4},{:.4},{}",
                dimension.name,
                dimension.ranks,
                dimension.groups,
                row.bytes,
                row.algorithm,
                row.protocol.map_or("", |protocol| protocol.name()),
                row.time_us,
                row.time_range_us[0],
                row.time_range_us[1],
                row.algbw,
                row.busbw,
                row.busbw_range[0],
                row.busbw_range[1],
                row.limited_by,
            )?;
        }
    }
    Ok(())
}
