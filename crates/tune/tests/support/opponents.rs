//! The searches that the search is compared with: random search, and coordinate descent.
//! Not straw men: both get the same launches, know failures at once, and spend a share of them on being sure.

use busbw_stats::Random;
use busbw_tune::{Outcome, Point};

use super::landscape::Landscape;

/// One launch, as the mean logarithm of its times; `None` where it failed.
fn log_time(landscape: &mut Landscape, point: &Point) -> Option<f64> {
    let (Outcome::Measured(times), _) = landscape.measure(point) else { return None };
    let medians = times.iter().map(|one| busbw_stats::median(&one.seconds).map(f64::ln));
    Some(medians.sum::<Option<f64>>()? / times.len() as f64)
}

/// The median of several launches; `None` where one failed.
fn median_of(landscape: &mut Landscape, point: &Point, launches: usize) -> Option<f64> {
    let logs: Option<Vec<f64>> = (0..launches).map(|_| log_time(landscape, point)).collect();
    busbw_stats::median(&logs?)
}

/// Random environments, one launch each with two thirds of the launches; then the best tenth again and again, halved.
pub fn random_search(landscape: &mut Landscape, trials: usize, seed: u64) -> Point {
    let mut random = Random::new(seed);
    let default = landscape.space.default_point();
    let mut found: Vec<(f64, Point)> = Vec::new();
    let mut left = trials;
    let first = trials * 2 / 3;
    for _ in 0..first {
        left -= 1;
        let levels = landscape.space.variables().iter().map(|v| v.values.len());
        let point: Point = levels.map(|levels| random.below(levels)).collect();
        if let Some(log) = log_time(landscape, &point) {
            found.push((log, point));
        }
    }
    found.push((f64::NEG_INFINITY, default));
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.truncate((left / 6).max(2));
    let mut samples: Vec<(Vec<f64>, Point)> =
        found.into_iter().map(|(_, point)| (Vec::new(), point)).collect();
    while left > 0 {
        for (logs, point) in &mut samples {
            if left > 0 {
                left -= 1;
                logs.extend(log_time(landscape, point));
            }
        }
        let median = |logs: &[f64]| busbw_stats::median(logs).unwrap_or(f64::INFINITY);
        samples.sort_by(|a, b| median(&a.0).total_cmp(&median(&b.0)));
        if samples.len() > 2 && samples[0].0.len() >= 2 {
            samples.truncate(samples.len().div_ceil(2));
        }
    }
    samples.swap_remove(0).1
}

/// Each variable in random order, every value of it, three launches each, the best kept; over and over.
pub fn coordinate_descent(landscape: &mut Landscape, trials: usize, seed: u64) -> Point {
    const LAUNCHES: usize = 3;
    let mut random = Random::new(seed);
    let mut point = landscape.space.default_point();
    let mut left = trials;
    loop {
        let mut order: Vec<usize> = (0..point.len()).collect();
        random.shuffle(&mut order);
        for place in order {
            let mut best: Option<(f64, usize)> = None;
            // The present value is measured again beside the others, so that its luck does not stay.
            for level in 0..landscape.space.variables()[place].values.len() {
                if left < LAUNCHES {
                    return point;
                }
                left -= LAUNCHES;
                let mut other = point.clone();
                other[place] = level;
                if let Some(log) = median_of(landscape, &other, LAUNCHES)
                    && best.is_none_or(|(least, _)| log < least)
                {
                    best = Some((log, level));
                }
            }
            if let Some((_, level)) = best {
                point[place] = level;
            }
        }
    }
}
