//! `--csv`: one line a row and placement, so that every line has the same columns.
//! Not the record: samples are only there.

use std::io::{self, Write};

use busbw_core::{
    Benchmark,
    pairs::Pairs,
    plan::AlgorithmEvidence,
    record::{End, Half, Line, Row, Run, VerbsFacts, add_port},
};

use super::Render;

/// The columns.
const COLLECTIVES: &str = "collective,group,ranks,cycle,size_bytes,count,type,redop,root,place,time_us,low_us,high_us,algbw_gbps,busbw_gbps,wrong,batches,noisy,finished,waived";

/// The columns of collectives with `latency`.
const LATENCY: &str = "benchmark,group,ranks,cycle,size_bytes,count,type,redop,root,place,avg_us,low_us,high_us,fastest_rank_us,slowest_rank_us,min_us,p50_us,p90_us,p99_us,p999_us,max_us,wrong,batches,finished,waived";

/// The columns of messages.
const MESSAGES: &str = "benchmark,ranks,cycle,size_bytes,count,type,time_us,low_us,high_us,bandwidth_gbps,messages_per_s,min_us,p50_us,p90_us,p99_us,p999_us,max_us,wrong,batches,noisy,finished,waived";

/// The columns of pairs, of which each has a line.
const PAIRS: &str =
    "benchmark,ranks,size_bytes,from,to,from_name,to_name,figure,unit,finished,waived";

/// The columns behind those of collectives, where the run has variants.
const VARIANT: &str = ",variant,algorithm,evidence";

/// CSV on a writer.
#[derive(Debug)]
pub struct Csv<W> {
    out: W,
    latency: bool,
    variants: bool,
    run: Option<Run>,
    /// The RDMA ports of ranks, by which pairs are named.
    ports: Vec<VerbsFacts>,
}

