//! A search that is saved and read again at any trial goes on to the same trials and the same outcome.
//! Not a test of what it finds.

#![allow(clippy::unwrap_used)]

mod support;

use busbw_tune::{Call, Finished, Objective, Outcome, Point, Search, Trial};
use proptest::prelude::*;
use support::{
    landscape::{Kind, Landscape, SIZES, calls},
    run,
};

const TRIALS: usize = 120;

/// What each trial was, and what it gave: launches of the two runs must not differ in their noise.
fn all(seed: u64, objective: Objective, cut: Option<usize>) -> (Vec<(Trial, Point)>, String) {
    let mut landscape = Landscape::draw(seed, Kind::Common);
    let mut search = run::search(&landscape, objective, TRIALS, seed);
    let mut trials = Vec::new();
    while let Some(trial) = search.pending().first().cloned() {
        if cut == Some(trials.len()) {
            let text = serde_json::to_string(&search).unwrap();
            let read: Search = serde_json::from_str(&text).unwrap();
            assert_eq!(read, search);
            search = read;
            assert_eq!(search.pending().first(), Some(&trial), "an unreported trial stays pending");
        }
        let (outcome, took_s) = landscape.launch(&trial);
        search.report(trial.id, outcome, took_s).unwrap();
        trials.push((trial.clone(), trial.point));
    }
    (trials, serde_json::to_string(&search.outcome().unwrap()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn a_cut_at_any_trial_changes_nothing(seed in 1_u64..1_000, cut in 0..TRIALS) {
        let objective = Objective::AllCalls(calls());
        let whole = all(seed, objective.clone(), None);
        prop_assert_eq!(all(seed, objective, Some(cut.min(whole.0.len() - 1))), whole);
    }
}

#[test]
fn a_search_by_call_resumes_and_has_a_choice_for_each_call() {
    let objective = Objective::PerCall(calls());
    let whole = all(5, objective.clone(), None);
    assert_eq!(all(5, objective, Some(57)), whole);
    let report: busbw_tune::Report = serde_json::from_str(&whole.1).unwrap();
    assert_eq!(report.choices.iter().map(|one| one.call.clone()).collect::<Vec<_>>(), calls());
    assert_eq!(report.calls.len(), calls().len());
}

/// NCCL declines an algorithm for one of a job's collectives: it is no choice there, and may be one for the others.
#[test]
fn what_is_declined_for_one_call_stays_a_candidate_for_the_others() {
    let all = calls();
    let (declining, others) = all.split_first().unwrap();
    let end = |declines: bool, is_backwards: bool| {
        let landscape = Landscape::draw(5, Kind::Common);
        let mut search = run::search(&landscape, Objective::PerCall(calls()), TRIALS, 5);
        while !search.pending().is_empty() {
            let mut batch = search.pending().to_vec();
            if is_backwards && !batch[0].fresh {
                batch.reverse();
            }
            for trial in batch {
                if !search.pending().contains(&trial) {
                    continue;
                }
                let mut machine = Landscape::draw(5, Kind::Common);
                machine.reseed(trial.id);
                let (mut outcome, took_s) = machine.launch(&trial);
                if let Outcome::Measured(times) = &mut outcome
                    && declines
                    && !trial.environment.is_empty()
                {
                    times.retain(|one| one.call != *declining);
                    let (times, declined) = (times.clone(), vec![declining.clone()]);
                    outcome = Outcome::InPart { times, declined };
                }
                search.report(trial.id, outcome, took_s).unwrap();
            }
        }
        search
    };
    let report = |search: &Search| search.outcome().unwrap();
    let has_choice = |report: &busbw_tune::Report, call: &Call| {
        report.choices.iter().any(|one| one.call == *call && one.compared.is_some())
    };
    assert!(has_choice(&report(&end(false, false)), declining));
    let search = end(true, false);
    assert!(search == end(true, true), "the order of reports changes nothing");
    let default = |one: &&Finished| one.trial.environment.is_empty();
    let known: Vec<f64> =
        search.history().iter().filter(default).filter_map(|one| one.seconds(declining)).collect();
    let filled = search.history().iter().filter(|one| !one.declined.is_empty());
    assert!(filled.clone().count() > 20);
    assert!(filled.into_iter().all(|one| known.contains(&one.seconds(declining).unwrap())));
    let report = report(&search);
    assert!(!has_choice(&report, declining));
    assert!(others.iter().all(|call| has_choice(&report, call)), "{:?}", report.choices);
    // Of the defaults, and where one environment is looked for, each call must be measured.
    for objective in [Objective::PerCall(calls()), Objective::AllCalls(calls())] {
        let landscape = Landscape::draw(5, Kind::Common);
        let mut search = run::search(&landscape, objective, TRIALS, 5);
        let first = search.pending()[0].id;
        let nothing = Outcome::InPart { times: Vec::new(), declined: calls() };
        assert!(search.report(first, nothing, 1.0).is_err());
    }
}

#[test]
fn trials_of_a_batch_may_be_reported_in_any_order() {
    let ends = [false, true].map(|backwards| {
        let landscape = Landscape::draw(7, Kind::Common);
        let mut search = run::search(&landscape, Landscape::objective(), TRIALS, 7);
        while !search.pending().is_empty() {
            let mut batch = search.pending().to_vec();
            if backwards && !batch[0].fresh {
                batch.reverse();
            }
            for trial in batch {
                // Noise that follows from the trial, not from the order of launches.
                let mut machine = Landscape::draw(7, Kind::Common);
                machine.reseed(trial.id);
                let (outcome, took_s) = machine.launch(&trial);
                search.report(trial.id, outcome, took_s).unwrap();
            }
        }
        search
    });
    assert!(ends[0] == ends[1]);
}

#[test]
fn the_limit_of_time_and_a_cut_lead_to_the_final_comparison() {
    let mut landscape = Landscape::draw(11, Kind::Common);
    let budget = busbw_tune::Budget { trials: 300, seconds: Some(700.0) };
    let strategy = busbw_tune::Strategy::Races;
    let objective = Landscape::objective();
    let settings = busbw_tune::Settings { objective, strategy, budget, seed: 1 };
    let mut search = Search::new(landscape.space.clone(), settings).unwrap();
    run::to_end(&mut search, &mut landscape, 0);
    // What was found is compared whatever it takes; the search itself ends in time.
    let is_final = |purpose: busbw_tune::Purpose| matches!(purpose, busbw_tune::Purpose::Final(_));
    let searched = search.history().iter().filter(|one| !is_final(one.trial.purpose));
    let spent: f64 = searched.map(|one| one.took_s).sum();
    assert!(spent < 700.0, "{spent} s");
    assert!(search.outcome().is_some());

    let mut search = run::search(&landscape, Landscape::objective(), 300, 1);
    for _ in 0..120 {
        let trial = search.pending()[0].clone();
        let (outcome, took_s) = landscape.launch(&trial);
        search.report(trial.id, outcome, took_s).unwrap();
    }
    search.cut();
    run::to_end(&mut search, &mut landscape, 0);
    assert!(search.history().len() < 220 && search.outcome().is_some());
}

#[test]
fn what_is_given_is_compared_and_nothing_else_is_tried() {
    for seed in [4, 8] {
        let mut landscape = Landscape::draw(seed, Kind::Common);
        let best = landscape.space.environment(&landscape.optimum().1);
        let settings = busbw_tune::Settings {
            objective: Landscape::objective(),
            strategy: busbw_tune::Strategy::Compare(best.clone()),
            budget: busbw_tune::Budget { trials: 60, seconds: None },
            seed: 1,
        };
        let mut search = Search::new(landscape.space.clone(), settings).unwrap();
        run::to_end(&mut search, &mut landscape, 0);
        let report = search.outcome().unwrap();
        assert_eq!((report.advice, &report.environment), (busbw_tune::Advice::Set, &best));
        assert_eq!(report.calls.len(), SIZES.len());
    }
}

#[test]
fn defaults_that_fail_end_the_search() {
    let landscape = Landscape::draw(3, Kind::Flat);
    let mut search = run::search(&landscape, Landscape::objective(), TRIALS, 3);
    while let Some(trial) = search.pending().first().cloned() {
        let failure = busbw_tune::Failure::Crashed;
        let outcome = Outcome::Failed { failure, text: "no GPU".to_owned() };
        search.report(trial.id, outcome, 1.0).unwrap();
    }
    let report = search.outcome().unwrap();
    assert_eq!(report.advice, busbw_tune::Advice::Repair);
    assert!(report.trials <= 3 && report.sentence().contains("repair"));
}

#[test]
fn an_answer_that_cannot_be_used_leaves_the_trial_pending() {
    let mut landscape = Landscape::draw(3, Kind::Flat);
    let mut search = run::search(&landscape, Landscape::objective(), TRIALS, 3);
    let trial = search.pending()[0].clone();
    let error = search.report(trial.id, Outcome::Measured(Vec::new()), 1.0).unwrap_err();
    assert!(error.to_string().contains("all_reduce of 65536 B"), "{error}");
    assert_eq!(search.pending()[0], trial);
    let (outcome, took_s) = landscape.launch(&trial);
    search.report(trial.id, outcome.clone(), took_s).unwrap();
    assert!(search.report(trial.id, outcome, took_s).is_err());
}
