//! A job's own calls: each class of them is verified, then the sequence is run, and there is a row for all and for each class.
//! Not reading them (`busbw_logs::trace`), and not running the sequence (`passes`).

mod passes;

use busbw_core::{
    Benchmark, DataType,
    bandwidth::bandwidth,
    exit::Exit,
    fault::Phase,
    plan::{CallClass, Calls, Case, Partition, Placement, Plan},
    record::{Figures, Half, Row},
};
use busbw_stats::{median, summarise};

use self::passes::Pass;
use super::{Report, RunError, Session, checks::WrongElements};
use crate::backend::{BackendError, CaseFacts, Operation, finish_all};

/// One class of calls.
struct Class {
    case: Case,
    partition: Option<Partition>,
    /// The rank threads of each communicator that makes the calls.
    communicators: Vec<Vec<usize>>,
    /// Why it does not run.
    waived: Option<String>,
    wrong: Option<WrongElements>,
    facts: CaseFacts,
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
        let partitions = self.plan.partitions().into_iter().map(Some);
        for partition in std::iter::once(None).chain(partitions) {
            let of = |class: &&Class| ready(class) && class.partition == partition;
            let cases: Vec<Case> = classes.iter().filter(of).map(|class| class.case).collect();
            if !cases.is_empty() {
                self.on(partition, |session| {
                    session.settle_calls(&cases)?;
                    session.tuning_pass(cases)
                })?;
            }
        }
        for (number, class) in classes.iter_mut().enumerate().filter(|(_, class)| ready(class)) {
            self.index = number as u64 + 1;
            self.on(class.partition, |session| session.prove_class(class))?;
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
        let mut classes = Vec::new();
        for class in &calls.classes {
            let CallClass { partition, .. } = *class;
            let case = self.plan.case_of(class);
            let waived = self.on(partition, |session| session.why_not(&case))?;
            let communicators = communicators(self.plan, partition);
            let facts = CaseFacts::default();
            classes.push(Class { case, partition, communicators, waived, wrong: None, facts });
        }
        Ok(classes)
    }

    /// Does something on the communicators of a partition, or on the one of all ranks. Wrong elements are all ranks' in any case.
    fn on<T>(
        &mut self,
        partition: Option<Partition>,
        run: impl FnOnce(&mut Self) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let Some(partition) = partition else { return run(self) };
        let place = self.partitions.iter().position(|(of, _)| *of == partition);
        let Some(place) = place else {
            let text = format!("this backend has no communicators of {partition} ranks");
            return Err(BackendError::Refused { text, exit: Exit::Internal }.into());
        };
        std::mem::swap(&mut self.backend, &mut self.partitions[place].1);
        let outcome = run(self);
        std::mem::swap(&mut self.backend, &mut self.partitions[place].1);
        outcome
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
            let samples = batches_us.iter().map(|batch| last(batch)).collect();
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
            let element = class.case.sweep.datatype.bytes();
            let ranks = class.partition.map_or(self.group().ranks.len(), |of| of.ranks);
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
            rows.push(Row { ranks, out_of_place: measured, waived: class.waived.clone(), ..empty });
        }
        rows
    }
}

/// The rank threads of each communicator of a partition; of all ranks without one.
fn communicators(plan: &Plan, partition: Option<Partition>) -> Vec<Vec<usize>> {
    let groups = match partition {
        Some(partition) => plan.of_partition(partition).groups(),
        None => plan.groups(),
    };
    let threads = |ranks: Vec<usize>| {
        let mut threads: Vec<usize> = ranks.iter().map(|rank| plan.rank_thread(*rank)).collect();
        threads.dedup();
        threads
    };
    groups.into_iter().map(threads).collect()
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

/// The time of a pass of which each rank thread has one: to the end of the last one. Communicators of some of the ranks need not
/// end together.
fn last(each: &[f64]) -> f64 {
    each.iter().copied().fold(f64::NAN, f64::max)
}

/// An operation whose result is not verified.
fn operation(iteration: u64) -> Operation {
    Operation { placement: Placement::OutOfPlace, iteration, verified: false }
}

/// The calls that run; the gap of one that does not is part of the next one's. Nothing is waited for before the first.
fn kept(calls: &Calls, runs: impl Fn(usize) -> bool) -> Vec<(usize, f64)> {
    let (mut kept, mut before) = (Vec::new(), 0.0);
    for (class, gap) in &calls.sequence {
        before += gap;
        if runs(*class) {
            let gap = std::mem::take(&mut before);
            kept.push((*class, if kept.is_empty() { 0.0 } else { gap }));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_of_a_call_that_does_not_run_is_kept() {
        let calls =
            Calls { sequence: vec![(0, 0.0), (1, 10.0), (0, 5.0), (1, 1.0)], ..Calls::default() };
        assert_eq!(kept(&calls, |class| class == 0), [(0, 0.0), (0, 15.0)]);
        assert_eq!(kept(&calls, |class| class == 1), [(1, 0.0), (1, 6.0)]);
        assert_eq!(kept(&calls, |_| false), []);
    }
}
