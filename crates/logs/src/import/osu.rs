//! The text of the OSU Micro-Benchmarks 3 to 7, and prints of it: title, header, rows.
//! Not its percentiles, window grids and message rates: they are skipped.
//!
//! Formats: OSU's util/osu_util.h and the programs' printf calls; a print by pandas puts an index
//! in front of each row and writes `Size (bytes) Latency (us)`.

use crate::measurement::{Figure, Form, Known, Measurement, Memory, Row, Test};
use busbw_core::{Collective, record::Figures};
use memchr::memmem::rfind;

use super::format::{Format, Line};

/// What the lines between title and rows have.
const REMARKS: [&str; 6] = [
    "# Datatype:",
    "# Overall =",
    "# Window creation:",
    "# Synchronization:",
    "# [ pairs:",
    "# Number of ",
];

/// `# OSU MPI-CUDA Latency Test v4.4.1`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Title {
    name: String,
    version: Option<String>,
    device: bool,
}

/// Reads a title.
fn title(line: &str) -> Option<Title> {
    let (_, after) = line.split_once("# OSU ")?;
    let (name, rest) = after.split_once(" Test")?;
    let version = rest.trim().strip_prefix('v').and_then(|rest| rest.split_whitespace().next());
    let build = name.split_ascii_whitespace().next()?;
    // A CUDA build with nothing on the device has no suffix since 5; XCCL moves device memory only.
    let device = ["-CUDA", "-ROCM", "-OPENACC"].iter().any(|suffix| build.ends_with(suffix));
    let name = keep(name);
    Some(Title { name, version: version.map(keep), device })
}

fn keep(text: &str) -> String {
    let text = text.trim();
    text[..text.floor_char_boundary(80)].to_owned()
}

impl Title {
    /// What is measured.
    fn test(&self) -> (Test, Option<String>) {
        let name = self.name.to_ascii_lowercase();
        let has = |words: &str| name.contains(words);
        let figure = if has("bi-directional bandwidth") {
            Figure::BothDirections
        } else if has("multiple bandwidth") {
            Figure::Pairs
        } else if has("bandwidth") {
            Figure::PointToPoint
        } else {
            Figure::Latency
        };
        // OSU's size is one rank's message: only here does it mean what nccl-tests' size means.
        let collective = match () {
            () if has("non-blocking") => None,
            () if has("allreduce latency") => Some(Collective::AllReduce),
            () if has("broadcast latency") => Some(Collective::Broadcast),
            () if has(" reduce latency") => Some(Collective::Reduce),
            () => None,
        };
        let pair = self.pair();
        // Of two processes, the accelerator may serve one side only; a line says which.
        let memory = match (self.device, pair) {
            (true, true) => None,
            (true, false) => Some(Known::stated(Memory::Device)),
            (false, _) => Some(Known::stated(Memory::Host)),
        };
        let name = Some(format!("OSU {}", self.name));
        (
            Test { name, collective: collective.map(Known::stated), figure, memory },
            self.version.clone(),
        )
    }

    /// Whether it is between two processes by definition.
    fn pair(&self) -> bool {
        let name = self.name.split_once(' ').map_or("", |(_, name)| name);
        matches!(name, "Latency" | "Bandwidth" | "Bi-Directional Bandwidth")
    }

    /// The ranks that the test has by definition.
    fn ranks(&self) -> Option<Known<usize>> {
        self.pair().then(|| Known::deduced(2))
    }
}

/// A table of OSU.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    title: Option<Title>,
    /// The title's facts are in the run.
    begun: bool,
    header: Option<Header>,
    index: Option<u64>,
}

impl Format for Table {
    const FORM: Form = Form::Osu;
    const WORDS: &'static [&'static str] = &["# OSU ", "MB/s", "(us)"];

    fn sniff(line: &str) -> Option<Table> {
        if let Some(title) = title(line) {
            return Some(Table { title: Some(title), ..Table::default() });
        }
        // The title is missing.
        header(line).map(|_| Table::default())
    }

    fn line(&mut self, line: &str, run: &mut Measurement) -> Line {
        if let Some(title) = self.title.as_ref().filter(|_| !self.begun) {
            (run.test, run.source.version) = title.test();
            run.ranks = title.ranks();
            self.begun = true;
            return Line::Title;
        }
        if let Some(row) = self.row(line) {
            return Line::Row(row);
        }
        // Most lines that are no rows have none.
        let has_hash = line.contains('#');
        if has_hash && title(line).is_some() {
            return Line::Other;
        }
        if let Some(header) = header(line) {
            // A table of another kind of figure, whose title is missing, is another test.
            if !run.rows.is_empty() && header.bandwidth == (run.test.figure == Figure::Latency) {
                return Line::Other;
            }
            if self.header.is_some() && !run.rows.is_empty() {
                // Another table of the same title (`-T all`).
                (self.header, self.index) = (None, None);
                return Line::Next;
            }
            self.take_header(header, run);
            return Line::Known;
        }
        if remark(line, has_hash, run) { Line::Known } else { Line::Other }
    }
}

/// What its columns are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Header {
    /// What a launcher or a collector put before it.
    prefix: String,
    sizes: bool,
    values: usize,
    bandwidth: bool,
    /// A print with an index in front.
    printed: bool,
}

