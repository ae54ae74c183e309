//! The text of the OSU Micro-Benchmarks 3 to 7, and prints of it: title, header, rows.
//! Not its percentiles, window grids and message rates: they are passed over.
//!
//! Formats: OSU's util/osu_util.h and the programs' printf calls; a print by pandas puts an index
//! in front of each row and writes `Size (bytes) Latency (us)`.

use model::{
    Collective,
    measurement::{Figure, Half, Known, Measurement, Memory, Row, Test},
};

/// `# OSU MPI-CUDA Latency Test v4.4.1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Title {
    name: String,
    version: Option<String>,
    device: bool,
}

/// Reads a title.
pub(super) fn title(line: &str) -> Option<Title> {
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
    fn has(&self, words: &str) -> bool {
        self.name.to_ascii_lowercase().contains(words)
    }

    /// What is measured.
    pub(super) fn test(&self) -> (Test, Option<String>) {
        let figure = if self.has("bi-directional bandwidth") {
            Figure::BothDirections
        } else if self.has("multiple bandwidth") {
            Figure::Pairs
        } else if self.has("bandwidth") {
            Figure::PointToPoint
        } else {
            Figure::Latency
        };
        // OSU's size is one rank's message: only here does it mean what nccl-tests' size means.
        let collective = match () {
            () if self.has("non-blocking") => None,
            () if self.has("allreduce latency") => Some(Collective::AllReduce),
            () if self.has("broadcast latency") => Some(Collective::Broadcast),
            () if self.has(" reduce latency") => Some(Collective::Reduce),
            () => None,
        };
        let pair = self.pair();
        // Of two processes, the accelerator may serve one side only; a line says which.
        let memory = match (self.device, pair) {
            (true, true) => None,
            (true, false) => Some(Known::said(Memory::Device)),
            (false, _) => Some(Known::said(Memory::Host)),
        };
        let name = Some(format!("OSU {}", self.name));
        (
            Test { name, collective: collective.map(Known::said), figure, memory },
            self.version.clone(),
        )
    }

    /// Whether it is between two processes by definition.
    fn pair(&self) -> bool {
        let name = self.name.split_once(' ').map_or("", |(_, name)| name);
        matches!(name, "Latency" | "Bandwidth" | "Bi-Directional Bandwidth")
    }

    /// The ranks that the test has by definition.
    pub(super) fn ranks(&self) -> Option<Known<usize>> {
        self.pair().then(|| Known::deduced(2))
    }
}

/// A table of OSU.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    title: Option<Title>,
    header: Option<Header>,
    index: Option<u64>,
}

/// What its columns are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    sizes: bool,
    values: usize,
    bandwidth: bool,
    /// A print with an index in front.
    printed: bool,
}

/// `# Size  Avg Latency(us)` and its relatives.
pub(super) fn is_header(line: &str) -> bool {
    header(line).is_some()
}

fn header(line: &str) -> Option<Header> {
    let text = line.trim().trim_start_matches(['#', '|']).trim();
    let bandwidth = text.contains("MB/s");
    if !(bandwidth || text.contains("(us)")) {
        return None;
    }
    let sizes = text.starts_with("Size");
    if !(sizes || text.starts_with("Avg Latency(us)") || text.starts_with("Overall(us)")) {
        return None;
    }
    // Each column ends in its unit or is one of these words.
    let units = ["(us)", "MB/s", "Messages/s", "Overlap(%)", "Iterations", "Validation", "(MB/s)"];
    let values = text
        .split_ascii_whitespace()
        .filter(|word| units.iter().any(|unit| word.ends_with(unit)))
        .count();
    let printed = text.starts_with("Size (bytes)");
    (values > 0).then_some(Header { sizes, values, bandwidth, printed })
}

impl Table {
    /// The table that belongs to a title.
    pub(super) fn titled(title: Title) -> Table {
        Table { title: Some(title), ..Table::default() }
    }

    /// Another table of the same title (`-T all`).
    pub(super) fn again(&self) -> Table {
        Table { title: self.title.clone(), ..Table::default() }
    }

    pub(super) fn has_header(&self) -> bool {
        self.header.is_some()
    }

