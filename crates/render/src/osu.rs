//! The output of the OSU Micro-Benchmarks 7.4, byte for byte, from a record. Formats: c/util/osu_util_mpi.c
//! (print_preamble, print_only_header, print_stats, print_stats_validate) and the printf calls of
//! c/mpi/pt2pt/standard, with FIELD_WIDTH 18 (configure.ac:330) and FLOAT_PRECISION 2. Where ours differs on
//! purpose, docs/osu.md says so.
//! Not the figures, and not the grid of windows (`grid`).

mod grid;
mod head;

use std::io::{self, Write};

use busbw_core::{
    Collective, DataType,
    exit::Exit,
    messages::Messages,
    osu::Program,
    plan::{Osu, Plan},
    record::{End, Half, Row, Run, Status},
};

use self::grid::Grid;
use super::{Render, number::or_nan};

/// OSU's table on a writer.
#[derive(Debug)]
pub struct OsuTable<W> {
    out: W,
    plan: Option<Plan>,
    /// The type whose header was printed last.
    datatype: Option<DataType>,
    /// The size at which data was wrong.
    failed: Option<u64>,
    grid: Grid,
}

impl<W: Write> OsuTable<W> {
    /// A table on `out`.
    pub fn new(out: W) -> OsuTable<W> {
        OsuTable { out, plan: None, datatype: None, failed: None, grid: Grid::default() }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Ends the table of the last type and begins that of another.
    fn table_of(&mut self, plan: &Plan, datatype: DataType) -> String {
        let mut text = self.grid.close(osu(plan).rate);
        self.datatype = Some(datatype);
        text += &head::columns(plan, datatype);
        text
    }
}

impl<W: Write> Render for OsuTable<W> {
    fn run(&mut self, run: &Run) -> io::Result<()> {
        let mut text: String = run.preamble.iter().map(|line| format!("{line}\n")).collect();
        text += &head::title(&run.plan);
        if let Some(first) = run.plan.datatypes.first() {
            text += &self.table_of(&run.plan, *first);
        }
        self.plan = Some(run.plan.clone());
        self.write(&text)
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        let Some(plan) = self.plan.clone().filter(|_| row.shown) else { return Ok(()) };
        let mut text = match self.datatype {
            Some(datatype) if datatype == row.datatype => String::new(),
            _ => self.table_of(&plan, row.datatype),
        };
        match row.out_of_place.as_ref().or(row.in_place.as_ref()) {
            None => {
                let reason = row.waived.as_deref().unwrap_or("not measured");
                text += &format!("# {reason}\n");
            }
            Some(half) => {
                if half.figures.wrong.is_some_and(|wrong| wrong > 0) {
                    self.failed = Some(row.message_bytes());
                }
                text += &match plan.messaging.varied.as_slice() {
                    [] => line(&plan, row, half),
                    windows => self.grid.cell(row.size, or_nan(half.figures.algbw), windows),
                };
            }
        }
        self.write(&text)
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        let Some(plan) = self.plan.clone() else { return Ok(()) };
        if end.status != Status::Complete {
            // The rows so far stay, and nothing that looks like an end follows.
            let text = self.grid.cut();
            return self.write(&text);
        }
        let mut text = String::new();
        let begun = plan.datatypes.iter().position(|datatype| Some(*datatype) == self.datatype);
        for datatype in plan.datatypes.get(begun.map_or(0, |at| at + 1)..).unwrap_or_default() {
            // A type that is larger than all sizes has no rows.
            text += &self.table_of(&plan, *datatype);
        }
        text += &self.grid.close(osu(&plan).rate);
        if let Some(size) = self.failed {
            text += &format!(
                "DATA VALIDATION ERROR: {} exited with status {} on message size {size}.\n",
                plan.program,
                Exit::WrongData.code()
            );
        }
        self.write(&text)
    }
}

/// The settings of OSU's names, which a record of theirs has.
fn osu(plan: &Plan) -> Osu {
    plan.osu.clone().unwrap_or_default()
}

/// Whether rows have a size: a barrier's have none.
fn is_sized(plan: &Plan) -> bool {
    plan.benchmark.collective().is_none_or(Collective::moves_data)
}

/// The bandwidth test, if it is one.
fn bandwidth(plan: &Plan) -> Option<Messages> {
    plan.benchmark.messages().filter(|test| !test.is_latency())
}

fn line(plan: &Plan, row: &Row, half: &Half) -> String {
    let size = row.message_bytes();
    let [time_us, algbw] = [half.figures.time_us, half.figures.algbw].map(or_nan);
    let mut text = match (is_sized(plan), bandwidth(plan)) {
        (false, _) => format!("{time_us:>17.2}"),
        (true, None) => format!("{size:<10}{time_us:>18.2}"),
        // MB are 10^6 bytes.
        (true, Some(_)) => format!("{size:<10}{:>18.2}", algbw * 1e3),
    };
    if bandwidth(plan) == Some(Messages::MultiBandwidth) && osu(plan).rate {
        text += &format!("{:>18.2}", algbw * 1e9 / size as f64);
    }
    if let Some(latency) = half.latency.as_ref().filter(|_| osu(plan).full) {
        let iterations = half.fewer_iterations.unwrap_or(plan.loops(size).0);
        text += &format!(
            "{:>18.2}{:>18.2}{iterations:>12}",
            latency.fastest_rank_us, latency.slowest_rank_us
        );
    }
    if plan.check > 0 {
        let verdict = match half.figures.wrong {
            Some(0) => "Pass",
            Some(_) => "Fail",
            None => "N/A",
        };
        text += &format!("{verdict:>18}");
    }
    let of_messages = half.messages.as_ref().map(|figures| &figures.percentiles);
    let of_collectives = half.latency.as_ref().map(|figures| &figures.percentiles);
    for (_, us) in of_messages.or(of_collectives).into_iter().flatten() {
        let value = match bandwidth(plan) {
            // All pairs together, as in the column before.
            Some(test) => plan.pairs(test).len() as f64 * size as f64 / us,
            None => *us,
        };
        text += &format!("{value:>18.2}");
    }
    text + "\n"
}

/// The program of a plan.
fn program(plan: &Plan) -> Option<&'static Program> {
    Program::find(&plan.program)
}
