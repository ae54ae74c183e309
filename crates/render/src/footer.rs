//! The last lines of the table, and the figures in them, over all rows of a run.
//! Not the rows.

use busbw_core::{
    plan::BufferMemory,
    record::{End, GpuMemory, Row, Run},
};

use super::{
    Units,
    number::{general, or_nan},
};

/// Share of NCCL_TESTS_MIN_BW below which a run fails (nccl-tests src/common.cu:1850).
const MIN_BW_SHARE: f64 = 0.9;

/// Figures over rows, updated as rows arrive.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    busbw: f64,
    algbw: f64,
    halves: u64,
    /// Checks that found wrong elements.
    pub out_of_bounds: u64,
}

impl Totals {
    /// Adds a shown row of the first communicator.
    pub fn add(&mut self, row: &Row) {
        for half in row.meaningful_halves() {
            self.busbw += or_nan(half.figures.busbw);
            self.algbw += or_nan(half.figures.algbw);
            self.halves += 1;
        }
    }

    /// Adds the wrong elements of a row of any communicator.
    pub fn add_checks(&mut self, row: &Row) {
        let halves = row.out_of_place.iter().chain(&row.in_place);
        self.out_of_bounds += halves.map(|half| half.failed_checks).sum::<u64>();
    }

    /// Average bus bandwidth, GB/s; NaN without a meaningful half, and with one rank, whose bytes
    /// cross no bus.
    pub fn average_busbw(&self, ranks: usize) -> f64 {
        if ranks < 2 { f64::NAN } else { self.busbw / self.halves as f64 }
    }

    /// Average algorithm bandwidth, GB/s.
    pub fn average_algbw(&self) -> f64 {
        self.algbw / self.halves as f64
    }
}

/// Whether an average passes a gate; without an average it does not.
pub fn gate_held(average: f64, gate: f64) -> bool {
    average >= gate * MIN_BW_SHARE
}

/// Whether a row of pairs names a slow subject.
pub fn somebody_is_slow(row: &Row) -> bool {
    row.pairs.as_ref().is_some_and(|pairs| !pairs.verdict.slow.is_empty())
}

/// The lines after the last row (nccl-tests src/util.cu:790-857).
pub(super) fn text(run: &Run, end: &End, units: Units) -> String {
    let gate = match end.min_bandwidth_held {
        None => "",
        Some(true) => "OK",
        Some(false) => "FAILED",
    };
    let average = match (end.average_busbw, units) {
        (average, _) if average.is_nan() => "N/A".to_owned(),
        // nccl-tests' line names no unit.
        (average, Units::Gigabytes) => general(average),
        (average, other) => format!("{} {}", general(other.of(average)), other.name()),
    };
    let mut text = checks(end);
    text += &format!("# {:<20} : {average} {gate}\n", "Avg bus bandwidth");
    text += &format!("#\n# Collective test concluded: {}\n", run.plan.program);
    if run.plan.memory_report {
        text += &memory(run, end);
    }
    text + "#\n\n"
}

/// The line about verification.
pub(super) fn checks(end: &End) -> String {
    let verdict = if end.out_of_bounds > 0 { "FAILED" } else { "OK" };
    format!("# {:<20} : {} {verdict}\n", "Out of bounds values", end.out_of_bounds)
}

/// `-M`. On `host`: control pages, buffers, and no memory that operations use while they run.
fn memory(run: &Run, end: &End) -> String {
    let used = match (run.plan.backend.spec().buffers, end.gpu_memory) {
        (_, Some(used)) => used,
        (BufferMemory::Gpu, None) => return "# GPU memory usage   : not known\n".to_owned(),
        (_, None) => GpuMemory {
            initialization: run.memory.control,
            allocated: run.memory.buffers_per_rank,
            collective: 0,
        },
    };
    format!(
        "# {:<20} : Initialization {} | User-Allocated {} | Collective {} | Total  {}\n",
        "GPU memory usage",
        amount(used.initialization),
        amount(used.allocated),
        amount(used.collective),
        amount(used.total())
    )
}

/// Binary units with three significant digits (nccl-tests src/util.cu:818).
fn amount(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for (name, size) in [("GB", 1u64 << 30), ("MB", 1 << 20), ("KB", 1 << 10)] {
        if bytes >= size {
            value /= size as f64;
            unit = name;
            break;
        }
    }
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (bytes, text) in [
            (0, "0.00 B"),
            (1023, "1023 B"),
            (96 << 20, "96.0 MB"),
            (1_299_227_607, "1.21 GB"),
            (200 << 30, "200 GB"),
        ] {
            assert_eq!(amount(bytes), text);
        }
    }

    #[test]
    fn a_missing_average_passes_no_gate() {
        assert!(!gate_held(f64::NAN, 0.0));
        assert!(gate_held(0.9, 1.0));
        assert!(!gate_held(0.89, 1.0));
    }
}
