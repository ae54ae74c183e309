//! Made-up jobs: the rank that is late is named with the reason, its victims are not, and a healthy job accuses nobody.
//! Not a thousand ranks fifty times (`examples/synthetic.rs`).
#![allow(clippy::unwrap_used, reason = "tests")]

mod synthetic;

use busbw_watch::{Job, Reason, State, View};
use busbw_watch_file::{Call, Line, WatchFile};
use synthetic::{Fault, Shape, job};

const SMALL: Shape = Shape { tp: 2, pp: 2, dp: 4, steps: 30 };

fn view(shape: Shape, seed: u64, straggler: usize, fault: Fault) -> (Job, View) {
    let mut jobs = Job::of(job(shape, seed, straggler, fault));
    assert_eq!(jobs.len(), 1);
    let job = jobs.remove(0);
    let view = View::of(&job);
    (job, view)
}

#[test]
fn a_healthy_job_accuses_nobody() {
    for seed in 0..20 {
        let (_, view) = view(SMALL, seed, 0, Fault::None);
        assert_eq!((view.state, view.findings.as_slice()), (State::Fine, [].as_slice()), "{seed}");
        assert!(view.groups.iter().all(|group| group.compared > 0 && group.missing.is_empty()));
    }
}

#[test]
fn the_straggler_is_named_and_its_victims_are_not() {
    for seed in 0..20 {
        let straggler = seed as usize * 7 % 16;
        for fault in [Fault::Compute(1.5), Fault::Host(5_000_000), Fault::Core(5_000_000)] {
            let (job, view) = view(SMALL, seed, straggler, fault);
            let pids: Vec<u32> =
                view.stragglers.iter().map(|one| job.peers[one.peer].process.pid).collect();
            assert_eq!(pids, [1000 + straggler as u32], "{seed} {fault:?}: {:#?}", view.findings);
            let right = match view.stragglers[0].reason {
                Reason::Compute { .. } => matches!(fault, Fault::Compute(_)),
                Reason::Host => matches!(fault, Fault::Host(_)),
                Reason::Core { .. } => matches!(fault, Fault::Core(_)),
                Reason::Unknown => false,
            };
            assert!(right, "{seed} {fault:?}: {:?}", view.stragglers[0]);
            assert_eq!(view.state, State::Late);
        }
    }
}

/// As the profiler samples calls: 16 of the process in a row, from each on whose number is a multiple of 64 (1,024 there).
fn in_runs(files: &mut [(String, WatchFile)]) -> (usize, usize) {
    let (mut timed, mut all) = (0, 0);
    for (_, file) in files {
        let mut calls: Vec<&mut Call> = file
            .lines
            .iter_mut()
            .filter_map(|line| match line {
                Line::Calls(calls) => Some(&mut calls.calls),
                _ => None,
            })
            .flatten()
            .collect();
        calls.sort_by_key(|call| call.enqueued);
        let mut left = 0_u32;
        for call in calls {
            all += 1;
            left = if call.sequence % 64 == 0 { 16 } else { left };
            match left {
                0 => (call.started, call.duration) = (None, None),
                _ => timed += usize::from(call.duration.is_some()),
            }
            left = left.saturating_sub(1);
        }
    }
    (timed, all)
}

#[test]
fn where_some_calls_are_timed_the_straggler_is_named_and_nobody_else() {
    let shape = Shape { steps: 120, ..SMALL };
    for seed in 0..20 {
        for fault in [Fault::None, Fault::Compute(1.5), Fault::Host(5_000_000)] {
            let straggler = seed as usize * 7 % 16;
            let mut files = job(shape, seed, straggler, fault);
            let (timed, all) = in_runs(&mut files);
            assert!((all / 8..all / 2).contains(&timed), "{timed} of {all}");
            let job = Job::of(files).remove(0);
            let view = View::of(&job);
            let pids: Vec<u32> =
                view.stragglers.iter().map(|one| job.peers[one.peer].process.pid).collect();
            let wanted = matches!(fault, Fault::None).then(Vec::new);
            let wanted = wanted.unwrap_or_else(|| vec![1000 + straggler as u32]);
            assert_eq!(pids, wanted, "{seed} {fault:?}: {:#?}", view.findings);
        }
    }
}

#[test]
fn a_process_that_stood_still_is_named() {
    for seed in 0..10 {
        let straggler = seed as usize * 5 % 16;
        let (job, view) = view(SMALL, seed, straggler, Fault::Stopped);
        let pids: Vec<u32> =
            view.interruptions.iter().map(|one| job.peers[one.peer].process.pid).collect();
        assert_eq!(
            (pids, view.stragglers.as_slice()),
            (vec![1000 + straggler as u32], [].as_slice())
        );
    }
}

#[test]
fn a_rank_without_a_file_is_said() {
    let mut files = job(SMALL, 1, 3, Fault::Compute(1.5));
    files.retain(|(name, _)| name != "h0.5.jsonl");
    let jobs = Job::of(files);
    assert_eq!(jobs.len(), 1);
    let view = View::of(&jobs[0]);
    let missing: Vec<(&str, &[u32])> = view
        .groups
        .iter()
        .filter(|group| !group.missing.is_empty())
        .map(|group| (group.id.as_str(), group.missing.as_slice()))
        .collect();
    assert_eq!(missing, [("dp-0-1", [1].as_slice()), ("pp-1-1", &[0]), ("tp-1-0", &[1])]);
    assert_eq!(view.stragglers.len(), 1);
}

#[test]
fn two_jobs_are_two() {
    let mut files = job(SMALL, 1, 0, Fault::None);
    let other = job(SMALL, 2, 0, Fault::None).into_iter().map(|(name, mut file)| {
        file.process.host = format!("other-{}", file.process.host);
        for line in &mut file.lines {
            if let busbw_watch_file::Line::Communicator(one) = line {
                one.id = format!("other-{}", one.id);
            }
        }
        (format!("other-{name}"), file)
    });
    files.extend(other);
    let jobs = Job::of(files);
    assert_eq!(jobs.iter().map(|job| job.peers.len()).collect::<Vec<_>>(), [16, 16]);
}

/// Numbers that no job has: nothing overflows.
#[test]
fn absurd_numbers_do_no_harm() {
    use busbw_watch_file::{Heartbeat, Line};
    let mut files = job(SMALL, 1, 0, Fault::None);
    for (_, file) in &mut files {
        file.process.began = u64::MAX;
        for line in &mut file.lines {
            match line {
                Line::Calls(calls) => {
                    calls.class.size = u64::MAX;
                    for call in &mut calls.calls {
                        (call.enqueued, call.started) = (u64::MAX, Some(u64::MAX));
                        call.duration = Some(u64::MAX - call.sequence);
                    }
                }
                Line::Clock(clock) => clock.ahead = i64::MIN,
                Line::Heartbeat(beat) => {
                    *beat = Heartbeat {
                        at: beat.at,
                        clock: u64::MAX,
                        late: u64::MAX,
                        core_wait: Some(u64::MAX),
                        dropped_calls: u64::MAX,
                        dropped_steps: u64::MAX,
                        mask: None,
                    };
                }
                _ => {}
            }
        }
    }
    for (_, file) in &mut files {
        file.keep_from(u64::MAX - 1);
    }
    let _ = View::of(&Job::of(files)[0]);
}
