//! A made-up job window by window: who is late in which, how long calls take, and clocks that are wrong.
//! Not who is named (`jobs`).
#![allow(clippy::unwrap_used, reason = "tests")]

mod synthetic;

use busbw_watch::{Job, MOST_WINDOWS, OverTime, View};
use busbw_watch_file::WatchFile;
use synthetic::{Fault, Shape, job};

const SMALL: Shape = Shape { tp: 2, pp: 2, dp: 4, steps: 30 };

fn over_time(files: Vec<(String, WatchFile)>) -> (Job, View, OverTime) {
    let mut jobs = Job::of(files);
    assert_eq!(jobs.len(), 1);
    let job = jobs.remove(0);
    let (view, time) = View::over_time(&job);
    (job, view, time)
}

#[test]
fn no_call_is_lost_or_counted_twice() {
    let (job, view, time) = over_time(job(SMALL, 1, 3, Fault::Compute(1.5)));
    assert!((1..=MOST_WINDOWS).contains(&time.windows) && time.aligned && time.together);
    let all: usize = view.groups.iter().flat_map(|group| &group.speeds).map(|one| one.calls).sum();
    let shown = |one: &busbw_watch::ClassOverTime| {
        let within: usize = one.windows.iter().flatten().map(|window| window.calls).sum();
        assert_eq!((within, one.windows.len()), (one.speed.calls, time.windows), "{one:?}");
        within
    };
    assert_eq!(time.classes.iter().map(shown).sum::<usize>(), all);
    // All-reduces of 2 and of 4 ranks, and messages between stages: communicators alike are together.
    let groups: Vec<usize> = time.classes.iter().map(|one| one.groups.len()).collect();
    assert_eq!((time.classes.len(), groups.iter().sum::<usize>()), (3, 20), "{groups:?}");
    let compared: usize = view.groups.iter().map(|group| group.compared * 2).sum();
    let dp: usize =
        view.groups.iter().filter(|one| one.ranks == 4).map(|one| one.compared * 2).sum();
    let calls: usize = time.lateness.iter().flatten().map(|one| one.calls).sum();
    assert_eq!((time.lateness.len(), calls), (job.peers.len(), compared + dp));
}

#[test]
fn the_late_rank_is_late_in_every_window() {
    let (job, _, time) = over_time(job(SMALL, 1, 3, Fault::Host(5_000_000)));
    let caused = |peer: usize| -> u64 { time.lateness[peer].iter().map(|one| one.caused).sum() };
    let worst = (0..job.peers.len()).max_by_key(|peer| caused(*peer)).unwrap();
    assert_eq!(job.peers[worst].process.pid, 1003);
    let others: u64 = (0..job.peers.len()).filter(|peer| *peer != worst).map(caused).sum();
    assert!(caused(worst) > 20 * others, "{} and {others}", caused(worst));
    let with_calls: Vec<_> = time.lateness[worst].iter().filter(|one| one.calls > 0).collect();
    assert!(with_calls.len() > 20 && with_calls.iter().all(|one| one.last > 0), "{with_calls:?}");
}

#[test]
fn a_small_job_has_its_communicators_apart() {
    let shape = Shape { tp: 2, pp: 1, dp: 2, steps: 14 };
    let (_, view, time) = over_time(job(shape, 1, 3, Fault::None));
    assert!(!time.together);
    assert!(time.classes.iter().all(|one| one.groups.len() == 1));
    let with_calls = view.groups.iter().filter(|group| !group.speeds.is_empty()).count();
    assert_eq!(time.classes.len(), with_calls);
}

/// A host's clock that is an hour ahead moves none of its calls.
#[test]
fn clocks_of_hosts_need_not_be_right() {
    let files = job(SMALL, 1, 3, Fault::None);
    let (_, _, right) = over_time(files.clone());
    let mut wrong = files;
    for (_, file) in wrong.iter_mut().filter(|(_, file)| file.process.host == "h1") {
        file.process.began += 3_600_000_000_000;
    }
    let (_, _, aligned) = over_time(wrong);
    assert!(aligned.aligned);
    assert_eq!((aligned.window, aligned.windows), (right.window, right.windows));
    assert_eq!(aligned.lateness, right.lateness);
}

#[test]
fn without_a_call_there_is_no_window() {
    let mut files = job(SMALL, 1, 3, Fault::None);
    for (_, file) in &mut files {
        file.lines.retain(|line| !matches!(line, busbw_watch_file::Line::Calls(_)));
    }
    let (_, _, time) = over_time(files);
    assert_eq!((time.windows, time.classes.as_slice()), (0, [].as_slice()));
}