/// Reads `# Size  Avg Latency(us)` and its relatives.
fn header(line: &str) -> Option<Header> {
    let bandwidth = line.contains("MB/s");
    if !(bandwidth || line.contains("(us)")) {
        return None;
    }
    let marked = ["# Size", "# Avg Latency(us)", "# Overall(us)"];
    let (prefix, text) =
        match marked.iter().find_map(|words| rfind(line.as_bytes(), words.as_bytes())) {
            Some(at) => (line.get(..at)?, line.get(at + 1..)?),
            None => ("", line.trim().trim_start_matches(['#', '|'])),
        };
    let text = text.trim();
    let sizes = text.starts_with("Size");
    if !(sizes || text.starts_with("Avg Latency(us)") || text.starts_with("Overall(us)")) {
        return None;
    }
    // Each column ends in its unit or is one of these words.
    let units = ["(us)", "MB/s", "Messages/s", "Overlap(%)", "Iterations", "Validation", "(MB/s)"];
    let values = text
        .split(|c: char| c.is_ascii_whitespace() || c == '|')
        .map(|word| word.trim_end_matches(['"', '\'', ',', ';']))
        .filter(|word| units.iter().any(|unit| word.ends_with(unit)))
        .count();
    let printed = text.starts_with("Size (bytes)");
    let prefix = prefix.to_owned();
    (values > 0).then_some(Header { prefix, sizes, values, bandwidth, printed })
}

/// A line behind a prefix like the header's: the same signs, with other numbers and words in their places.
fn behind<'a>(line: &'a str, prefix: &str) -> Option<&'a str> {
    if prefix.is_empty() {
        return Some(line);
    }
    if let Some(rest) = line.strip_prefix(prefix) {
        return Some(rest);
    }
    let kind = |c: char| match c {
        c if c.is_ascii_digit() => 0,
        c if c.is_alphabetic() => 1,
        c if c.is_whitespace() => 2,
        _ => 3,
    };
    let (mut rest, mut prefix) = (line, prefix);
    while let Some(first) = prefix.chars().next() {
        let this = kind(first);
        if this == 3 {
            rest = rest.strip_prefix(first)?;
            prefix = prefix.get(first.len_utf8()..)?;
            continue;
        }
        let other = |c: char| kind(c) != this;
        let after = rest.trim_start_matches(|c| !other(c));
        if this != 2 && after.len() == rest.len() {
            return None;
        }
        rest = after;
        prefix = prefix.trim_start_matches(|c| !other(c));
    }
    Some(rest)
}

impl Table {
    /// Takes the header; of a table without a title, it tells what is measured.
    fn take_header(&mut self, header: Header, measurement: &mut Measurement) {
        if self.title.is_none() && measurement.test.name.is_none() {
            let (name, figure) = if header.bandwidth {
                ("OSU bandwidth", Figure::PointToPoint)
            } else {
                ("OSU latency", Figure::Latency)
            };
            measurement.test.name = Some(name.to_owned());
            measurement.test.figure = figure;
            // Only tests between two processes have these headers without a word more.
            measurement.ranks = Some(Known::deduced(2));
        }
        self.header = Some(header);
    }

    /// `1048576    48369.05`, and the columns that follow; also as cells, and with decimal commas.
    fn row(&mut self, line: &str) -> Option<Row> {
        let header = self.header.as_ref()?;
        let mut figures = |text: &str| figures(header, &mut self.index, text);
        let text = behind(line, &header.prefix).unwrap_or(line).trim();
        let text = text.trim_end_matches(['"', '\'', ',', ';']);
        if text.contains('|') {
            return figures(text.replace('|', " ").trim());
        }
        if let Some(row) = figures(text) {
            return Some(row);
        }
        let alone = usize::from(header.sizes) + header.values == 1;
        let parted = alone || text.contains(char::is_whitespace) || text.contains(';');
        let comma = if parted { "." } else { " " };
        let plain = || text.replace(',', comma).replace(';', " ");
        text.contains([',', ';']).then(|| figures(&plain())).flatten()
    }
}

/// Lines between title and rows.
fn remark(line: &str, has_hash: bool, measurement: &mut Measurement) -> bool {
    if line.contains("Send Buffer on ") {
        let device = line.matches(" on DEVICE").count();
        let memory = match device {
            0 => Some(Memory::Host),
            1 => None,
            _ => Some(Memory::Device),
        };
        measurement.test.memory = memory.map(Known::stated);
        return true;
    }
    has_hash && REMARKS.iter().any(|words| line.contains(words))
}

/// The row of a text that is a row's alone; `last` is the index of the one before.
fn figures(header: &Header, last: &mut Option<u64>, text: &str) -> Option<Row> {
    if !text.as_bytes().first()?.is_ascii_digit() {
        return None;
    }
    let mut tokens = text.split_ascii_whitespace();
    let width = usize::from(header.sizes) + header.values;
    let mut index = None;
    if header.printed && tokens.clone().take(width + 2).count() == width + 1 {
        index = Some(tokens.next()?.parse().ok()?);
        if last.is_some() && index <= *last {
            return None;
        }
    }
    let size = if header.sizes { tokens.next()?.parse().ok()? } else { 0 };
    let value: f64 = tokens.next()?.parse().ok().filter(|value: &f64| value.is_finite())?;
    let figure =
        |token: &str| token.parse::<f64>().is_ok() || matches!(token, "Pass" | "Fail" | "N/A");
    let others = tokens.by_ref().take(header.values - 1).filter(|token| figure(token)).count();
    if others + 1 != header.values || tokens.next().is_some() {
        return None;
    }
    *last = index.or(*last);
    let half = if header.bandwidth {
        Figures { algbw: Some(value / 1e3), ..Figures::default() }
    } else {
        Figures { time_us: Some(value), rounding_us: 0.005, ..Figures::default() }
    };
    Some(Row { size, out_of_place: Some(half), ..Row::default() })
}

#[cfg(test)]
mod tests;
