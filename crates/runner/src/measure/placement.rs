//! One placement of a row: batches until the stopping rule ends them, then the checks.
//! Not one batch (`batch`) and not the row (`row`).

use std::{collections::BTreeMap, time::Instant};

use busbw_core::{
    bandwidth::bandwidth,
    pattern::derive_seed,
    plan::{Case, Placement, Style},
    record::{Figures, Half, IterationReport},
};
use busbw_stats::{Decision, StoppingRule, median, summarise};

use super::{
    Report, RunError, Session, batch::BatchTimes, checks::WrongElements, samples::Samples,
};
use crate::backend::{CaseFacts, Operation, finish_all};

/// The most operations that are timed to learn how long one takes, if `PROBES_PER_ROW` of them fit
/// into a row's time.
const MAX_PROBES: u32 = 3;
/// Batches that take at least this number of seconds are reported as they end.
const MIN_REPORTED_BATCH_S: f64 = 0.25;
/// The time of a check over that of a batch, roughly: it fills and verifies, and runs one operation.
const CHECK_PER_BATCH: f64 = 0.5;
/// See `MAX_PROBES`.
const PROBES_PER_ROW: f64 = 40.0;

/// What was taken so far for one half of a row.
struct HalfTaken<'c> {
    case: &'c Case,
    /// The row's.
    index: u64,
    checked: bool,
    seed: u64,
    facts: CaseFacts,
    /// Iterations of a batch: those of the plan, and those for which there is time; untimed ones.
    wanted: u32,
    iterations: u32,
    warmup: u32,
    /// The least number of batches.
    least: u32,
    /// The time of every iteration, where each is timed alone.
    apart: Samples,
    /// Seconds of the batches so far.
    spent: f64,
    wrong_elements: WrongElements,
    /// The figure of each batch, by communicator.
    samples: Vec<Vec<f64>>,
    /// Of our communicator: times of enqueueing, every rank's times, processes and iterations of the last batch.
    enqueued: Vec<f64>,
    batches: Vec<Vec<f64>>,
    last: Vec<(usize, Vec<f64>)>,
    /// Whether the stopping rule has ended it.
    content: bool,
}

