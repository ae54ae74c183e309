//! How soon the first row is there, and how much memory a run takes against what it asks for.
//! `cargo bench -p busbw --bench start`. Not speed of collectives.
#![forbid(unsafe_code)]

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use busbw_stats::{median, median_interval};
use tempfile::TempDir;

/// Launches of each measurement.
const MEASURED_LAUNCHES: usize = 21;

fn main() -> std::io::Result<()> {
    first_row()?;
    memory();
    Ok(())
}

fn busbw(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_busbw"));
    command
        .args(line.split_whitespace())
        .env("BUSBW_NO_RECORD", "1")
        .env("BUSBW_BACKEND", "host")
        .stderr(Stdio::null());
    command
}

/// Milliseconds from start to the first row of the issue's own line: where the machine was measured
/// before, and where nothing was. Neither touches the user's own cache.
fn first_row() -> std::io::Result<()> {
    let line = "all_reduce_perf -b 8 -e 64K -f 2 -g 2";
    let cache = TempDir::new()?;
    let launch = |cache: &Path| -> Option<f64> {
        let start = Instant::now();
        let mut command = busbw(line);
        let mut child = command.env("XDG_CACHE_HOME", cache).stdout(Stdio::piped()).spawn().ok()?;
        let mut lines = BufReader::new(child.stdout.take()?).lines();
        lines.find(|l| l.as_ref().is_ok_and(|l| !l.starts_with('#') && !l.is_empty()))?.ok()?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        lines.for_each(drop);
        child.wait().ok()?;
        Some(milliseconds)
    };
    launch(cache.path());
    print("measured before", line, (0..MEASURED_LAUNCHES).filter_map(|_| launch(cache.path())));
    print(
        "never measured",
        line,
        (0..MEASURED_LAUNCHES).filter_map(|_| launch(TempDir::new().ok()?.path())),
    );
    Ok(())
}

fn print(machine: &str, line: &str, samples: impl Iterator<Item = f64>) {
    let samples: Vec<f64> = samples.collect();
    let (low, high) = median_interval(&samples).map_or((f64::NAN, f64::NAN), |i| (i.low, i.high));
    println!(
        "first row of `{line}`, machine {machine}: median {:.1} ms, 95 % interval {low:.1} to {high:.1}, largest {:.1}, {} launches",
        median(&samples).unwrap_or(f64::NAN),
        samples.iter().copied().fold(f64::NAN, f64::max),
        samples.len()
    );
}

/// Largest resident memory of a rank (shared pages count in every rank that touched them) and the
/// sum over ranks of what only they hold, against the buffers asked for.
fn memory() {
    for (line, ranks) in [
        ("all_reduce_perf -b 64K -e 64K -g 2", 2u64),
        ("all_reduce_perf -b 128M -e 128M -g 2 -n 2", 2),
        ("all_reduce_perf -b 128M -e 128M -g 2 -n 2 -c 0", 2),
    ] {
        let Ok(output) = busbw(&format!("{line} --json")).output() else { continue };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let values: Vec<serde_json::Value> =
            text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
        let find = |kind: &str| values.iter().find(|v| v["kind"] == kind);
        let asked = find("run").and_then(|v| v["memory"]["buffers_per_rank"].as_u64()).unwrap_or(0);
        let peak = find("end").and_then(|v| v["peak_rank_bytes"].as_u64()).unwrap_or(0);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "`{line}`: buffers asked for {:.2} MiB a rank, {:.2} in all; resident in one rank at most {:.2} MiB, of which {:.2} are not buffers",
            mib(asked),
            mib(asked * ranks),
            mib(peak),
            mib(peak.saturating_sub(asked * ranks))
        );
    }
}