    /// Takes the header; of a table without a title, it tells what is measured.
    pub(super) fn header(&mut self, line: &str, measurement: &mut Measurement) {
        self.header = header(line);
        if let (None, Some(header)) = (&self.title, self.header)
            && measurement.test.name.is_none()
        {
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
    }

    /// `1048576    48369.05`, and the columns that follow.
    pub(super) fn row(&mut self, line: &str) -> Option<Row> {
        let header = self.header?;
        let text = line.trim();
        if !text.as_bytes().first()?.is_ascii_digit() {
            return None;
        }
        let mut tokens = text.split_ascii_whitespace();
        let width = usize::from(header.sizes) + header.values;
        let count = tokens.clone().take(width + 2).count();
        if header.printed && count == width + 1 {
            let index: u64 = tokens.next()?.parse().ok()?;
            if self.index.is_some_and(|last| index <= last) {
                return None;
            }
            self.index = Some(index);
        } else if count != width {
            return None;
        }
        let size = if header.sizes { tokens.next()?.parse().ok()? } else { 0 };
        let value: f64 = tokens.next()?.parse().ok().filter(|value: &f64| value.is_finite())?;
        let figure =
            |token: &str| token.parse::<f64>().is_ok() || matches!(token, "Pass" | "Fail" | "N/A");
        if !tokens.all(figure) {
            return None;
        }
        let half = if header.bandwidth {
            Half { algbw: Some(value / 1e3), ..Half::default() }
        } else {
            Half { time_us: Some(value), rounding_us: 0.005, ..Half::default() }
        };
        Some(Row { size, out_of_place: Some(half), ..Row::default() })
    }

    /// Lines between title and rows.
    pub(super) fn remark(&self, line: &str, measurement: &mut Measurement) -> bool {
        if line.contains("Send Buffer on ") {
            let device = line.matches(" on DEVICE").count();
            let memory = match device {
                0 => Some(Memory::Host),
                1 => None,
                _ => Some(Memory::Device),
            };
            measurement.test.memory = memory.map(Known::said);
            return true;
        }
        [
            "# Datatype:",
            "# Overall =",
            "# Window creation:",
            "# Synchronization:",
            "# [ pairs:",
            "# Number of ",
        ]
        .iter()
        .any(|words| line.contains(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles() {
        for (line, figure, memory, pair) in [
            ("# OSU MPI Latency Test v7.4", Figure::Latency, Some(Memory::Host), true),
            ("# OSU MPI-CUDA Bandwidth Test v5.9", Figure::PointToPoint, None, true),
            (
                "# OSU MPI-CUDA Allreduce Latency Test v5.9",
                Figure::Latency,
                Some(Memory::Device),
                false,
            ),
            (
                "# OSU MPI Multiple Bandwidth / Message Rate Test v5.8",
                Figure::Pairs,
                Some(Memory::Host),
                false,
            ),
        ] {
            let Some(title) = title(line) else { panic!("{line}") };
            let (test, version) = title.test();
            assert_eq!((test.figure, test.memory.map(|m| m.value)), (figure, memory), "{line}");
            assert_eq!(title.ranks().is_some(), pair, "{line}");
            assert!(version.is_some(), "{line}");
        }
    }

    #[test]
    fn rows_follow_their_header() {
        for (header, line, size, time, speed) in [
            ("# Size       Avg Latency(us)", "4                      10.37", 4, Some(10.37), None),
            ("# Size          Latency (us)", "0                       1.26", 0, Some(1.26), None),
            ("# Size      Bandwidth (MB/s)", "1048576   48369.05", 1_048_576, None, Some(48.36905)),
            (
                "Size (bytes) Bandwidth (MB/s)",
                "20 1048576 48369.05",
                1_048_576,
                None,
                Some(48.36905),
            ),
            ("# Size  MB/s   Messages/s", "1     7.83        7826065.69", 1, None, Some(0.00783)),
            (
                "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations",
                "16777216 8630.58 8619.50 8642.46 10",
                16_777_216,
                Some(8630.58),
                None,
            ),
            ("# Size       Avg Latency(us)        Validation", "1 0.15 Pass", 1, Some(0.15), None),
            ("# Avg Latency(us)", "             9.07", 0, Some(9.07), None),
        ] {
            let mut table = Table::default();
            assert_eq!(table.row(line), None, "{line}");
            table.header(header, &mut Measurement::default());
            let Some(row) = table.row(line) else { panic!("{line}") };
            let half = row.out_of_place.unwrap_or_default();
            assert_eq!((row.size, half.time_us, half.algbw), (size, time, speed), "{line}");
            assert_eq!(table.row("real\t0m11.329s"), None);
            assert_eq!(table.row("12 words follow"), None);
        }
    }
}
