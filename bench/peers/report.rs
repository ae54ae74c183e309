//! From launches to the table: medians, ratios of pairs with their intervals, verdicts.
//! Not the measuring.

use std::collections::BTreeMap;

use busbw_core::Collective;
use busbw_stats::{median, median_interval};

use super::{
    launches::{Lines, Side, Time, cores},
    points::{self, Point},
};

/// Every side's launches, by round.
#[derive(Default)]
pub struct Times {
    rounds: BTreeMap<(Side, usize), Lines>,
}

impl Times {
    /// Takes a launch.
    pub fn add(&mut self, side: Side, round: usize, lines: &Lines) {
        self.rounds.insert((side, round), lines.clone());
    }

    /// A side's time of a point in every round in which it was launched, microseconds.
    fn of(&self, side: Side, mode: &str, point: Point) -> BTreeMap<usize, f64> {
        let key = (mode.to_owned(), point.collective.to_owned(), point.size);
        let rooted = Collective::from_name(point.collective).is_some_and(points::rooted);
        let counts = |time: &Time| if rooted { time.slowest } else { time.mean };
        let launches = self.rounds.iter().filter(|((s, _), _)| *s == side);
        launches
            .filter_map(|((_, round), lines)| Some((*round, counts(lines.get(&key)?))))
            .collect()
    }
}

/// A ratio of two sides: its median over rounds, and the 95 % interval of that.
struct Ratio {
    median: f64,
    low: f64,
    high: f64,
}

fn ratio(ours: &BTreeMap<usize, f64>, theirs: &BTreeMap<usize, f64>) -> Option<Ratio> {
    let ratios: Vec<f64> =
        ours.iter().filter_map(|(round, us)| Some(us / theirs.get(round)?)).collect();
    let interval = median_interval(&ratios);
    let (low, high) = interval.map_or((f64::NAN, f64::NAN), |i| (i.low, i.high));
    Some(Ratio { median: median(&ratios)?, low, high })
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:5.2} [{:.2}, {:.2}]", self.median, self.low, self.high)
    }
}

fn median_of(times: &BTreeMap<usize, f64>) -> f64 {
    median(&times.values().copied().collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

/// Prints the table for one number of ranks; whether every point was measured on every side.
pub fn print(points: &[Point], times: &Times, ranks: usize, sides: &[Side]) -> bool {
    let cores = cores();
    let crowded = ranks > cores;
    println!(
        "\nbusbw's buffers lie in memory that all ranks share, and its table of algorithms was measured at the start of each launch; the peers' buffers are private, and their algorithms those of their defaults"
    );
    println!(
        "{ranks} ranks on {cores} cores; microseconds, medians over launches; ratio = busbw / faster peer, 95 % interval; loop = one pass of the loop over touched buffers, barrier and all"
    );
    println!(
        "{:<15}{:>9} {:>10} {:>10} {:>10}  {:<20} {:<20} {:<8} {:>6}  {:>9} {:>9} {:>6}  {:>9} {:>9}  ratio",
        "collective",
        "bytes",
        "busbw",
        "Open MPI",
        "MPICH",
        "ratio",
        "A/A",
        "",
        "limit",
        "untouched",
        "peer",
        "ratio",
        "loop",
        "peer"
    );
    let (mut slower, mut missing, mut compared) = (Vec::new(), 0, 0);
    for &point in points {
        let of = |side| times.of(side, "touched", point);
        let (ours, again) = (of(Side::Busbw), of(Side::Again));
        let (open_mpi, mpich) = (of(Side::OpenMpi), of(Side::Mpich));
        // MPICH spins: with fewer cores than ranks it takes milliseconds, and is shown, but no opponent.
        let opponents = [(&open_mpi, Side::OpenMpi), (&mpich, Side::Mpich)].into_iter();
        let (peer, side) = opponents
            .filter(|(_, side)| sides.contains(side) && !(crowded && *side == Side::Mpich))
            .min_by(|(a, _), (b, _)| median_of(a).total_cmp(&median_of(b)))
            .unwrap_or((&again, Side::Again));
        let (Some(against), Some(same)) = (ratio(&ours, peer), ratio(&ours, &again)) else {
            missing += 1;
            println!("{:<15}{:>9} not measured on every side", point.collective, point.size);
            continue;
        };
        compared += 1;
        let verdict = if against.low > 1.0 {
            slower.push(point.to_string());
            "SLOWER"
        } else if against.high < 1.0 {
            "faster"
        } else {
            "same"
        };
        let limit = times.of(Side::Busbw, "limit", point);
        let share = median_of(&limit) / median_of(&ours);
        let share = if share.is_nan() { String::new() } else { format!("{:.0}%", 100.0 * share) };
        let untouched = times.of(Side::Busbw, "untouched", point);
        let peer_untouched = times.of(side, "untouched", point);
        let untouched_ratio = ratio(&untouched, &peer_untouched).map_or(f64::NAN, |r| r.median);
        let (pass, peer_pass) =
            (times.of(Side::Busbw, "loop", point), times.of(side, "loop", point));
        let pass_ratio = ratio(&pass, &peer_pass).map_or(String::new(), |r| r.to_string());
        println!(
            "{:<15}{:>9} {:>10.2} {:>10.2} {:>10.2}  {:<20} {:<20} {:<8} {:>6}  {:>9.2} {:>9.2} {:>6.2}  {:>9.2} {:>9.2} {}",
            point.collective,
            point.size,
            median_of(&ours),
            median_of(&open_mpi),
            median_of(&mpich),
            against.to_string(),
            same.to_string(),
            verdict,
            share,
            median_of(&untouched),
            median_of(&peer_untouched),
            untouched_ratio,
            median_of(&pass),
            median_of(&peer_pass),
            pass_ratio
        );
    }
    println!("slower at {} of {compared} points: {}", slower.len(), slower.join(" "));
    missing == 0 && compared > 0
}
