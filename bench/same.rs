//! A/A: the same program compared with itself, 200 times, on this machine. At most 5 % may come out
//! "different". `cargo bench -p busbw --bench same [-- COMPARISONS]`. Not a test: it takes minutes and
//! a machine that others share decides about it.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use busbw_core::record::{Half, Line};
use busbw_stats::{Rule, Verdict, compare};

/// Launches a side.
const LAUNCHES_PER_SIDE: usize = 8;

/// Three sizes: one that is all latency, one within caches, one beyond the second level.
const ARGUMENTS: &str = "all_reduce -b 8 -e 2M -f 512 -g 2 --json --no-record";

/// A point of comparison: size and placement.
type Point = (u64, &'static str);

fn main() -> ExitCode {
    let comparisons = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(200);
    let mut failed = false;
    for in_turns in [true, false] {
        let Some(share) = run(comparisons, in_turns) else {
            println!(
                "  FAILED: launches failed or points are missing, so nothing is shown by this"
            );
            return ExitCode::FAILURE;
        };
        // The contract is for sides that are measured in turns; the other figure is for the record.
        failed |= in_turns && share > 0.05;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Points of one comparison: three sizes, two placements.
const POINTS_PER_COMPARISON: usize = 6;

/// Runs comparisons and returns the share that came out different; none when not every point of
/// every comparison was there with all its launches.
fn run(comparisons: usize, in_turns: bool) -> Option<f64> {
    let begun = Instant::now();
    let mut verdicts: BTreeMap<Point, BTreeMap<&str, usize>> = BTreeMap::new();
    for _ in 0..comparisons {
        let sides = measure(in_turns);
        for (point, a) in &sides[0] {
            let Some(b) = sides[1].get(point) else { continue };
            if a.len() != LAUNCHES_PER_SIDE || b.len() != LAUNCHES_PER_SIDE {
                continue;
            }
            let word = match compare(a, b, &Rule::default()).verdict {
                Verdict::Same => "same",
                Verdict::Faster | Verdict::Slower => "different",
                Verdict::Inconclusive(_) => "inconclusive",
            };
            *verdicts.entry(*point).or_default().entry(word).or_default() += 1;
        }
    }
    let order = if in_turns { "in turns (ABBA)" } else { "one after the other" };
    println!(
        "{comparisons} A/A comparisons {order}, {LAUNCHES_PER_SIDE} launches a side, `busbw {ARGUMENTS}`, {:.0} s:",
        begun.elapsed().as_secs_f64()
    );
    let (mut different, mut all) = (0, 0);
    for ((size, place), words) in &verdicts {
        let count = |word| words.get(word).copied().unwrap_or(0);
        println!(
            "  {size:>8} B {place:<12}  same {:>4}  different {:>4}  inconclusive {:>4}",
            count("same"),
            count("different"),
            count("inconclusive")
        );
        different += count("different");
        all += words.values().sum::<usize>();
    }
    let share = different as f64 / all.max(1) as f64;
    println!("  different: {different} of {all} = {:.2} %", share * 100.0);
    (all == comparisons * POINTS_PER_COMPARISON && all > 0).then_some(share)
}

/// Launch medians of two sides of the same program, by point.
fn measure(in_turns: bool) -> [BTreeMap<Point, Vec<f64>>; 2] {
    let mut sides = [BTreeMap::new(), BTreeMap::new()];
    for launch in 0..2 * LAUNCHES_PER_SIDE {
        let side = match in_turns {
            // A B B A A B B A …
            true => usize::from(matches!(launch % 4, 1 | 2)),
            false => launch / LAUNCHES_PER_SIDE,
        };
        for (point, time) in launch_once() {
            sides[side].entry(point).or_insert_with(Vec::new).push(time);
        }
    }
    sides
}

fn launch_once() -> Vec<(Point, f64)> {
    let output = Command::new(env!("CARGO_BIN_EXE_busbw"))
        .args(ARGUMENTS.split_whitespace())
        .stderr(Stdio::null())
        .output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let mut points = Vec::new();
    for line in text.lines() {
        let Ok(Line::Row(row)) = busbw_store::line::from_text(line.as_bytes()) else { continue };
        let mut add = |place, half: &Option<Half>| {
            points.extend(
                half.iter().filter_map(|half| Some(((row.size, place), half.figures.time_us?))),
            );
        };
        add("out-of-place", &row.out_of_place);
        add("in-place", &row.in_place);
    }
    points
}
