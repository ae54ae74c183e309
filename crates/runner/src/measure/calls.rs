//! A job's own calls: passes over their sequence, each call begun when the job began it, or when the one before is complete.
//! Not reading them (`busbw_logs::trace`), and not rows of one collective (`row`).

use std::time::{Duration, Instant};

use busbw_core::{
    Benchmark, DataType,
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
/// The most times that a pass goes through its sequence.
const MAX_TIMES: u32 = 1 << 16;

/// One class of calls.
struct Class {
    case: Case,
    /// Why it does not run.
    waived: Option<String>,
    wrong: Option<WrongElements>,
    facts: CaseFacts,
}

/// Seconds of one pass on one rank thread: the whole of it, then what the calls of each class took together.
type Pass = Vec<f64>;

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

    /// Passes until the stopping rule ends them: of each, the times of every rank thread of our communicator.
    fn passes(
        &mut self,
        sequence: &[(usize, f64)],
        classes: &[Class],
    ) -> Result<Vec<Vec<Pass>>, RunError> {
        let sampling = self.plan.sampling;
        let limit = sampling.row_time.unwrap_or(f64::INFINITY).min(sampling.max_time.max(0.0));
        let (mut passes, mut lengths, mut spent) = (Vec::new(), Vec::new(), 0.0);
        let (mut times, mut least) = (1, sampling.min_batches);
        loop {
            let begun = Instant::now();
            let mine = self.pass(sequence, times, classes)?;
            let exchanged = [&[begun.elapsed().as_secs_f64()], mine.as_slice()].concat();
            let mine: Vec<u8> = exchanged.iter().flat_map(|s| s.to_le_bytes()).collect();
            let all = self.world.allgather(&mine, self.deadline())?;
            let all: Vec<Pass> = all.iter().map(|bytes| seconds(bytes)).collect();
            // All go by what rank 0 says.
            let took = all.first().and_then(|first| first.first()).copied().unwrap_or(f64::NAN);
            if passes.is_empty() && times == 1 && took < MIN_PASS.as_secs_f64() && took > 0.0 {
                times = ((MIN_PASS.as_secs_f64() / took).ceil() as u32).clamp(2, MAX_TIMES);
                continue;
            }
            if passes.is_empty() && sampling.row_time.is_some() {
                least = ((limit / took) as u32).clamp(1, least.max(1));
            }
            spent += took;
            let ours = self.group().threads.iter().filter_map(|thread| all.get(*thread));
            let ours: Vec<Pass> =
                ours.map(|times| times.get(1..).unwrap_or_default().to_vec()).collect();
            let length: Vec<f64> = ours.iter().filter_map(|times| times.first()).copied().collect();
            lengths.push(self.plan.average.of(&length));
            passes.push(ours);
            if self.world.rank() == 0 {
                let share = (passes.len() as f64 / f64::from(least)).min(1.0);
                self.report(Report::Within { share })?;
            }
            let rule = StoppingRule {
                min_batches: least as usize,
                precision: sampling.precision,
                max_time_seconds: Some(limit),
            };
            if rule.decide(&lengths, spent) != Decision::Continue {
                return Ok(passes);
            }
        }
    }

    /// One pass, so many times through the sequence: the seconds of once.
    fn pass(
        &mut self,
        sequence: &[(usize, f64)],
        times: u32,
        classes: &[Class],
    ) -> Result<Pass, RunError> {
        // As in a batch: who slept in the first barrier wakes late, and the second is short.
        self.world.barrier(self.deadline())?;
        self.enter(Phase::Timed);
        self.world.barrier(self.deadline())?;
        let slowdown = self.slowdown(None, 1);
        let patience = self.plan.timeout_s.map(Duration::from_secs);
        let mut took = vec![0.0; classes.len()];
        let begun = Instant::now();
        let mut start = begun;
        // A cost model's calls take no time of the clock: when the last one began and ended, by their own times.
        let (mut began, mut ended) = (0.0_f64, 0.0_f64);
        let (all, mut number) = (sequence.len() as u64 * u64::from(times), 0);
        for (class, gap_us) in std::iter::repeat_n(sequence, times as usize).flatten() {
            let Some(case) = classes.get(*class).map(|class| &class.case) else { continue };
            wait_until(start + Duration::from_secs_f64(gap_us * 1e-6));
            start = Instant::now();
            let mut prepared = self.backend.prepare(case);
            prepared.start();
            run_operation(prepared.as_mut(), operation(number), slowdown)?;
            let deadline = patience.map(|patience| Instant::now() + patience);
            let seconds = prepared.finish(deadline)?;
            began = (began + gap_us * 1e-6).max(ended);
            ended = began + seconds;
            if let Some(sum) = took.get_mut(*class) {
                *sum += seconds;
            }
            number += 1;
            if number == all {
                prepared.quiesce()?;
            }
        }
        took.insert(0, begun.elapsed().as_secs_f64().max(ended));
        took.iter_mut().for_each(|seconds| *seconds /= f64::from(times));
        Ok(took)
    }

    /// The row of all calls, then those of the classes.
    fn report_calls(
        &mut self,
        calls: &Calls,
        classes: &[Class],
        sequence: &[(usize, f64)],
        passes: &[Vec<Pass>],
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
        passes: &[Vec<Pass>],
    ) -> Vec<Row> {
        let Some(first) = classes.first() else { return Vec::new() };
        let half = |place: usize, calls: u64| self.half_of_calls(passes, place, calls);
        let whole = (!passes.is_empty()).then(|| half(0, 1));
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
                let half = half(number + 1, calls);
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

    /// The figures of what stands at `place` of each pass, of one of so many calls.
    fn half_of_calls(&self, passes: &[Vec<Pass>], place: usize, calls: u64) -> Half {
        let each = 1e6 / calls.max(1) as f64;
        let of = |times: &Pass| times.get(place).map_or(f64::NAN, |seconds| seconds * each);
        let batches_us: Vec<Vec<f64>> =
            passes.iter().map(|pass| pass.iter().map(of).collect()).collect();
        let samples: Vec<f64> =
            batches_us.iter().map(|batch| self.plan.average.of(batch)).collect();
        Half {
            figures: Figures { time_us: median(&samples), ..Figures::default() },
            summary: summarise(&samples),
            batches_us,
            ..Half::default()
        }
    }
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

fn seconds(bytes: &[u8]) -> Pass {
    bytes.as_chunks().0.iter().map(|raw| f64::from_le_bytes(*raw)).collect()
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
    fn a_gap_is_waited_for() {
        let due = Instant::now() + Duration::from_millis(3);
        wait_until(due);
        assert!(Instant::now() >= due);
        wait_until(due);
    }
}
