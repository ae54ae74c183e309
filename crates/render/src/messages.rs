//! The table of messages between pairs of ranks: busbw's own, with an interval and the spread of
//! all samples.
//! Not OSU's, which its own names print.

use std::io::{self, Write};

use busbw_core::{
    benchmark::Benchmark,
    messages::Messages,
    plan::Plan,
    record::{End, Half, MessageFigures, Row, Run, Status},
};

use super::{
    Render, Units, footer,
    number::{fixed, or_nan},
    table::devices,
};

/// The table on a writer.
#[derive(Debug)]
pub struct MessagesTable<W> {
    out: W,
    units: Units,
    run: Option<Run>,
}

impl<W: Write> MessagesTable<W> {
    /// A table on `out`, bandwidths in `units`.
    pub fn new(units: Units, out: W) -> MessagesTable<W> {
        MessagesTable { out, units, run: None }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Render for MessagesTable<W> {
    fn run(&mut self, run: &Run) -> io::Result<()> {
        let mut text: String = run.preamble.iter().map(|line| format!("{line}\n")).collect();
        let Some(test) = run.plan.benchmark.messages() else { return Ok(()) };
        text += &format!("# busbw {} {}: {}\n", run.busbw, test.name(), about(test, &run.plan));
        text += &devices(run);
        if let Some(reduced) = run.reduced_max_bytes {
            text += &format!("#\n# -e is lowered to {reduced}: memory\n");
        }
        text += &header(test, run.plan.fetches(), self.units);
        self.run = Some(run.clone());
        self.write(&text)
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        if self.run.is_none() || !row.shown {
            return Ok(());
        }
        let text = line(row, self.units);
        self.write(&text)
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        if end.status != Status::Complete || self.run.is_none() {
            return Ok(());
        }
        let text = footer::checks(end);
        self.write(&text)
    }
}

/// The unit of a row's figures.
fn about(test: Messages, plan: &Plan) -> String {
    let pairs = test.pairs(plan.ranks()).unwrap_or_default();
    let who = match pairs.as_slice() {
        [(from, to)] => format!("ranks {from} and {to}"),
        several => format!("{} pairs, rank i with rank i + {0}", several.len()),
    };
    let window = plan.messaging.window;
    match test {
        Messages::Latency | Messages::MultiLatency if plan.fetches() => {
            format!("one RDMA read, {who}")
        }
        Messages::Latency | Messages::MultiLatency => {
            format!("half a round trip between {who}")
        }
        Messages::Bandwidth | Messages::MultiBandwidth => {
            format!("windows of {window} messages one way, {who}")
        }
        Messages::BiBandwidth => format!("windows of {window} messages each way, {who}"),
    }
}

fn header(test: Messages, fetches: bool, units: Units) -> String {
    let lead = |a, b| format!("# {a:>10}  {b:>8}");
    let samples = |unit: bool| {
        let cells = ["min", "p50", "p99", "p99.9", "max"];
        cells.map(|cell| format!("  {:>9}", if unit { "(us)" } else { cell })).concat()
    };
    let (main, units) = if test.is_latency() {
        (format!("  {:>10}  {:>6}", "latency", "±95%"), format!("  {:>10}  {:>6}", "(us)", "(%)"))
    } else {
        (
            format!("  {:>10}  {:>6}  {:>12}", "bandwidth", "±95%", "messages"),
            format!("  {:>10}  {:>6}  {:>12}", format!("({})", units.name()), "(%)", "(/s)"),
        )
    };
    let pad = main.chars().count();
    let title = if test.is_latency() && fetches {
        "every message"
    } else if test.is_latency() {
        "every round trip, halved"
    } else {
        "one message's share of every window"
    };
    let mut text = format!("#\n{}{:pad$}  {title:^53}\n", lead("", ""), "");
    text += &format!("{}{main}{}  {:>6}\n", lead("size", "type"), samples(false), "#wrong");
    text + &format!("{}{units}{}\n", lead("(B)", ""), samples(true))
}

fn line(row: &Row, units: Units) -> String {
    let lead = format!("{:12}  {:>8}", row.size, row.datatype.name());
    if let Some(reason) = &row.waived {
        return format!("{lead}  waived: {reason}\n");
    }
    let Some(half) = &row.out_of_place else { return format!("{lead}\n") };
    let Benchmark::Messages(test) = row.benchmark else { return String::new() };
    let none = MessageFigures::default();
    let figures = half.messages.as_ref().unwrap_or(&none);
    let spread = figures.spread;
    let mut text = lead;
    if test.is_latency() {
        text += &format!("  {:>10}  {:>6}", us(half.figures.time_us), interval(half));
    } else {
        // Rates of gigabyte messages are below one a second.
        let rate = fixed(figures.rate, if figures.rate < 10.0 { 3 } else { 0 });
        text += &format!(
            "  {:>10}  {:>6}  {rate:>12}",
            bandwidth(half.figures.algbw, units),
            interval(half)
        );
    }
    for value in [spread.min, spread.p50, spread.p99, spread.p999, spread.max] {
        text += &format!("  {:>9}", us(value));
    }
    let wrong = half.figures.wrong.map_or("N/A".to_owned(), |wrong| wrong.to_string());
    text + &format!("  {wrong:>6}\n")
}

/// Half the 95 % interval in per cent of the median, or a dash where there is none.
pub(super) fn interval(half: &Half) -> String {
    let summary = half.summary.as_ref();
    let width = summary.and_then(|s| Some((s.interval?.high - s.interval?.low) / 2.0 / s.median));
    width.map_or("-".to_owned(), |width| fixed(100.0 * width, 1))
}

/// Microseconds with three decimals as long as they fit; nine characters up to 1000 s.
pub(super) fn us(value: impl Into<Option<f64>>) -> String {
    let value = or_nan(value);
    let decimals = match value {
        v if v < 1e3 => 3,
        v if v < 1e6 => 1,
        _ => 0,
    };
    fixed(value, decimals)
}

/// At least four digits: a window of single bytes is thousandths of a GB/s.
fn bandwidth(gigabytes: Option<f64>, units: Units) -> String {
    let value = units.of(or_nan(gigabytes));
    fixed(value, if value < 10.0 { 4 } else { 2 })
}
