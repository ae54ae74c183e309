//! Passes over a sequence of calls: each call begins when the job began it, or when the one before is complete.
//! Not the rows that are made of them (`calls`).

use std::time::{Duration, Instant};

use busbw_core::{Collective, fault::Phase};
use busbw_stats::Decision;

use super::{Class, last, operation};
use crate::measure::{RunError, Session, batch::run_operation};

/// A gap is slept but for this much of its end: a sleep ends late by some 50 us (the kernel's timer slack).
const AWAKE: Duration = Duration::from_micros(200);
/// A pass is no shorter than this, or a sample is mostly the entering barrier: a short sequence is gone through again.
const MIN_PASS: Duration = Duration::from_millis(2);
/// The most calls of a pass that goes through a short sequence several times.
const MAX_REPEATED: u32 = 1 << 16;
/// Calls whose times are exchanged at once: 16 KiB from each rank thread.
const BLOCK: usize = 4096;

/// One pass, of our communicator; of once through the sequence.
pub(super) struct Pass {
    /// Seconds from the first call's start to the last one's end, of each rank thread.
    pub(super) lengths: Vec<f64>,
    /// Microseconds of all calls of each class together.
    pub(super) classes: Vec<f64>,
    /// The same as each rank thread measured it.
    pub(super) by_thread: Vec<Vec<f64>>,
}

impl Session<'_> {
    /// Passes until the stopping rule ends them.
    pub(super) fn passes(
        &mut self,
        sequence: &[(usize, f64)],
        classes: &[Class],
    ) -> Result<Vec<Pass>, RunError> {
        let sampling = self.plan.sampling;
        let (mut passes, mut samples, mut spent) = (Vec::new(), Vec::new(), 0.0);
        let (mut times, mut least) = (1, sampling.min_batches);
        loop {
            let begun = Instant::now();
            let (length, calls_us) = self.pass(sequence, times, classes)?;
            let took = begun.elapsed().as_secs_f64();
            let lengths = self.lengths([took, length / f64::from(times)])?;
            // All go by what rank 0 says.
            let took = lengths.first().map_or(f64::NAN, |[took, _]| *took);
            if passes.is_empty() && times == 1 && took > 0.0 && took < MIN_PASS.as_secs_f64() {
                let most = (MAX_REPEATED / sequence.len().max(1) as u32).max(2);
                times = ((MIN_PASS.as_secs_f64() / took).ceil() as u32).clamp(2, most);
                continue;
            }
            if let (true, Some(row_time)) = (passes.is_empty(), sampling.row_time) {
                least = ((row_time / took) as u32).clamp(1, least.max(1));
            }
            spent += took;
            let threads = &self.group().threads;
            let ours = threads.iter().filter_map(|thread| lengths.get(*thread));
            let lengths: Vec<f64> = ours.map(|[_, length]| *length).collect();
            samples.push(last(&lengths));
            let (classes, by_thread) =
                self.times_of_classes(sequence, f64::from(times), classes, &calls_us)?;
            passes.push(Pass { lengths, classes, by_thread });
            self.report_share([0.0, 1.0], passes.len(), least, spent / passes.len() as f64)?;
            if self.rule(least).decide(&samples, spent) != Decision::Continue {
                return Ok(passes);
            }
        }
    }

    /// Every rank thread's two figures.
    fn lengths(&mut self, mine: [f64; 2]) -> Result<Vec<[f64; 2]>, RunError> {
        let mine: Vec<u8> = mine.iter().flat_map(|value| value.to_le_bytes()).collect();
        let all = self.world.allgather(&mine, self.deadline())?;
        let figure = |bytes: &[u8], place: usize| {
            bytes.as_chunks().0.get(place).map_or(f64::NAN, |raw| f64::from_le_bytes(*raw))
        };
        Ok(all.iter().map(|bytes| [figure(bytes, 0), figure(bytes, 1)]).collect())
    }

    /// What the calls of each class took in a pass, microseconds of once through the sequence: of all ranks together, and on
    /// each rank thread.
    fn times_of_classes(
        &mut self,
        sequence: &[(usize, f64)],
        times: f64,
        classes: &[Class],
        mine: &[f32],
    ) -> Result<(Vec<f64>, Vec<Vec<f64>>), RunError> {
        let threads = self.group().threads.clone();
        let mut together = vec![0.0; classes.len()];
        let mut by_thread = vec![vec![0.0; classes.len()]; threads.len()];
        let mut made = sequence.iter().cycle();
        for block in mine.chunks(BLOCK) {
            let bytes: Vec<u8> = block.iter().flat_map(|us| us.to_le_bytes()).collect();
            let all = self.world.allgather(&bytes, self.deadline())?;
            let us = |thread: usize, call: usize| -> f64 {
                let raw = all.get(thread).and_then(|bytes| bytes.as_chunks().0.get(call));
                raw.map_or(f64::NAN, |raw| f64::from(f32::from_le_bytes(*raw)))
            };
            for (call, (class, _)) in (0..block.len()).zip(&mut made) {
                let each: Vec<f64> = threads.iter().map(|thread| us(*thread, call)).collect();
                if let (Some(sum), Some(class)) = (together.get_mut(*class), classes.get(*class)) {
                    let all_wait = waits_for_all(class.case.collective);
                    let of_one = |threads: &Vec<usize>| {
                        let each: Vec<f64> = threads.iter().map(|one| us(*one, call)).collect();
                        of_call(&each, all_wait)
                    };
                    // The job goes on when the slowest of its communicators has.
                    *sum += class.communicators.iter().map(of_one).fold(f64::NAN, f64::max) / times;
                }
                for (sums, us) in by_thread.iter_mut().zip(&each) {
                    if let Some(sum) = sums.get_mut(*class) {
                        *sum += us / times;
                    }
                }
            }
        }
        Ok((together, by_thread))
    }

    /// One pass, so many times through the sequence: its seconds, and the microseconds of each call.
    fn pass(
        &mut self,
        sequence: &[(usize, f64)],
        times: u32,
        classes: &[Class],
    ) -> Result<(f64, Vec<f32>), RunError> {
        let slowdown = self.slowdown(None, 1);
        let patience = self.plan.timeout_s.map(Duration::from_secs);
        let all = sequence.len() * times as usize;
        let mut calls_us = Vec::with_capacity(all);
        // As in a batch: who slept in the first barrier wakes late, and the second is short.
        self.world.barrier(self.deadline())?;
        self.enter(Phase::Timed);
        self.world.barrier(self.deadline())?;
        let begun = Instant::now();
        let mut start = begun;
        // A cost model's calls take no time of the clock: when the last one began and ended, by their own times.
        let (mut began, mut ended) = (0.0_f64, 0.0_f64);
        for (class, gap_us) in std::iter::repeat_n(sequence, times as usize).flatten() {
            let Some(Class { case, partition, .. }) = classes.get(*class) else { continue };
            wait_until(start + Duration::from_secs_f64(gap_us * 1e-6));
            start = Instant::now();
            let number = calls_us.len() as u64;
            let seconds = self.on(*partition, |session| {
                let mut prepared = session.backend.prepare(case);
                prepared.start();
                run_operation(prepared.as_mut(), operation(number), slowdown)?;
                let deadline = patience.map(|patience| Instant::now() + patience);
                let seconds = prepared.finish(deadline)?;
                if calls_us.len() + 1 == all {
                    prepared.quiesce()?;
                }
                Ok(seconds)
            })?;
            began = (began + gap_us * 1e-6).max(ended);
            ended = began + seconds;
            calls_us.push((seconds * 1e6) as f32);
        }
        Ok((begun.elapsed().as_secs_f64().max(ended), calls_us))
    }
}

