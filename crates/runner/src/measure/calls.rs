//! A job's own calls: passes over their sequence, each call begun when the job began it, or when the one before is complete.
//! Not reading them (`busbw_logs::trace`), and not rows of one collective (`row`).

use std::time::{Duration, Instant};

use busbw_core::{
    Benchmark, Collective, DataType,
    bandwidth::bandwidth,
    fault::Phase,
    plan::{Calls, Case, Placement},
    record::{Figures, Half, Row},
};
use busbw_stats::{Decision, StoppingRule, median, summarise};

use super::{Report, RunError, Session, batch::run_operation, checks::WrongElements};
use crate::backend::{CaseFacts, Operation, finish_all};

/// A gap is slept but for this much of its end: a sleep ends late by some 50 us (the kernel's timer slack).
const AWAKE: Duration = Duration::from_micros(200);
/// A pass is no shorter than this, or a sample is mostly the entering barrier: a short sequence is gone through again.
const MIN_PASS: Duration = Duration::from_millis(2);
/// The most calls of a pass that goes through a short sequence several times.
const MAX_REPEATED: u32 = 1 << 16;
/// Calls whose times are exchanged at once: 16 KiB from each rank thread.
const BLOCK: usize = 4096;

/// One class of calls.
struct Class {
    case: Case,
    /// Why it does not run.
    waived: Option<String>,
    wrong: Option<WrongElements>,
    facts: CaseFacts,
}

/// One pass, of our communicator; of once through the sequence.
struct Pass {
    /// Seconds from the first call's start to the last one's end, of each rank thread.
    lengths: Vec<f64>,
    /// Microseconds of all calls of each class together.
    classes: Vec<f64>,
    /// The same as each rank thread measured it.
    by_thread: Vec<Vec<f64>>,
}