impl<W: Write> Csv<W> {
    /// CSV on `out`.
    pub fn new(out: W) -> Csv<W> {
        Csv { out, latency: false, variants: false, run: None, ports: Vec::new() }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

/// Records as lines, with quotes where a field needs them.
pub fn lines(records: &[Vec<String>]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // A write to memory does not fail, and all records have one length.
    records.iter().for_each(|record| drop(writer.write_record(record)));
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

impl<W: Write> Render for Csv<W> {
    fn run(&mut self, run: &Run) -> io::Result<()> {
        self.latency = run.plan.latency;
        self.run = (run.plan.benchmark == Benchmark::Pairs).then(|| run.clone());
        let columns = match run.plan.benchmark {
            Benchmark::Messages(_) => MESSAGES,
            Benchmark::Pairs => PAIRS,
            Benchmark::Collective(_) if self.latency => LATENCY,
            Benchmark::Collective(_) | Benchmark::Replay => COLLECTIVES,
        };
        self.variants = !run.plan.variants.is_empty();
        let more = if self.variants { VARIANT } else { "" };
        self.write(&format!("{columns}{more}\n"))
    }

    fn library(&mut self, said: &Line) -> io::Result<()> {
        if let Line::Verbs(facts) = said {
            add_port(&mut self.ports, facts);
        }
        Ok(())
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        if !row.shown {
            return Ok(());
        }
        self.write(&lines(&match &self.run {
            Some(run) => pairs(run, &self.ports, row),
            None if row.benchmark.messages().is_some() => vec![messages(row)],
            None => {
                let mut records = collective(row, self.latency);
                let more = if self.variants { variant(row) } else { Vec::new() };
                records.iter_mut().for_each(|record| record.extend_from_slice(&more));
                records
            }
        }))
    }

    fn end(&mut self, _: &End) -> io::Result<()> {
        Ok(())
    }
}

fn collective(row: &Row, latency: bool) -> Vec<Vec<String>> {
    let lead = vec![
        row.benchmark.name().to_owned(),
        row.group.to_string(),
        row.ranks.to_string(),
        row.cycle.to_string(),
        row.size.to_string(),
        row.count.to_string(),
        row.datatype.name().to_owned(),
        row.redop.clone(),
        row.root.to_string(),
    ];
    let mut records = Vec::new();
    for (place, half) in [("out-of-place", &row.out_of_place), ("in-place", &row.in_place)] {
        if let Some(half) = half {
            let figures = if latency { alone(half) } else { measured(half) };
            let last = vec![row.finished.clone(), String::new()];
            records.push([lead.clone(), vec![place.to_owned()], figures, last].concat());
        }
    }
    if let Some(reason) = &row.waived {
        let blanks = vec![String::new(); if latency { 14 } else { 9 }];
        records.push([lead, blanks, vec![row.finished.clone(), reason.clone()]].concat());
    }
    records
}

/// What a row's calls were given, what ran, and whether NCCL's log says that it is what was asked for.
fn variant(row: &Row) -> Vec<String> {
    let mut halves = row.out_of_place.iter().chain(&row.in_place);
    let ran = halves.find_map(|half| half.figures.algorithm.clone());
    let variant = row.variant.as_ref();
    let evidence = variant.and_then(|variant| variant.evidence).map(AlgorithmEvidence::word);
    vec![
        variant.map_or(String::new(), |variant| variant.given.to_string()),
        ran.unwrap_or_default(),
        evidence.unwrap_or_default().to_owned(),
    ]
}

fn pairs(run: &Run, ports: &[VerbsFacts], row: &Row) -> Vec<Vec<String>> {
    let record = |cells: [String; 6], reason: String| {
        let lead = [row.benchmark.name().to_owned(), row.ranks.to_string(), row.size.to_string()];
        [&lead[..], &cells, &[row.finished.clone(), reason]].concat()
    };
    let Some(matrix) = Pairs::of_row(run, ports, row) else {
        return vec![record(Default::default(), row.waived.clone().unwrap_or_default())];
    };
    let mut records = Vec::new();
    for (from, values) in matrix.values.iter().enumerate() {
        for (to, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let [from_name, to_name] = [from, to].map(|rank| matrix.label(rank).to_owned());
            let (value, unit) = (figure(*value), matrix.unit.name().to_owned());
            let cells = [from.to_string(), to.to_string(), from_name, to_name, value, unit];
            records.push(record(cells, String::new()));
        }
    }
    records
}

fn messages(row: &Row) -> Vec<String> {
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
            cells.extend([figure(half.figures.time_us), low, high, figure(half.figures.algbw)]);
            cells.push(figure(figures.rate));
            cells.extend([spread.min, spread.p50, spread.p90].map(figure));
            cells.extend([spread.p99, spread.p999, spread.max].map(figure));
            cells.push(half.figures.wrong.map_or(String::new(), |wrong| wrong.to_string()));
            cells.push(half.batches_us.len().to_string());
            cells.push(half.summary.as_ref().is_some_and(|s| s.noisy).to_string());
        }
    }
    cells.extend([row.finished.clone(), row.waived.clone().unwrap_or_default()]);
    cells
}

fn interval(half: &Half) -> (String, String) {
    let interval = half.summary.as_ref().and_then(|s| s.interval);
    interval.map_or((String::new(), String::new()), |i| (figure(i.low), figure(i.high)))
}

fn measured(half: &Half) -> Vec<String> {
    let (low, high) = interval(half);
    vec![
        figure(half.figures.time_us),
        low,
        high,
        figure(half.figures.algbw),
        figure(half.figures.busbw),
        half.figures.wrong.map_or(String::new(), |wrong| wrong.to_string()),
        half.batches_us.len().to_string(),
        half.summary.as_ref().is_some_and(|s| s.noisy).to_string(),
    ]
}

/// The figures of latency's form.
fn alone(half: &Half) -> Vec<String> {
    let (low, high) = interval(half);
    let figures = half.latency.clone().unwrap_or_default();
    let spread = figures.spread;
    let mut cells = vec![figure(half.figures.time_us), low, high];
    cells.extend([figures.fastest_rank_us, figures.slowest_rank_us, spread.min].map(figure));
    cells.extend([spread.p50, spread.p90, spread.p99, spread.p999, spread.max].map(figure));
    cells.push(half.figures.wrong.map_or(String::new(), |wrong| wrong.to_string()));
    cells.push(half.batches_us.len().to_string());
    cells
}

/// Enough digits to compute with; empty where there is no figure.
fn figure(value: impl Into<Option<f64>>) -> String {
    let finite = value.into().filter(|value| value.is_finite());
    finite.map_or(String::new(), |value| format!("{value:.6}"))
}
