//! Runs launches in turns, A B C C B A, so that drift of the machine affects every environment
//! alike. Keeps them within a time limit: it cuts batches and iterations, then launches, never
//! sizes.
//! Not one launch (`launch`), and not what the launches mean (`busbw_analysis::sweep`).

use std::{ffi::OsString, path::PathBuf, time::Instant};

use anyhow::Result;
use busbw_core::exit::Exit;
use busbw_stats::compare::MIN_LAUNCHES;

use super::{
    Environment,
    launch::{self, Launch, Started},
};

/// The limit of one wait in a launch without `-T`, in seconds: an environment in which ranks never
/// find each other must not hold up the others.
const WAIT_LIMIT_S: u64 = 600;
/// The same in a sweep with a time limit.
const TIMED_WAIT_LIMIT_S: u64 = 120;

/// The job.
#[derive(Debug)]
pub struct Job {
    /// The benchmark and its options.
    pub words: Vec<OsString>,
    /// Whether the user limits waits (`-T`).
    pub has_patience: bool,
    /// Rows of a launch.
    pub rows: u64,
    /// Launches of each environment.
    pub launches: u32,
    /// Seconds for all of them.
    pub time: Option<f64>,
}

/// The launches of one environment.
#[derive(Debug, Default)]
pub struct Turns {
    /// The finished ones, in their order.
    pub launches: Vec<Launch>,
    /// Whether the time limit did not allow all.
    pub cut: bool,
    /// Seconds for each row, with a time limit.
    row_time: Option<f64>,
}

impl Turns {
    /// The failure, if there was one.
    pub fn failure(&self) -> Option<&(u8, String)> {
        let broken = |(code, _): &&(u8, String)| *code != Exit::Interrupted.code();
        self.launches.iter().filter_map(|launch| launch.failure.as_ref()).find(broken)
    }

    /// Expected seconds of the next launch: those of the last one.
    fn expected(&self) -> f64 {
        self.launches.last().map_or(0.0, |launch| launch.took.as_secs_f64())
    }
}

/// Seconds reserved for others: an environment with enough launches for a comparison yields to
/// those that still need some.
fn reserved(all: &[Turns], number: usize, launches: u32) -> f64 {
    let Some(turns) = all.get(number).filter(|turns| turns.launches.len() >= MIN_LAUNCHES) else {
        return 0.0;
    };
    let rest = |other: &Turns| f64::from(launches) - other.launches.len() as f64;
    let cheaper = all.iter().filter(|other| {
        other.failure().is_none() && !other.cut && other.expected() < turns.expected()
    });
    cheaper.map(|other| other.expected() * rest(other)).sum()
}

/// Runs all of them. `path` returns the record's path for an environment's launch, both counted
/// from 0, and `done` is called after each launch.
///
/// # Errors
/// No process can be started, or `path` fails.
pub fn take(
    job: &Job,
    environments: &[Environment],
    started: &Started<'_>,
    path: impl Fn(usize, u32) -> Result<PathBuf>,
    mut done: impl FnMut(usize, u32, &Launch),
) -> Result<Vec<Turns>> {
    let begun = Instant::now();
    let mut all: Vec<Turns> = environments.iter().map(|_| Turns::default()).collect();
    for round in 0..job.launches {
        let mut order: Vec<usize> = (0..environments.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (place, number) in order.iter().copied().enumerate() {
            if started.interruption.is_interrupted() {
                return Ok(all);
            }
            let reserved = reserved(&all, number, job.launches);
            let (Some(environment), Some(turns)) = (environments.get(number), all.get_mut(number))
            else {
                continue;
            };
            if turns.failure().is_some() {
                continue;
            }
            let mut words = environment.instead.as_ref().unwrap_or(&job.words).clone();
            let mut patience = WAIT_LIMIT_S;
            if let Some(limit) = job.time {
                let left = limit - begun.elapsed().as_secs_f64();
                if round > 0 && turns.expected() > left - reserved {
                    turns.cut = true;
                    continue;
                }
                let rest =
                    (order.len() - place) + order.len() * (job.launches - round - 1) as usize;
                turns.afford(left / rest.max(1) as f64, job.rows);
                let row_time = turns.row_time.unwrap_or(limit);
                words.extend(["--row-time".into(), format!("{row_time:.3}").into()]);
                patience = TIMED_WAIT_LIMIT_S;
            }
            if !job.has_patience {
                words.extend(["-T".into(), patience.to_string().into()]);
            }
            words.extend(environment.options.iter().map(OsString::from));
            let launch = launch::run(&words, environment, &path(number, round)?, started)?;
            done(number, round, &launch);
            turns.launches.push(launch);
        }
    }
    Ok(all)
}

impl Turns {
    /// Sets the seconds of a row so that a launch fits into `share` seconds. Sizes grow by a
    /// factor, so the largest few rows take nearly all of the time.
    fn afford(&mut self, share: f64, rows: u64) {
        const MIN_ROW_S: f64 = 0.005;
        let share = share.max(MIN_ROW_S);
        let row_time = match (self.row_time, self.launches.last()) {
            (None, _) | (_, None) => share / (rows as f64 / 4.0).max(2.5),
            (Some(before), Some(last)) => before * (share / last.took.as_secs_f64()).min(1.0),
        };
        self.row_time = Some(row_time.max(MIN_ROW_S));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn took(seconds: f64) -> Launch {
        let took = Duration::from_secs_f64(seconds);
        Launch { path: PathBuf::new(), record: None, took, failure: None }
    }

    #[test]
    fn slow_ones_yield_when_they_have_enough() {
        let turns = |seconds: f64, launches: usize| Turns {
            launches: (0..launches).map(|_| took(seconds)).collect(),
            ..Turns::default()
        };
        let all = [turns(8.0, 4), turns(26.0, 4), turns(12.0, 5)];
        assert_eq!(reserved(&all, 0, 6), 0.0);
        assert_eq!(reserved(&all, 1, 6), 2.0 * 8.0 + 12.0);
        assert_eq!(reserved(&[turns(8.0, 4), turns(26.0, 3)], 1, 6), 0.0);
    }

    #[test]
    fn a_launch_that_took_too_long_gets_less_and_never_more() {
        let mut turns = Turns::default();
        turns.afford(10.0, 6);
        assert_eq!(turns.row_time, Some(4.0));
        turns.launches.push(took(20.0));
        turns.afford(10.0, 6);
        assert_eq!(turns.row_time, Some(2.0));
        turns.launches.push(took(1.0));
        turns.afford(10.0, 6);
        assert_eq!(turns.row_time, Some(2.0));
        turns.afford(-1.0, 6);
        assert!(turns.row_time.is_some_and(|seconds| seconds > 0.0));
    }
}
