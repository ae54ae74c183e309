//! `busbw references`: lists the published results that are shipped.
//! Not the comparison with them (`compare`).

use anyhow::Result;
use busbw_core::exit::Exit;
use serde::Serialize;
use std::io::Write;

use crate::options::ReferencesArguments;
use busbw_analysis::references;
use busbw_core::quantity::{bytes, count, rate};
use busbw_render::answer::{answer, json_line};

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    hardware: &'static str,
    source: &'static str,
    runs: Vec<busbw_logs::measurement::Folded>,
}

/// Lists the references, or one with its tables.
///
/// # Errors
/// stdout cannot be written.
pub fn run(arguments: &ReferencesArguments) -> Result<Exit> {
    answer(|out, _| {
        for one in references::all() {
            let runs = one.runs().unwrap_or_default();
            if arguments.json {
                let runs = runs.into_iter().map(Into::into).collect();
                json_line(
                    out,
                    &Listed { name: one.name, hardware: one.hardware, source: one.source, runs },
                )?;
                continue;
            }
            writeln!(out, "{}\n  {}\n  {}", one.name, one.hardware, one.source)?;
            for run in &runs {
                let ranks = run.rank_count();
                let ranks =
                    ranks.map_or(String::new(), |n| format!(", {}", count(n as u64, "rank")));
                let best = run.peak().map_or(String::new(), |peak| {
                    let figure = peak.figure().unwrap_or_default();
                    let place = if peak.in_place { " in place" } else { "" };
                    format!(", best {} GB/s at {}{place}", rate(figure), bytes(peak.row.size))
                });
                writeln!(
                    out,
                    "  {}{ranks}: {}{best}",
                    run.test_name(),
                    count(run.rows.len() as u64, "row")
                )?;
            }
        }
        Ok(())
    })?;
    Ok(Exit::Ok)
}