impl Session<'_> {
    /// Measures one placement of each case, which is the part of their rows between these two shares of its work: a batch
    /// of each in turns, so that what drifts meanwhile concerns all of them alike. Each comes with its place among the
    /// variants, which follow each other as rows.
    pub(super) fn measure_halves(
        &mut self,
        cases: &[(usize, Case)],
        placement: Placement,
        part: [f64; 2],
    ) -> Result<Vec<Half>, RunError> {
        let first = self.index;
        let mut halves = Vec::new();
        for (place, case) in cases {
            self.index = first + *place as u64;
            halves.push(self.begin_half(case, placement)?);
        }
        while halves.iter().any(|half| !half.content) {
            for half in halves.iter_mut().filter(|half| !half.content) {
                self.index = half.index;
                self.take_batch(half, placement, part)?;
            }
        }
        let mut measured = Vec::new();
        for half in halves {
            self.index = half.index;
            measured.push(self.end_half(half, placement)?);
        }
        self.index = first;
        Ok(measured)
    }

    /// What is known before the first batch.
    fn begin_half<'c>(
        &mut self,
        case: &'c Case,
        placement: Placement,
    ) -> Result<HalfTaken<'c>, RunError> {
        let checked = self.plan.check > 0
            && case.collective.moves_data()
            && self.backend.is_verifiable(case)
            && (placement == Placement::OutOfPlace || case.collective.in_place_is_valid());
        let facts = self.backend.prepare(case).facts();
        let (wanted, warmup) = self.loops(case);
        let (least, iterations) = self.afford(case, placement, wanted)?;
        Ok(HalfTaken {
            case,
            index: self.index,
            checked,
            seed: self.seed(placement),
            facts,
            wanted,
            least,
            iterations,
            warmup,
            apart: Samples::new(),
            spent: 0.0,
            wrong_elements: WrongElements::default(),
            samples: vec![Vec::new(); self.groups.len()],
            enqueued: Vec::new(),
            batches: Vec::new(),
            last: Vec::new(),
            content: false,
        })
    }

    /// One batch more.
    fn take_batch(
        &mut self,
        half: &mut HalfTaken<'_>,
        placement: Placement,
        part: [f64; 2],
    ) -> Result<(), RunError> {
        let begun = Instant::now();
        (self.iterations, self.warmup) = (half.iterations, half.warmup);
        std::mem::swap(&mut self.apart, &mut half.apart);
        let fill = (half.checked && self.proves(half.case, placement))
            .then(|| derive_seed(half.seed, half.batches.len() as u64));
        let (mut mine, found) = self.run_batch(half.case, placement, fill)?;
        std::mem::swap(&mut self.apart, &mut half.apart);
        mine.spent = half.spent + begun.elapsed().as_secs_f64();
        let all = self.world.allgather(&mine.to_bytes(), self.deadline())?;
        let all: Vec<BatchTimes> = all.iter().map(|b| BatchTimes::from_bytes(b)).collect();
        let spent = all.first().map_or(f64::INFINITY, |first| first.spent);
        for (group, samples) in self.groups.iter().zip(&mut half.samples) {
            samples.push(self.plan.average.of(&pick(&all, &group.threads, |t| t.total)));
        }
        let ours = &self.group().threads;
        half.enqueued.push(self.plan.average.of(&pick(&all, ours, |t| t.enqueue)));
        half.batches.push(pick(&all, ours, |t| t.total));
        half.last = ours
            .iter()
            .filter_map(|d| Some((self.plan.process(*d), all.get(*d)?.iterations.clone())))
            .collect();
        let batches = half.batches.len();
        self.report_share(part, batches, half.least, spent / batches as f64)?;
        if let Some(found) = found {
            let name = format!("last timed iteration of batch {batches}");
            self.collect(&found, &name, &mut half.wrong_elements)?;
        }
        let rule = self.rule(half.least);
        let is_enough = half.samples.iter().all(|s| rule.decide(s, spent) != Decision::Continue);
        half.content = is_enough || half.wrong_elements.wrong_anywhere > 0;
        half.spent += begun.elapsed().as_secs_f64();
        Ok(())
    }

    /// The checks, and the figures.
    fn end_half(&mut self, half: HalfTaken<'_>, placement: Placement) -> Result<Half, RunError> {
        let HalfTaken { case, checked, facts, wanted, iterations, batches, .. } = half;
        (self.iterations, self.warmup) = (iterations, half.warmup);
        let mut wrong_elements = half.wrong_elements;
        if checked && wrong_elements.wrong_anywhere == 0 {
            self.check(case, placement, half.seed, &mut wrong_elements)?;
        }
        let latency = match self.plan.latency {
            true => Some(self.latency_figures(&batches, &half.apart)?),
            false => None,
        };
        let samples = &half.samples[self.ours];
        let time_us = median(samples).unwrap_or(f64::NAN);
        let ranks = self.group().ranks.len();
        let element = case.sweep.datatype.bytes();
        let bw = bandwidth(case.collective, &case.counts, element, ranks, time_us * 1e-6);
        Ok(Half {
            figures: Figures {
                algorithm: facts.algorithm,
                time_us: Some(time_us),
                algbw: Some(bw.algbw),
                busbw: Some(bw.busbw),
                wrong: checked.then_some(wrong_elements.wrong),
                ..Figures::default()
            },
            predicted_us: facts.predicted_us,
            cpu_time_us: median(&half.enqueued),
            failed_checks: wrong_elements.failed_checks,
            wrong_places: wrong_elements.places,
            summary: summarise(samples),
            batches_us: batches,
            fewer_iterations: (iterations < wanted).then_some(iterations),
            iterations: self
                .plan
                .per_iteration
                .then(|| iteration_report(&half.last, self.plan.per_iteration_skip)),
            latency,
            ..Half::default()
        })
    }

    /// Reports how much of a row is done after some batches of a placement. A report disturbs no short batch.
    pub(super) fn report_share(
        &mut self,
        [from, to]: [f64; 2],
        batches: usize,
        least: u32,
        seconds: f64,
    ) -> Result<(), RunError> {
        if self.world.rank() != 0 || seconds < MIN_REPORTED_BATCH_S {
            return Ok(());
        }
        let all = f64::from(least) + CHECK_PER_BATCH * f64::from(self.plan.checks(self.iterations));
        let done = (batches as f64 / all).min(1.0);
        self.report(Report::Within { share: from + (to - from) * done })
    }

    /// Whether the result of a batch is known. A graph in place that is launched again reduces its
    /// own earlier result.
    fn proves(&self, case: &Case, placement: Placement) -> bool {
        let again = self.plan.graph > 1 && placement == Placement::InPlace;
        !(again && case.collective.reduces())
    }

    pub(super) fn rule(&self, min_batches: u32) -> StoppingRule {
        let sampling = self.plan.sampling;
        let half = sampling.row_time.map_or(f64::INFINITY, |row| row / 2.0);
        StoppingRule {
            min_batches: min_batches as usize,
            precision: sampling.precision,
            max_time_seconds: Some(sampling.max_time.min(half)),
        }
    }

    /// Batches and iterations for which there is time. With a limit, one operation is timed, and
    /// the slowest rank thread's time counts for all. A first operation may be slow: if it would
    /// cost iterations and another probe is cheap, more are timed.
    fn afford(
        &mut self,
        case: &Case,
        placement: Placement,
        wanted: u32,
    ) -> Result<(u32, u32), RunError> {
        let plan = self.plan;
        let Some(row_time) = plan.sampling.row_time else {
            return Ok((plan.sampling.min_batches, wanted));
        };
        let (mut afforded, mut fastest) = ((1, 1), f64::INFINITY);
        for _ in 0..MAX_PROBES {
            fastest = self.probe(case, placement)?.min(fastest);
            let operations = f64::from(plan.aggregated) * f64::from(plan.graph.max(1));
            afforded = plan.sampling.afforded(wanted, fastest * operations);
            let is_cheap = fastest * PROBES_PER_ROW < row_time;
            if afforded == (plan.sampling.min_batches, wanted) || !is_cheap {
                break;
            }
        }
        Ok(afforded)
    }

    /// Iterations of a batch of a case: timed and untimed ones.
    fn loops(&self, case: &Case) -> (u32, u32) {
        let (element, ranks) = (case.sweep.datatype.bytes(), self.group().ranks.len());
        self.plan.loops(match self.plan.style {
            Style::Osu => case.collective.message_bytes(case.counts.param as u64, element, ranks),
            Style::Busbw | Style::NcclTests => case.counts.bytes(element) as u64,
        })
    }

    /// Seconds of one operation on the slowest rank thread.
    fn probe(&mut self, case: &Case, placement: Placement) -> Result<f64, RunError> {
        self.world.barrier(self.deadline())?;
        let deadline = self.deadline();
        let mut prepared = self.backend.prepare(case);
        prepared.start();
        prepared.enqueue(Operation { placement, iteration: 0, verified: false })?;
        let mine = finish_all(prepared.as_mut(), deadline)?;
        drop(prepared);
        let all = self.world.allgather(&mine.to_le_bytes(), self.deadline())?;
        let times = all.iter().flat_map(|bytes| bytes.as_chunks().0);
        Ok(times.map(|raw| f64::from_le_bytes(*raw)).fold(0.0, f64::max))
    }

    /// The seed of this row and placement; the seeds of batches and checks derive from it.
    pub(super) fn seed(&self, placement: Placement) -> u64 {
        // Each communicator has its own seed, so that another communicator's data is wrong data.
        let group = self.group().ranks.first().map_or(0, |rank| *rank as u64);
        let launch = derive_seed(self.plan.seed, u64::from(self.launch) << 32 | group);
        let half = 2 * self.index + u64::from(placement == Placement::InPlace);
        derive_seed(launch, half)
    }
}

