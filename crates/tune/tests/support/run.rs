//! A search over a landscape, from its first trial to its end.
//! Not a driver of launches.

use busbw_tune::{Budget, Objective, Point, Search, Settings, Strategy};

use super::landscape::Landscape;

pub fn search(landscape: &Landscape, objective: Objective, trials: usize, seed: u64) -> Search {
    let budget = Budget { trials, seconds: None };
    let settings = Settings { objective, strategy: Strategy::Races, budget, seed };
    Search::new(landscape.space.clone(), settings).unwrap()
}

/// Runs it to its end; returns the point that was best after `at` trials.
pub fn to_end(search: &mut Search, landscape: &mut Landscape, at: usize) -> Option<Point> {
    let mut then = None;
    while let Some(trial) = search.pending().first().cloned() {
        let (outcome, took_s) = landscape.launch(&trial);
        search.report(trial.id, outcome, took_s).unwrap();
        if search.history().len() == at {
            then = search.best().map(|best| best.point);
        }
    }
    then
}
