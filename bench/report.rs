//! How long `busbw report` takes for 20 runs of 31 sizes, and how large its page is.
//! `cargo bench -p busbw --bench report`. Ends with 1 where the bar of 200 ms is missed.
#![forbid(unsafe_code)]

use std::{
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use busbw_stats::{median, median_interval};
use tempfile::TempDir;

const RECORDED_RUNS: usize = 20;
const MEASURED_LAUNCHES: usize = 21;
/// The bar for the median.
const MAX_MEDIAN_MS: f64 = 200.0;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let folder = TempDir::new()?;
    let at = |name: String| folder.path().join(name);
    let records: Vec<PathBuf> =
        (0..RECORDED_RUNS).map(|run| at(format!("run-{run}.jsonl"))).collect();
    for record in &records {
        // 8 B to 8 GiB, doubling: 31 sizes. Enough batches for intervals.
        let line = "all_reduce --backend fake -g 8 -b 8 -e 8G -f 2 -n 5 --batches 8 --record";
        busbw(line).arg(record).status()?;
    }
    for redact in ["", "--redact"] {
        let page = at(format!("report{redact}.html"));
        let samples = (0..MEASURED_LAUNCHES).map(|_| {
            let start = Instant::now();
            let line = format!("report {redact} --force -o");
            let status = busbw(&line).arg(&page).args(&records).status()?;
            let milliseconds = start.elapsed().as_secs_f64() * 1e3;
            if status.success() {
                Ok(milliseconds)
            } else {
                Err(std::io::Error::other("busbw failed"))
            }
        });
        let samples = samples.collect::<Result<Vec<f64>, _>>()?;
        let middle = median(&samples).unwrap_or(f64::NAN);
        let (low, high) =
            median_interval(&samples).map_or((f64::NAN, f64::NAN), |i| (i.low, i.high));
        println!(
            "report {redact} of {RECORDED_RUNS} runs of 31 sizes: median {middle:.1} ms, 95 % interval {low:.1} to {high:.1}, \
             largest {:.1}, {MEASURED_LAUNCHES} launches; page of {} kB, bar {MAX_MEDIAN_MS} ms",
            samples.iter().copied().fold(0.0, f64::max),
            std::fs::metadata(&page)?.len() / 1000,
        );
        if middle.is_nan() || middle >= MAX_MEDIAN_MS {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn busbw(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_busbw"));
    let words = line.split_whitespace();
    command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
