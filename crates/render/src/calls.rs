//! The table of a replay: all calls of a job's sequence as one row, then each class of them.
//! Not a collective's table over sizes (`table`).

use std::io::{self, Write};

use busbw_core::{
    Benchmark,
    columns::aligned,
    plan::{CallClass, Calls},
    printable::printable,
    quantity::{self, count},
    record::{End, Half, Row, Run, Status},
};

use super::{
    Render, Units, footer,
    messages::interval,
    number::{fixed, or_nan},
    table::devices,
};

/// The table on a writer. Columns are as wide as their cells, so its rows are printed together.
#[derive(Debug)]
pub struct CallsTable<W> {
    out: W,
    units: Units,
    run: Option<Run>,
    rows: Vec<Row>,
}

impl<W: Write> CallsTable<W> {
    /// A table on `out`, bandwidths in `units`.
    pub fn new(units: Units, out: W) -> CallsTable<W> {
        CallsTable { out, units, run: None, rows: Vec::new() }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Render for CallsTable<W> {
    fn run(&mut self, run: &Run) -> io::Result<()> {
        let mut text: String = run.preamble.iter().map(|line| format!("{line}\n")).collect();
        let Some(calls) = &run.plan.calls else { return Ok(()) };
        text += &format!("# busbw {} replay: {}\n", run.busbw, about(calls));
        for left in &calls.left_out {
            let calls = count(left.calls, "call");
            text += &format!("# left out: {}: {calls}\n", printable(&left.reason));
        }
        text += &devices(run);
        self.run = Some(run.clone());
        self.write(&text)
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        let Some(run) = self.run.as_ref().filter(|_| row.shown) else { return Ok(()) };
        let Some(calls) = &run.plan.calls else { return Ok(()) };
        self.rows.push(row.clone());
        if self.rows.len() <= calls.classes.len() {
            return Ok(());
        }
        let text = table(calls, run.plan.ranks(), &self.rows, self.units);
        self.rows.clear();
        self.write(&text)
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        if end.status != Status::Complete || self.run.is_none() {
            return Ok(());
        }
        self.write(&footer::checks(end))
    }
}

fn about(calls: &Calls) -> String {
    let gaps = match calls.recorded_us() {
        us if us > 0.0 => format!("{} as recorded", quantity::time(us)),
        _ => "without gaps".to_owned(),
    };
    format!(
        "{} of {} in their order, of {}, {gaps}",
        count(calls.sequence.len() as u64, "call"),
        printable(&calls.of),
        calls.source,
    )
}

/// `ranks` are those of the run.
fn table(calls: &Calls, ranks: usize, rows: &[Row], units: Units) -> String {
    let unit = units.name();
    let is_split = calls.classes.iter().any(|class| class.partition.is_some());
    let head = [
        "operation",
        "ranks",
        "size",
        "type",
        "redop",
        "calls",
        "time",
        "±%",
        "in the job",
        "algbw",
        "busbw",
        "all calls",
        "#wrong",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    let mut waived = String::new();
    let mut inside = 0.0;
    for row in rows {
        let class = row.index.checked_sub(1).and_then(|number| calls.classes.get(number as usize));
        let made = match row.index.checked_sub(1) {
            None => row.count,
            Some(number) => calls.of_class(number as usize),
        };
        match (&row.waived, &row.out_of_place) {
            (Some(reason), _) => {
                let of = class.and_then(|class| class.partition);
                let of = of.map_or_else(String::new, |of| format!(" on {of} ranks"));
                waived += &format!(
                    "# WAIVED: {} of {}{of}, {}: {}\n",
                    row.benchmark,
                    quantity::bytes(row.size),
                    count(made, "call"),
                    printable(reason)
                );
            }
            (None, Some(half)) => {
                if class.is_some() {
                    inside += or_nan(half.figures.time_us) * made as f64;
                }
                lines.push(line(row, class, (ranks, made), half, units));
            }
            (None, None) => {}
        }
    }
    let mut text = format!(
        "#\n# time: of one call, of all calls that of the sequence; algbw and busbw in {unit}\n"
    );
    if inside > 0.0 {
        text += &format!("# of a pass {} are in calls\n", quantity::time(inside));
    }
    if !is_split {
        // All of them have all ranks.
        lines.iter_mut().for_each(|line| drop(line.remove(1)));
    }
    text + "#\n" + &aligned(&lines) + &waived
}

fn line(
    row: &Row,
    class: Option<&CallClass>,
    (ranks, made): (usize, u64),
    half: &Half,
    units: Units,
) -> Vec<String> {
    let absent = || "-".to_owned();
    let us = half.figures.time_us;
    let time = |us: Option<f64>| us.map_or_else(absent, quantity::time);
    let bandwidth = |value: Option<f64>| {
        value.map_or_else(absent, |value| {
            let value = units.of(value);
            fixed(value, if value < 10.0 { 4 } else { 2 })
        })
    };
    let is_all = row.benchmark == Benchmark::Replay;
    let name = if is_all { "the sequence" } else { row.benchmark.name() };
    let reduces = !row.redop.is_empty() && row.redop != "none";
    vec![
        name.to_owned(),
        match class.and_then(|class| class.partition) {
            Some(partition) => partition.to_string(),
            None => ranks.to_string(),
        },
        quantity::bytes(row.size),
        if is_all { absent() } else { row.datatype.name().to_owned() },
        if reduces { row.redop.clone() } else { absent() },
        made.to_string(),
        time(us),
        interval(half),
        time(class.and_then(|class| class.in_job_us)),
        bandwidth(half.figures.algbw),
        bandwidth(half.figures.busbw),
        if is_all { absent() } else { time(us.map(|us| us * made as f64)) },
        half.figures.wrong.map_or_else(
            || if is_all { absent() } else { "N/A".to_owned() },
            |wrong| wrong.to_string(),
        ),
    ]
}
