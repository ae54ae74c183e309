//! The `host` backend against Open MPI and MPICH: the OSU loop on all sides, launches in turns, ratios
//! of pairs with their intervals. `cargo bench -p busbw --bench peers [-- OPTIONS]`; Debian's packages
//! openmpi-bin, libopenmpi-dev, mpich and libmpich-dev must be there.
//! Not a test: it takes half an hour and a quiet machine.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]

#[path = "peers/launches.rs"]
mod launches;
#[path = "peers/ours.rs"]
mod ours;
#[path = "peers/points.rs"]
mod points;
#[path = "peers/report.rs"]
mod report;

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;
use launches::{SIDES, Side};

/// `host` against Open MPI and MPICH.
#[derive(Debug, Parser)]
struct Options {
    /// Rounds; each launches busbw twice (the second for A/A), Open MPI and MPICH.
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Rank counts.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4])]
    ranks: Vec<usize>,
    /// Collectives; all that MPI has when left out.
    #[arg(long, value_delimiter = ',')]
    collectives: Vec<String>,
    /// Sizes in bytes of one message; 8 B to 64 MiB when left out.
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<u64>,
    /// The peers' loop, where this runs on another machine than it was built on.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/peers/loop.c"))]
    source: PathBuf,
    /// About so many microseconds of timed and untimed work a point and mode, of at least two
    /// operations.
    #[arg(long, default_value_t = 20_000.0)]
    budget_us: f64,
    /// Opponents; `none` leaves busbw against itself.
    #[arg(long, value_delimiter = ',', default_values = ["openmpi", "mpich"])]
    peers: Vec<String>,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(ours::RANK) {
        return ours::run();
    }
    let options = Options::parse();
    let sides: Vec<Side> =
        SIDES.into_iter().filter(|side| side.is_wanted(&options.peers)).collect();
    let peers = match launches::Peers::build(&sides, &options.source) {
        Ok(peers) => peers,
        Err(why) => {
            eprintln!("peers: {why}");
            return ExitCode::FAILURE;
        }
    };
    let mut complete = true;
    for &ranks in &options.ranks {
        let points = points::all(&options.collectives, &options.sizes, ranks);
        let mut times = report::Times::default();
        for round in 0..options.rounds {
            eprintln!("{ranks} ranks: round {} of {}", round + 1, options.rounds);
            for &side in &sides {
                match peers.launch(side, ranks, &points, options.budget_us) {
                    Ok(lines) => times.add(side, round, &lines),
                    Err(why) => {
                        eprintln!("peers: {why}");
                        complete = false;
                    }
                }
            }
        }
        complete &= report::print(&points, &times, ranks, &sides);
    }
    if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
