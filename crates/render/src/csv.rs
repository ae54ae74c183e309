//! `--csv`: one line a row and placement, so that every line has the same columns.
//! Not the record: samples stay there.

use std::io::{self, Write};

use busbw_core::{
    Benchmark,
    pairs::Pairs,
    record::{End, Half, Row, Run},
};

use super::Render;

/// The columns.
const COLLECTIVES: &str = "collective,group,ranks,cycle,size_bytes,count,type,redop,root,place,time_us,low_us,high_us,algbw_gbps,busbw_gbps,wrong,batches,noisy,finished,waived";

/// The columns of collectives in latency's form.
const LATENCY: &str = "benchmark,group,ranks,cycle,size_bytes,count,type,redop,root,place,avg_us,low_us,high_us,fastest_rank_us,slowest_rank_us,min_us,p50_us,p90_us,p99_us,p999_us,max_us,wrong,batches,finished,waived";

/// The columns of messages.
const MESSAGES: &str = "benchmark,ranks,cycle,size_bytes,count,type,time_us,low_us,high_us,bandwidth_gbps,messages_per_s,min_us,p50_us,p90_us,p99_us,p999_us,max_us,wrong,batches,noisy,finished,waived";

/// The columns of pairs, of which each has a line.
const PAIRS: &str =
    "benchmark,ranks,size_bytes,from,to,from_name,to_name,figure,unit,finished,waived";

/// CSV on a writer.
#[derive(Debug)]
pub struct Csv<W> {
    out: W,
    latency: bool,
    run: Option<Run>,
}

impl<W: Write> Csv<W> {
    /// CSV on `out`.
    pub fn new(out: W) -> Csv<W> {
        Csv { out, latency: false, run: None }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Render for Csv<W> {
    fn run(&mut self, run: &Run) -> io::Result<()> {
        self.latency = run.plan.latency;
        self.run = (run.plan.benchmark == Benchmark::Pairs).then(|| run.clone());
        let columns = match run.plan.benchmark {
            Benchmark::Messages(_) => MESSAGES,
            Benchmark::Pairs => PAIRS,
            Benchmark::Collective(_) if self.latency => LATENCY,
            Benchmark::Collective(_) => COLLECTIVES,
        };
        self.write(&format!("{columns}\n"))
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        if !row.shown {
            return Ok(());
        }
        match &self.run {
            Some(run) => return self.write(&pairs(run, row)),
            None if row.benchmark.messages().is_some() => return self.write(&messages(row)),
            None => {}
        }
        let lead = format!(
            "{},{},{},{},{},{},{},{},{}",
            row.benchmark.name(),
            row.group,
            row.ranks,
            row.cycle,
            row.size,
            row.count,
            row.datatype.name(),
            row.redop,
            row.root
        );
        let mut text = String::new();
        for (place, half) in [("out-of-place", &row.out_of_place), ("in-place", &row.in_place)] {
            if let Some(half) = half {
                let figures = if self.latency { alone(half) } else { measured(half) };
                text += &format!("{lead},{place},{figures},{},\n", row.finished);
            }
        }
        if let Some(reason) = &row.waived {
            let blanks = ",".repeat(if self.latency { 12 } else { 7 });
            text += &format!("{lead},{blanks},,{},{}\n", row.finished, quoted(reason));
        }
        self.write(&text)
    }

    fn end(&mut self, _: &End) -> io::Result<()> {
        Ok(())
    }
}

fn pairs(run: &Run, row: &Row) -> String {
    let lead = format!("{},{},{}", row.benchmark.name(), row.ranks, row.size);
    let Some(matrix) = Pairs::of_row(run, row) else {
        let reason = row.waived.as_deref().map_or(String::new(), quoted);
        return format!("{lead},,,,,,,{},{reason}\n", row.finished);
    };
    let mut text = String::new();
    for (from, values) in matrix.values.iter().enumerate() {
        for (to, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            text += &format!(
                "{lead},{from},{to},{},{},{},{},{},\n",
                quoted(matrix.label(from)),
                quoted(matrix.label(to)),
                figure(*value),
                matrix.unit.name(),
                row.finished
            );
        }
    }
    text
}

fn messages(row: &Row) -> String {
    let reason = row.waived.as_deref().map_or(String::new(), quoted);
    let mut cells = vec![
        row.benchmark.name().to_owned(),
        row.ranks.to_string(),
        row.cycle.to_string(),
        row.size.to_string(),
        row.count.to_string(),
        row.datatype.name().to_owned(),
    ];
    match &row.out_of_place {
        None => cells.extend(vec![String::new(); 14]),
        Some(half) => {
            let (low, high) = interval(half);
            let figures = half.messages.clone().unwrap_or_default();
            let spread = figures.spread;
            cells.extend([figure(half.time_us), low, high, figure(half.algbw)]);
            cells.push(figure(figures.rate));
            cells.extend([spread.min, spread.p50, spread.p90].map(figure));
            cells.extend([spread.p99, spread.p999, spread.max].map(figure));
            cells.push(half.wrong.map_or(String::new(), |wrong| wrong.to_string()));
            cells.push(half.batches_us.len().to_string());
            cells.push(half.summary.as_ref().is_some_and(|s| s.noisy).to_string());
        }
    }
    cells.extend([row.finished.clone(), reason]);
    cells.join(",") + "\n"
}

fn interval(half: &Half) -> (String, String) {
    let interval = half.summary.as_ref().and_then(|s| s.interval);
    interval.map_or((String::new(), String::new()), |i| (figure(i.low), figure(i.high)))
}

fn measured(half: &Half) -> String {
    let summary = half.summary.as_ref();
    let (low, high) = interval(half);
    format!(
        "{},{low},{high},{},{},{},{},{}",
        figure(half.time_us),
        figure(half.algbw),
        figure(half.busbw),
        half.wrong.map_or(String::new(), |w| w.to_string()),
        half.batches_us.len(),
        summary.is_some_and(|s| s.noisy)
    )
}

/// The figures of latency's form.
fn alone(half: &Half) -> String {
    let (low, high) = interval(half);
    let figures = half.latency.clone().unwrap_or_default();
    let spread = figures.spread;
    let mut cells = vec![figure(half.time_us), low, high];
    cells.extend([figures.fastest_rank_us, figures.slowest_rank_us, spread.min].map(figure));
    cells.extend([spread.p50, spread.p90, spread.p99, spread.p999, spread.max].map(figure));
    cells.push(half.wrong.map_or(String::new(), |wrong| wrong.to_string()));
    cells.push(half.batches_us.len().to_string());
    cells.join(",")
}

/// Enough digits to compute with; empty where there is no figure.
fn figure(value: f64) -> String {
    if value.is_finite() { format!("{value:.6}") } else { String::new() }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
