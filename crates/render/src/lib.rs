//! From a record, or from findings, to what people and programs read. Every output of a run takes run, rows
//! and end, and nothing else, so that `show` prints what the run printed.
//! Not measuring, and not the record's own file (`busbw_store`).
#![forbid(unsafe_code)]

/// What a command answers on stdout.
pub mod answer;
mod calls;
mod closing;
mod csv;
mod details;
mod finding;
mod footer;
mod incidents;
mod json_lines;
mod latency;
mod messages;
mod nccl_report;
mod number;
mod osu;
mod pairs;
mod perftest_report;
mod report_json;
mod table;
mod time_left;
mod units;
mod variant;
mod warnings;

use std::io::{self, Write};

use busbw_core::{
    Benchmark,
    plan::{Plan, Style},
    record::{End, Line, Row, Run},
};

pub use calls::CallsTable;
pub use closing::Closing;
pub use csv::Csv;
pub use csv::lines;
pub use details::{row_details, run_details};
pub use finding::{findings, wrapped};
pub use footer::{Totals, gate_held, somebody_is_slow};
pub use json_lines::JsonLines;
pub use latency::LatencyTable;
pub use messages::MessagesTable;
pub use nccl_report::{NcclReport, open as open_report};
pub use osu::OsuTable;
pub use pairs::PairsTable;
pub use perftest_report::PerftestReport;
pub use table::Table;
pub use time_left::{Left, time_left};
pub use units::Units;
pub use warnings::{row_warnings, run_warnings};

/// An output that follows a record as it grows.
pub trait Render {
    /// The run begins.
    ///
    /// # Errors
    /// When the output cannot be written.
    fn run(&mut self, run: &Run) -> io::Result<()>;
    /// A library's report from one process, as the record's line.
    ///
    /// # Errors
    /// When the output cannot be written.
    fn library(&mut self, _said: &Line) -> io::Result<()> {
        Ok(())
    }
    /// A row is complete.
    ///
    /// # Errors
    /// When the output cannot be written.
    fn row(&mut self, row: &Row) -> io::Result<()>;
    /// The run ended.
    ///
    /// # Errors
    /// When the output cannot be written.
    fn end(&mut self, end: &End) -> io::Result<()>;
}

/// The JSON report of a run (`-J`): perftest's for RDMA's messages, else nccl-tests'.
pub fn report<W: Write + 'static>(plan: &Plan, out: W) -> Box<dyn Render> {
    match plan.backend.verbs_options() {
        Some(_) => Box::new(PerftestReport::new(out)),
        None => Box::new(NcclReport::new(out)),
    }
}

/// The table of what `plan` measures, on `out`, with bandwidths in `units` where it has columns of them.
pub fn table<W: Write + 'static>(plan: &Plan, units: Units, out: W) -> Box<dyn Render> {
    match plan.benchmark {
        _ if plan.style == Style::Osu => Box::new(OsuTable::new(out)),
        Benchmark::Collective(_) if plan.latency => Box::new(LatencyTable::new(out)),
        Benchmark::Collective(_) => Box::new(Table::new(units, out)),
        Benchmark::Messages(_) => Box::new(MessagesTable::new(units, out)),
        Benchmark::Pairs => Box::new(PairsTable::new(out)),
        Benchmark::Replay => Box::new(CallsTable::new(units, out)),
    }
}