impl Session<'_> {
    /// Measures the plan's sequence of calls: a row for all of them, then a row for each class.
    pub(super) fn run_calls(&mut self) -> Result<(), RunError> {
        let Some(calls) = &self.plan.calls else { return Ok(()) };
        if self.world.rank() == 0 {
            self.report(Report::Progress { index: 0, bytes: calls.bytes() })?;
        }
        let mut classes = self.classes(calls)?;
        let ready = |class: &Class| class.waived.is_none();
        let cases: Vec<Case> = classes.iter().filter(|c| ready(c)).map(|c| c.case).collect();
        if !cases.is_empty() {
            self.settle_calls(&cases)?;
            self.tuning_pass(cases)?;
        }
        for (number, class) in classes.iter_mut().enumerate().filter(|(_, class)| ready(class)) {
            self.index = number as u64 + 1;
            self.prove_class(class)?;
        }
        self.index = 0;
        let sequence = kept(calls, |class| classes.get(class).is_some_and(ready));
        let passes = match sequence.is_empty() {
            true => Vec::new(),
            false => self.passes(&sequence, &classes)?,
        };
        self.report_calls(calls, &classes, &sequence, &passes)
    }

    /// The classes: what the backend does not support is waived.
    fn classes(&mut self, calls: &Calls) -> Result<Vec<Class>, RunError> {
        let ranks = self.group().ranks.len();
        let mut classes = Vec::new();
        for class in &calls.classes {
            let case = self.plan.case_of(class, ranks);
            let waived = self.why_not(&case)?;
            let facts = CaseFacts::default();
            classes.push(Class { case, waived, wrong: None, facts });
        }
        Ok(classes)
    }

    /// Untimed operations of each class.
    fn settle_calls(&mut self, cases: &[Case]) -> Result<(), RunError> {
        self.enter(Phase::Warmup);
        for case in cases {
            let deadline = self.deadline();
            let mut prepared = self.backend.prepare(case);
            for iteration in 0..u64::from(self.plan.warmup) {
                prepared.enqueue(operation(iteration))?;
            }
            finish_all(prepared.as_mut(), deadline)?;
        }
        Ok(())
    }

    /// Verifies a class, by itself.
    fn prove_class(&mut self, class: &mut Class) -> Result<(), RunError> {
        class.facts = self.backend.prepare(&class.case).facts();
        let can = class.case.collective.moves_data() && self.backend.is_verifiable(&class.case);
        if self.plan.check > 0 && can {
            let mut wrong = WrongElements::default();
            let placement = Placement::OutOfPlace;
            self.check(&class.case, placement, self.seed(placement), &mut wrong)?;
            class.wrong = Some(wrong);
        }
        Ok(())
    }

    /// Passes until the stopping rule ends them.
    fn passes(
        &mut self,
        sequence: &[(usize, f64)],
        classes: &[Class],
    ) -> Result<Vec<Pass>, RunError> {
        let sampling = self.plan.sampling;
        let limit = sampling.row_time.unwrap_or(f64::INFINITY).min(sampling.max_time.max(0.0));
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
            if passes.is_empty() && sampling.row_time.is_some() {
                least = ((limit / took) as u32).clamp(1, least.max(1));
            }
            spent += took;
            let threads = &self.group().threads;
            let ours = threads.iter().filter_map(|thread| lengths.get(*thread));
            let lengths: Vec<f64> = ours.map(|[_, length]| *length).collect();
            samples.push(self.plan.average.of(&lengths));
            let (classes, by_thread) =
                self.times_of_classes(sequence, f64::from(times), classes, &calls_us)?;
            passes.push(Pass { lengths, classes, by_thread });
            if self.world.rank() == 0 {
                let share = (passes.len() as f64 / f64::from(least)).min(1.0);
                self.report(Report::Within { share })?;
            }
            let rule = StoppingRule {
                min_batches: least as usize,
                precision: sampling.precision,
                max_time_seconds: Some(limit),
            };
            if rule.decide(&samples, spent) != Decision::Continue {
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
                let all_wait =
                    classes.get(*class).is_some_and(|c| waits_for_all(c.case.collective));
                if let Some(sum) = together.get_mut(*class) {
                    *sum += of_call(&each, all_wait) / times;
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
            let Some(case) = classes.get(*class).map(|class| &class.case) else { continue };
            wait_until(start + Duration::from_secs_f64(gap_us * 1e-6));
            start = Instant::now();
            let mut prepared = self.backend.prepare(case);
            prepared.start();
            run_operation(prepared.as_mut(), operation(calls_us.len() as u64), slowdown)?;
            let deadline = patience.map(|patience| Instant::now() + patience);
            let seconds = prepared.finish(deadline)?;
            began = (began + gap_us * 1e-6).max(ended);
            ended = began + seconds;
            calls_us.push((seconds * 1e6) as f32);
            if calls_us.len() == all {
                prepared.quiesce()?;
            }
        }
        Ok((begun.elapsed().as_secs_f64().max(ended), calls_us))
    }

    /// The row of all calls, then those of the classes.
    fn report_calls(
        &mut self,
        calls: &Calls,
        classes: &[Class],
        sequence: &[(usize, f64)],
        passes: &[Pass],
    ) -> Result<(), RunError> {
        let rows = self.rows_of_calls(calls, classes, sequence, passes);
        for (index, row) in rows.into_iter().enumerate() {
            self.index = index as u64;
            self.report_row(Row { index: self.index, ..row })?;
        }
        Ok(())
    }

    fn rows_of_calls(
        &self,
        calls: &Calls,
        classes: &[Class],
        sequence: &[(usize, f64)],
        passes: &[Pass],
    ) -> Vec<Row> {
        let Some(first) = classes.first() else { return Vec::new() };
        let whole = (!passes.is_empty()).then(|| {
            let batches_us: Vec<Vec<f64>> =
                passes.iter().map(|pass| pass.lengths.iter().map(|s| s * 1e6).collect()).collect();
            let samples = batches_us.iter().map(|batch| self.plan.average.of(batch)).collect();
            half(samples, batches_us)
        });
        let mut rows = vec![Row {
            benchmark: Benchmark::Replay,
            size: calls.bytes(),
            count: sequence.len() as u64,
            datatype: DataType::Int8,
            redop: String::new(),
            root: -1,
            variant: None,
            waived: whole
                .is_none()
                .then(|| "no call can be run here: see the rows below".to_owned()),
            out_of_place: whole,
            ..self.empty_row(&first.case, 0)
        }];
        for (number, class) in classes.iter().enumerate() {
            let (element, ranks) = (class.case.sweep.datatype.bytes(), self.group().ranks.len());
            let calls = sequence.iter().filter(|(of, _)| *of == number).count() as u64;
            let measured = class.waived.is_none().then(|| {
                let each = 1.0 / calls.max(1) as f64;
                let of = |sums: &Vec<f64>| sums.get(number).map_or(f64::NAN, |us| us * each);
                let samples = passes.iter().map(|pass| of(&pass.classes)).collect();
                let batches = passes.iter().map(|pass| pass.by_thread.iter().map(of).collect());
                let half = half(samples, batches.collect());
                let us = half.figures.time_us.unwrap_or(f64::NAN);
                let bw =
                    bandwidth(class.case.collective, &class.case.counts, element, ranks, us * 1e-6);
                let wrong = class.wrong.as_ref();
                Half {
                    figures: Figures {
                        algorithm: class.facts.algorithm.clone(),
                        algbw: Some(bw.algbw),
                        busbw: Some(bw.busbw),
                        wrong: wrong.map(|found| found.wrong),
                        ..half.figures
                    },
                    predicted_us: class.facts.predicted_us,
                    failed_checks: wrong.map_or(0, |found| found.failed_checks),
                    wrong_places: wrong.map_or(Vec::new(), |found| found.places.clone()),
                    ..half
                }
            });
            let empty = self.empty_row(&class.case, 0);
            rows.push(Row { out_of_place: measured, waived: class.waived.clone(), ..empty });
        }
        rows
    }
}

/// The figures of all calls, or of one of a class: microseconds of each pass, and of each on every rank thread.
fn half(samples: Vec<f64>, batches_us: Vec<Vec<f64>>) -> Half {
    Half {
        figures: Figures { time_us: median(&samples), ..Figures::default() },
        summary: summarise(&samples),
        batches_us,
        ..Half::default()
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

/// An operation whose result is not verified.
fn operation(iteration: u64) -> Operation {
    Operation { placement: Placement::OutOfPlace, iteration, verified: false }
}

/// The calls that run; the gap of one that does not is part of the next one's.
fn kept(calls: &Calls, runs: impl Fn(usize) -> bool) -> Vec<(usize, f64)> {
    let (mut kept, mut before) = (Vec::new(), 0.0);
    for (class, gap) in &calls.sequence {
        before += gap;
        if runs(*class) {
            kept.push((*class, std::mem::take(&mut before)));
        }
    }
    kept
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
    fn the_gap_of_a_call_that_does_not_run_is_kept() {
        let calls =
            Calls { sequence: vec![(0, 0.0), (1, 10.0), (0, 5.0), (1, 1.0)], ..Calls::default() };
        assert_eq!(kept(&calls, |class| class == 0), [(0, 0.0), (0, 15.0)]);
        assert_eq!(kept(&calls, |class| class == 1), [(1, 10.0), (1, 6.0)]);
        assert_eq!(kept(&calls, |_| false), []);
    }

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
