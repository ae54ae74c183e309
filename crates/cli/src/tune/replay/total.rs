//! What the calls of a job take in all: each class's time × its calls, launch by launch.
//! Not one class (`busbw_analysis::sweep::Cell`).

use busbw_stats::{
    Interval,
    compare::{Rule, compare},
    median, median_interval,
};
use serde::Serialize;

use super::{Replayed, Row};

/// The total of one environment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Total {
    /// The median over launches, seconds.
    pub(super) seconds: f64,
    /// Its 95 % interval; there is none with fewer than 6 launches.
    pub(super) interval: Option<Interval>,
    /// Each launch's, seconds: the n-th launches of all classes together.
    pub(super) launches: Vec<f64>,
}

/// Adds totals of the classes that have figures of both environments, and compares them.
pub(super) fn add(replayed: &mut Replayed) {
    let rows: Vec<&Row> = replayed.rows.iter().filter(|row| row.waived.is_none()).collect();
    let totals = [0, 1].map(|environment| launches(&rows, environment));
    replayed.against = match &totals {
        [Some(first), Some(second)] => Some(compare(first, second, &Rule::default())),
        _ => None,
    };
    replayed.totals = totals.map(|launches| {
        let launches = launches?;
        let seconds = median(&launches)?;
        Some(Total { seconds, interval: median_interval(&launches), launches })
    });
}

/// The totals of an environment by launch, as many as every class has; none without a class.
fn launches(rows: &[&Row], environment: usize) -> Option<Vec<f64>> {
    let cells = rows.iter().map(|row| Some((row.cells.get(environment)?.as_ref()?, row.calls)));
    let cells = cells.collect::<Option<Vec<_>>>()?;
    let common = cells.iter().map(|(cell, _)| cell.launches_us.len()).min()?;
    let total = |launch: usize| {
        let times = cells
            .iter()
            .filter_map(|(cell, calls)| Some(cell.launches_us.get(launch)? * 1e-6 * *calls as f64));
        times.sum()
    };
    Some((0..common).map(total).collect())
}
