//! The table of collectives in latency form: the mean, the fastest and the slowest rank, and the
//! spread of every iteration of every rank.
//! Not OSU's, which its own names print, and not nccl-tests', which has no such form.

use std::io::{self, Write};

use busbw_core::record::{End, LatencyFigures, Row, Run, Status};

use super::{
    Render, footer,
    messages::{interval, us},
    table::devices,
    variant,
};

/// The table on a writer.
#[derive(Debug)]
pub struct LatencyTable<W> {
    out: W,
    run: Option<Run>,
}

impl<W: Write> LatencyTable<W> {
    /// A table on `out`.
    pub fn new(out: W) -> LatencyTable<W> {
        LatencyTable { out, run: None }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Render for LatencyTable<W> {
    fn run(&mut self, run: &Run) -> io::Result<()> {
        let mut text: String = run.preamble.iter().map(|line| format!("{line}\n")).collect();
        let (name, ranks) = (run.plan.benchmark.name(), run.plan.ranks());
        text += &format!(
            "# busbw {} {name}: latency, every iteration timed alone on each of {ranks} ranks\n",
            run.busbw
        );
        text += &devices(run);
        if let Some(reduced) = run.reduced_max_bytes {
            text += &format!("#\n# -e is lowered to {reduced}: memory\n");
        }
        text += &header(!run.plan.variants.is_empty());
        self.run = Some(run.clone());
        self.write(&text)
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        let Some(run) = self.run.as_ref().filter(|_| row.shown) else { return Ok(()) };
        let first_group = run.devices.first().map_or(0, |device| device.group);
        let lead = match row.group == first_group {
            true => String::new(),
            false => format!("# Group {:2} ", row.group),
        };
        let text = lead + &line(row);
        self.write(&text)
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        if end.status != Status::Complete || self.run.is_none() {
            return Ok(());
        }
        self.write(&footer::checks(end))
    }
}

fn header(has_variants: bool) -> String {
    let lead = |cells: [&str; 4]| {
        let [size, datatype, redop, root] = cells;
        format!("# {size:>10}  {datatype:>8}  {redop:>6}  {root:>6}")
    };
    let main = |cells: [&str; 4]| {
        let [average, width, min, max] = cells;
        format!("  {average:>9}  {width:>6}  {min:>9}  {max:>9}")
    };
    let rest = |cells: [&str; 4]| cells.map(|cell| format!("  {cell:>9}")).concat();
    let above = format!(
        "{}{:>19}{:^20}  {:^44}",
        lead([""; 4]),
        "",
        "mean of a rank",
        "every iteration of every rank"
    );
    let mut text = format!("#\n{}\n", above.trim_end());
    text += &lead(["size", "type", "redop", "root"]);
    text += &main(["avg", "±95%", "min", "max"]);
    let variant = if has_variants { "  variant" } else { "" };
    let last = rest(["p50", "p99", "p99.9", "max"]);
    text += &format!("{last}  {:>6}{variant}\n", "#wrong");
    text += &lead(["(B)", "", "", ""]);
    text += &main(["(us)", "(%)", "(us)", "(us)"]);
    text + &rest(["(us)"; 4]) + "\n"
}

fn line(row: &Row) -> String {
    let lead =
        format!("{:12}  {:>8}  {:>6}  {:>6}", row.size, row.datatype.name(), row.redop, row.root);
    if let Some(reason) = &row.waived {
        return format!("{lead}  waived: {reason}\n");
    }
    let Some(half) = &row.out_of_place else { return format!("{lead}\n") };
    let none = LatencyFigures::default();
    let figures = half.latency.as_ref().unwrap_or(&none);
    let spread = figures.spread;
    let mut text = lead;
    text += &format!("  {:>9}  {:>6}", us(half.figures.time_us), interval(half));
    let rest = [figures.fastest_rank_us, figures.slowest_rank_us, spread.p50, spread.p99];
    for value in rest.into_iter().chain([spread.p999, spread.max]) {
        text += &format!("  {:>9}", us(value));
    }
    let wrong = half.figures.wrong.map_or("N/A".to_owned(), |wrong| wrong.to_string());
    let variant = variant::column(row).map_or(String::new(), |label| format!("  {label}"));
    text + &format!("  {wrong:>6}{variant}\n")
}