/// Whether no rank can complete a call before all have begun it.
fn waits_for_all(collective: Collective) -> bool {
    !collective.rooted() && !matches!(collective, Collective::SendRecv | Collective::HyperCube)
}

/// The time of a call of which each rank has one. Where all wait for the last one to begin, it is that one's, the shortest:
/// the others waited. Else it is the longest.
fn of_call(each: &[f64], all_wait: bool) -> f64 {
    let first = each.first().copied().unwrap_or(f64::NAN);
    each.iter().copied().fold(first, if all_wait { f64::min } else { f64::max })
}

/// Sleeps for most of the time, and looks at the clock for the rest.
fn wait_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if let Some(asleep) = left.checked_sub(AWAKE).filter(|time| !time.is_zero()) {
        std::thread::sleep(asleep);
    }
    while Instant::now() < due {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_begins_last_waits_for_nobody() {
        assert_eq!(of_call(&[30.0, 10.0, 20.0], true), 10.0);
        assert_eq!(of_call(&[30.0, 10.0, 20.0], false), 30.0);
        assert!(of_call(&[], true).is_nan());
        assert!(waits_for_all(Collective::AllReduce) && waits_for_all(Collective::AllToAll));
        assert!(!waits_for_all(Collective::Broadcast) && !waits_for_all(Collective::SendRecv));
    }

    #[test]
    fn a_gap_is_waited_for() {
        let due = Instant::now() + Duration::from_millis(3);
        wait_until(due);
        assert!(Instant::now() >= due);
        wait_until(due);
    }
}