/// One figure of the given rank threads' times of a batch, in microseconds.
fn pick(all: &[BatchTimes], threads: &[usize], figure: impl Fn(&BatchTimes) -> f64) -> Vec<f64> {
    threads.iter().filter_map(|d| all.get(*d)).map(|times| figure(times) * 1e6).collect()
}

/// The slowest rank of every process at every iteration, and the slowest process (nccl-tests
/// src/common.cu:367-440). `ranks` holds the process and the times of each rank.
fn iteration_report(ranks: &[(usize, Vec<f64>)], skip: u32) -> IterationReport {
    let mut processes: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (process, seconds) in ranks {
        let slowest = processes.entry(*process).or_default();
        slowest.resize(slowest.len().max(seconds.len()), f64::NAN);
        slowest.iter_mut().zip(seconds).for_each(|(slow, s)| *slow = slow.max(s * 1e6));
    }
    let us: Vec<Vec<f64>> = processes.into_values().collect();
    let count = us.iter().map(Vec::len).max().unwrap_or(0);
    let times_us = (0..count)
        .map(|at| us.iter().filter_map(|t| t.get(at)).copied().fold(f64::NAN, f64::max))
        .collect();
    let per_process_us = if us.len() > 1 { us } else { Vec::new() };
    IterationReport { skipped: skip as usize, times_us, per_process_us }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_process_share_its_times() {
        let ranks = [[1.0, 2.0], [3.0, 0.0], [2.0, 1.0], [0.0, 4.0]];
        let of = |processes: usize| {
            let ranks: Vec<(usize, Vec<f64>)> = ranks
                .iter()
                .enumerate()
                .map(|(rank, times)| (rank % processes, times.iter().map(|t| t * 1e-6).collect()))
                .collect();
            iteration_report(&ranks, 1)
        };
        assert_eq!(of(1).times_us, [3.0, 4.0]);
        assert_eq!(of(1).per_process_us, Vec::<Vec<f64>>::new());
        assert_eq!(of(2).times_us, [3.0, 4.0]);
        assert_eq!(of(2).per_process_us, [[2.0, 2.0], [3.0, 4.0]]);
    }
}
