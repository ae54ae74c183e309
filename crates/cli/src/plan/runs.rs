//! `plan --from`: what runs on some hosts let expect of more hosts, as a table or a file that `compare` holds against them.
//! Not the extrapolation (`busbw_analysis::extrapolation`).

use std::io::{self, Write};

use anyhow::Result;
use busbw_analysis::extrapolation::{Extrapolation, Prediction, Wanted, extrapolate};
use busbw_core::{
    Collective,
    columns::aligned,
    exit::Exit,
    quantity::{bytes, count, rate},
};
use busbw_hardware::prediction::Span;
use busbw_logs::measurement::Measurement;
use busbw_render::answer::{Out, answer, json_line};
use busbw_stats::affine::Stretch;

use super::{SCHEMA, collective::microseconds, figures::short, usage};
use crate::{compare, options::PlanArguments};

/// What no run on fewer hosts shows.
const NOTES: [&str; 3] = [
    "not in the range: links and switches that only more hosts cross, collisions, stragglers, other jobs",
    "not in the range: an algorithm or protocol that is chosen for other sizes than on fewer hosts, beyond what the residuals show",
    "NVLink is taken to end at a host, and every host to be like those that ran",
];

/// Reads the runs, extrapolates and prints.
///
/// # Errors
/// A run cannot be read, nothing follows from the runs, or stdout cannot be written.
pub(super) fn run(arguments: &PlanArguments, collective: Option<Collective>) -> Result<Exit> {
    let mut runs: Vec<Measurement> = Vec::new();
    for word in &arguments.from {
        runs.extend(compare::runs(word).map_err(|error| usage(format!("--from: {error:#}")))?);
    }
    let wanted = Wanted {
        collective,
        hosts: arguments.nodes,
        per_host: arguments.per_node,
        algorithm: arguments.algorithm,
    };
    let mut cases =
        extrapolate(&runs, wanted).map_err(|error| usage(format!("--from: {error}")))?;
    let (first, last) = (arguments.min_bytes.unwrap_or(0), arguments.max_bytes.unwrap_or(u64::MAX));
    for case in &mut cases {
        case.rows.retain(|row| (first..=last).contains(&row.bytes));
        if case.rows.is_empty() {
            return Err(usage(format!(
                "-b and -e leave no size of {} that was measured: nothing is said of other sizes",
                case.case.name()
            ))
            .into());
        }
    }
    let prediction = Prediction {
        plan_schema: SCHEMA,
        busbw: env!("CARGO_PKG_VERSION").to_owned(),
        question: Prediction::QUESTION.to_owned(),
        from_runs: arguments.from.iter().map(|word| word.display().to_string()).collect(),
        cases,
        notes: NOTES.map(str::to_owned).to_vec(),
    };
    answer(|out, _| {
        if arguments.json {
            return json_line(out, &prediction);
        }
        if arguments.csv {
            return csv(out, &prediction);
        }
        for case in &prediction.cases {
            table(out, case)?;
        }
        prediction.notes.iter().try_for_each(|note| writeln!(out, "{note}"))
    })?;
    Ok(Exit::Ok)
}

fn table(out: &mut Out, case: &Extrapolation) -> io::Result<()> {
    writeln!(
        out,
        "{}{}: expected on {}, {}, from {}, {}{}",
        case.case.name(),
        if case.case.in_place { " in place" } else { "" },
        count(case.to.hosts as u64, "host"),
        count(case.to.ranks as u64, "rank"),
        count(case.from.hosts as u64, "host"),
        count(case.from.ranks as u64, "rank"),
        if case.launches > 1 { format!(", {} launches", case.launches) } else { String::new() },
    )?;
    let heading = ["size", "measured us", "expected us", "range us", "algbw", "busbw", "range"];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    for row in &case.rows {
        lines.push(vec![
            bytes(row.bytes),
            microseconds(row.measured_us),
            microseconds(row.time_us.middle),
            range(&row.time_us, microseconds),
            rate(row.algbw.middle),
            rate(row.busbw.middle),
            range(&row.busbw, rate),
        ]);
    }
    write!(out, "{}", aligned(&lines))?;
    for stretch in &case.stretches {
        writeln!(out, "{}", fitted(stretch))?;
    }
    let (alpha, beta) = (&case.growth.alpha, &case.growth.beta);
    writeln!(
        out,
        "the start-up cost grows by {} ({}), the cost per byte by {} ({}): {}",
        factor(alpha.middle),
        range(alpha, factor),
        factor(beta.middle),
        range(beta, factor),
        unknown(case)
    )?;
    if !case.tried_from.is_empty() {
        let each = case.tried_from.iter().map(|scale| scale.hosts.to_string());
        writeln!(
            out,
            "the range has what the same would have missed from {} hosts",
            each.collect::<Vec<_>>().join(" and ")
        )?;
    }
    Ok(())
}

/// Why the cost per byte has a range.
fn unknown(case: &Extrapolation) -> String {
    let tuned = Collective::from_name(&case.case.collective)
        .is_some_and(|collective| collective.spec().tuned_by_nccl);
    match (case.algorithm, tuned) {
        (Some(known), _) => format!("{known} at both"),
        (None, true) => "the algorithm is not known".to_owned(),
        (None, false) => "whether a GPU or a host's NICs limit is not known".to_owned(),
    }
}

/// `8 B to 32 KiB: 18.2 us + bytes / 1.4 GB/s, residuals of 3.1 % (13 times)`.
fn fitted(stretch: &Stretch) -> String {
    let at = |size: f64| bytes(size.round() as u64);
    let per_byte = match stretch.beta_us > 0.0 {
        true => format!(" + bytes / {} GB/s", rate(1e-3 / stretch.beta_us)),
        false => String::new(),
    };
    format!(
        "{} to {}: {} us{per_byte}, residuals of {} % ({})",
        at(stretch.first_bytes),
        at(stretch.last_bytes),
        microseconds(stretch.alpha_us),
        short(stretch.residual * 100.0),
        count(stretch.samples as u64, "time"),
    )
}

fn range(span: &Span, figure: fn(f64) -> String) -> String {
    format!("{}-{}", figure(span.low), figure(span.high))
}

fn factor(value: f64) -> String {
    format!("{value:.2}")
}

fn csv(out: &mut Out, prediction: &Prediction) -> io::Result<()> {
    writeln!(
        out,
        "collective,datatype,redop,in_place,hosts,ranks,size,measured_us,time_us,time_us_low,time_us_high,algbw,busbw,busbw_low,busbw_high"
    )?;
    for case in &prediction.cases {
        let of = &case.case;
        for row in &case.rows {
            writeln!(
                out,
                "{},{},{},{},{},{},{},{:.3},{:.3},{:.3},{:.3},{:.4},{:.4},{:.4},{:.4}",
                of.collective,
                of.datatype.as_deref().unwrap_or(""),
                of.redop.as_deref().unwrap_or(""),
                of.in_place,
                case.to.hosts,
                case.to.ranks,
                row.bytes,
                row.measured_us,
                row.time_us.middle,
                row.time_us.low,
                row.time_us.high,
                row.algbw.middle,
                row.busbw.middle,
                row.busbw.low,
                row.busbw.high,
            )?;
        }
    }
    Ok(())
}
