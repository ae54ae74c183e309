//! The table: byte for byte what nccl-tests 2.19.6 prints (src/util.cu:457-760), or 2.20.0, as far as published.
//! Not its JSON (`nccl_report`). Where we differ on purpose, docs/differences.md says so.

use std::io::{self, Write};

use busbw_core::{
    plan::{Blocking, Plan, Step},
    record::{End, Figures, Half, Row, Run, Status},
};
use busbw_stats::iteration_stats;

use super::{
    Render, Units, footer,
    number::{fitted, general},
    variant,
};

/// The width of a bandwidth's column in nccl-tests' table.
const BANDWIDTH_WIDTH: usize = 6;

/// The table on a writer.
#[derive(Debug)]
pub struct Table<W> {
    out: W,
    units: Units,
    /// Facts from the run's first line that later lines need.
    run: Option<Run>,
}

impl<W: Write> Table<W> {
    /// A table on `out`, bandwidths in `units`.
    pub fn new(units: Units, out: W) -> Table<W> {
        Table { out, units, run: None }
    }

    /// One write, then a flush: output of other processes cannot land inside a line.
    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Render for Table<W> {
    fn run(&mut self, run: &Run) -> io::Result<()> {
        let mut text = String::new();
        for line in &run.preamble {
            text += line;
            text.push('\n');
        }
        text += &configuration(run);
        text += &devices(run);
        if let Some(reduced) = run.reduced_max_bytes {
            text += &format!("#\n# Reducing maxBytes to {reduced} due to memory limitation\n");
        }
        text += &header(&run.plan, self.units);
        self.run = Some(run.clone());
        self.write(&text)
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        let Some(run) = self.run.as_ref().filter(|_| row.shown) else { return Ok(()) };
        let text = line(row, run, self.units);
        self.write(&text)
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        let Some(run) = &self.run else { return Ok(()) };
        // A table that was cut short must not look complete.
        if end.status != Status::Complete {
            return Ok(());
        }
        let text = footer::text(run, end, self.units);
        self.write(&text)
    }
}

fn configuration(run: &Run) -> String {
    let plan = &run.plan;
    let (step, unit) = match plan.step {
        Step::Factor(factor) => (factor, "factor"),
        Step::Bytes(bytes) => (bytes, "bytes"),
    };
    let mut text = format!(
        "# nccl-tests version {} nccl-headers={} nccl-library={}\n# Collective test starting: {}\n",
        plan.nccl_tests_version.printed(),
        run.nccl[0],
        run.nccl[1],
        plan.program
    );
    text += &format!(
        "# nThread {} nGpus {} minBytes {} maxBytes {} step: {step}({unit}) warmup iters: {} iters: {} agg iters: {} validation: {} graph: {} unalign: {}\n",
        plan.threads,
        plan.devices,
        plan.min_bytes,
        plan.max_bytes,
        plan.warmup,
        plan.iterations,
        plan.aggregated,
        plan.check,
        plan.graph,
        plan.unalign
    );
    text += match plan.blocking {
        Blocking::None => "",
        Blocking::InnerBarrier => {
            "# Blocking Enabled: wait and barrier after each inner iteration (-m) \n"
        }
        Blocking::Inner => {
            "# Blocking Enabled: wait after each inner iteration (-m), no barrier \n"
        }
        Blocking::Outer => {
            "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier \n"
        }
    };
    if plan.per_iteration {
        text += "# Per-Iteration Report: CUDA event timing; i_* uses max over process rows";
        if plan.per_iteration_skip > 0 {
            text += &format!("; summary skips first {} iterations", plan.per_iteration_skip);
        }
        text += " \n";
    }
    if plan.parallel_init {
        text += "# Parallel Init Enabled: threads call into NcclInitRank concurrently \n";
    }
    text + "#\n"
}

/// The device of every rank.
pub(super) fn devices(run: &Run) -> String {
    let mut text = "# Using devices\n".to_owned();
    for device in &run.devices {
        text += &format!(
            "#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [{}] {}\n",
            device.rank,
            device.group,
            device.pid,
            device.host,
            device.device,
            device.address,
            device.name
        );
    }
    text
}

/// The three lines above the rows.
fn header(plan: &Plan, units: Units) -> String {
    let time = if plan.cpu_time { "cputime" } else { "time" };
    let (label, format, pad) =
        if plan.timestamps { ("timestamp", "%Y-%m-%d %H:%M:%S", 19) } else { ("", "", 0) };
    let lead = |a, b, c, d, e| format!("# {a:>10}  {b:>12}  {c:>8}  {d:>6}  {e:>6}");
    let width = units.width(BANDWIDTH_WIDTH);
    let half = |cells: [&str; 8]| {
        let [time, algbw, busbw, wrong, more @ ..] = cells;
        let mut text = format!("  {time:>7}  {algbw:>width$}  {busbw:>width$}  {wrong:>6}");
        if plan.per_iteration {
            text += &more.map(|cell| format!("  {cell:>7}")).concat();
        }
        text
    };
    let names = half([time, "algbw", "busbw", "#wrong", "i_min", "i_max", "i_p99", "i_cv%"]);
    let unit = format!("({})", units.name());
    let units = half(["(us)", &unit, &unit, "", "(us)", "(us)", "(us)", "(%)"]);
    let title = if plan.per_iteration {
        "              out-of-place (+ per-iteration)                                in-place (+ per-iteration)"
    } else {
        "           out-of-place                       in-place          "
    };
    let mut text = format!("#\n{}{title}\n", lead("", "", "", "", ""));
    text += &lead("size", "count", "type", "redop", "root");
    let variant = if plan.variants.is_empty() { "" } else { "  variant" };
    text += &format!("{names}{names} {label:>pad$}{variant}\n");
    text += &lead("(B)", "(elements)", "", "", "");
    text + &format!("{units}{units} {format:>pad$}\n")
}

/// One row with its newline. Rows of other communicators than the first are comments beneath it, so
/// that parsers find one row a size, as in nccl-tests' output.
fn line(row: &Row, run: &Run, units: Units) -> String {
    let first_group = run.devices.first().map_or(0, |device| device.group);
    let mut text = String::new();
    if row.group != first_group {
        text += &format!("# Group {:2} ", row.group);
    }
    if let Some(reason) = &row.waived {
        return format!("{text}{reason}\n");
    }
    text += &format!(
        "{:12}  {:12}  {:>8}  {:>6}  {:6}",
        row.size,
        row.count,
        row.datatype.name(),
        row.redop,
        row.root
    );
    for half in [&row.out_of_place, &row.in_place].into_iter().flatten() {
        text += &body(half, &run.plan, units);
    }
    if run.plan.timestamps {
        text += &format!("{:>21}", row.finished);
    }
    if let Some(variant) = variant::column(row) {
        text += &format!("   {variant}");
    }
    text.push('\n');
    for note in &row.notes {
        text += &format!("{note}\n");
    }
    text
}

/// One half. Without a check, " N/A" is 7 wide, not 8, as in nccl-tests.
fn body(half: &Half, plan: &Plan, units: Units) -> String {
    let Figures { time_us, algbw, busbw, wrong, .. } = half.figures;
    let time = if plan.cpu_time { half.cpu_time_us } else { time_us };
    let bandwidth = |value: Option<f64>| {
        fitted(value.map(|value| units.of(value)), units.width(BANDWIDTH_WIDTH))
    };
    let mut text = format!("  {}  {}  {}", fitted(time, 7), bandwidth(algbw), bandwidth(busbw));
    match wrong {
        Some(wrong) => text += &format!("  {:>6}", general(wrong as f64)),
        None => text += "    N/A",
    }
    if let Some(report) = &half.iterations {
        let times = report.times_us.get(report.skipped..).unwrap_or_default();
        let stats = iteration_stats(times);
        let cell = |value: Option<f64>| format!("  {}", fitted(value, 7));
        text += &cell(stats.map(|s| s.min));
        text += &cell(stats.map(|s| s.max));
        text += &cell(stats.map(|s| s.p99));
        text += &cell(stats.map(|s| s.cv_percent));
    }
    text
}
