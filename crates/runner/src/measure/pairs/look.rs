//! Runs a schedule: the pairs of a round at once, in one direction, then in the other, each timed.
//! Not the verdict (`pairs`).

use busbw_core::{
    fault::Phase,
    messages::Messages,
    pairs::schedule::Schedule,
    pattern::derive_seed,
    plan::Sweep,
    record::{Figures, Half, MessageFigures, PairFigure},
};
use busbw_stats::{median, summarise};

use super::pace::Pace;
use crate::measure::{
    RunError, Session,
    checks::WrongElements,
    messages::{End, Task},
    samples::Samples,
};

/// The shortest time of a message, in microseconds, for a clock that did not advance.
const MIN_MESSAGE_US: f64 = 1e-3;

/// One look: the times of every ordered pair of a schedule, in each pass.
pub(super) struct Look {
    /// Sender and receiver.
    pairs: Vec<[usize; 2]>,
    /// The time of one message of each pair in each pass, in microseconds.
    passes: Vec<Vec<f64>>,
    /// Every iteration of every pair.
    samples: Samples,
}

impl Look {
    /// Every pair with its samples, in microseconds.
    pub(super) fn samples(&self) -> impl Iterator<Item = ([usize; 2], Vec<f64>)> + '_ {
        self.pairs.iter().enumerate().map(|(at, pair)| {
            (*pair, self.passes.iter().filter_map(|pass| pass.get(at).copied()).collect())
        })
    }

    /// As the record holds it, where the pace `asked` was lowered to `pace`; an iteration's time is divided by `messages`.
    pub(super) fn half(&self, messages: u64, bytes: usize, pace: Pace, asked: Pace) -> Half {
        let figure = |([from, to], times): ([usize; 2], Vec<f64>)| PairFigure {
            from,
            to,
            time_us: median(&times).unwrap_or(f64::NAN),
        };
        let of_pass = |pass: &Vec<f64>| median(pass).unwrap_or(f64::NAN);
        let passes: Vec<f64> = self.passes.iter().map(of_pass).collect();
        let time_us = median(&passes).unwrap_or(f64::NAN);
        Half {
            figures: Figures {
                time_us: Some(time_us),
                algbw: Some(bytes as f64 / time_us / 1e3),
                ..Figures::default()
            },
            summary: summarise(&passes),
            batches_us: self.passes.clone(),
            fewer_iterations: (pace != asked).then_some(pace.iterations),
            messages: Some(MessageFigures {
                window: pace.window,
                rate: 1e6 / time_us,
                spread: self.samples.spread(messages),
                percentiles: Vec::new(),
                pairs: self.samples().map(figure).collect(),
            }),
            ..Half::default()
        }
    }
}

/// The pairs of a round; the first rank of each begins.
fn directed(round: &[[usize; 2]], turned: bool) -> impl Iterator<Item = [usize; 2]> + '_ {
    round.iter().map(move |[a, b]| if turned { [*b, *a] } else { [*a, *b] })
}

/// Every ordered pair in the order in which they are measured.
fn in_order(schedule: &Schedule) -> Vec<[usize; 2]> {
    let ways = |round| directed(round, false).chain(directed(round, true));
    schedule.rounds.iter().flat_map(|round| ways(round.as_slice())).collect()
}

impl Session<'_> {
    /// Tuning pass: one message of every pair while the backend captures the library's log.
    pub(super) fn tuning_pass_of_pairs(
        &mut self,
        test: Messages,
        sweep: Sweep,
        schedule: &Schedule,
    ) -> Result<(), RunError> {
        self.enter(Phase::Warmup);
        self.world.barrier(self.deadline())?;
        if !self.backend.begin_log_capture() {
            return Ok(());
        }
        for round in &schedule.rounds {
            for turned in [false, true] {
                let task = self.pair_task(test, sweep, round, turned, Pace::ONE);
                self.world.barrier(self.deadline())?;
                self.time_messages(&task)?;
            }
        }
        self.end_log_capture()
    }

    /// Sends one message of every pair in each direction, with fresh data and every byte compared
    /// if checks are on, then one timed message. Returns the seconds of the slowest. `number` and
    /// `seed` are those of the check.
    pub(super) fn prove_pairs(
        &mut self,
        test: Messages,
        sweep: Sweep,
        schedule: &Schedule,
        (number, seed): (u64, u64),
        wrong_elements: &mut WrongElements,
    ) -> Result<f64, RunError> {
        let (mut slowest, mut found) = (0.0_f64, Vec::new());
        let checked = self.plan.check > 0;
        for (at, round) in schedule.rounds.iter().enumerate() {
            for turned in [false, true] {
                let task = self.pair_task(test, sweep, round, turned, Pace::ONE);
                let seed = derive_seed(seed, 2 * at as u64 + u64::from(turned));
                if checked {
                    self.fill_messages(&task, seed, 1)?;
                }
                self.world.barrier(self.deadline())?;
                self.enter(Phase::Verify);
                self.time_messages(&task)?;
                if checked {
                    found.extend(self.verify_messages(&task, seed, 1, Phase::Verify)?);
                }
                self.world.barrier(self.deadline())?;
                let taken = self.time_messages(&task)?;
                if task.paired {
                    slowest = taken.iter().map(|t| t.as_secs_f64()).fold(slowest, f64::max);
                }
            }
        }
        self.collect(&found, &format!("check {number}"), wrong_elements)?;
        let all = self.world.allgather(&slowest.to_le_bytes(), self.deadline())?;
        let all = all.iter().flat_map(|bytes| bytes.as_chunks().0);
        Ok(all.map(|raw| f64::from_le_bytes(*raw)).fold(0.0, f64::max))
    }

    /// Runs a schedule `passes` times.
    pub(super) fn look(
        &mut self,
        test: Messages,
        sweep: Sweep,
        schedule: &Schedule,
        passes: usize,
        pace: Pace,
    ) -> Result<Look, RunError> {
        let (mut mine, mut samples) = (Vec::new(), Samples::new());
        for pass in 0..passes {
            self.report_pass(test, pass, passes)?;
            for round in &schedule.rounds {
                for turned in [false, true] {
                    let task = self.pair_task(test, sweep, round, turned, pace);
                    mine.extend(self.measure_pair(&task, &mut samples)?);
                }
            }
        }
        self.exchange(schedule, passes, &mine, &samples)
    }

    /// The sample of our pair, if our end begins: the median time of one message, in microseconds.
    fn measure_pair(
        &mut self,
        task: &Task,
        samples: &mut Samples,
    ) -> Result<Option<f64>, RunError> {
        self.world.barrier(self.deadline())?;
        self.enter(Phase::Timed);
        self.world.barrier(self.deadline())?;
        let times = self.time_messages(task)?;
        if !(task.paired && task.end.begins) {
            return Ok(None);
        }
        let messages = self.plan.messages_each(task.test, task.end.window) as f64;
        times.iter().for_each(|taken| samples.add(taken.as_nanos() as u64));
        let us: Vec<f64> = times.iter().map(|taken| taken.as_secs_f64() * 1e6 / messages).collect();
        Ok(median(&us).map(|us| us.max(MIN_MESSAGE_US)))
    }

    /// Exchanges all ranks' samples, in the order of the schedule.
    fn exchange(
        &mut self,
        schedule: &Schedule,
        passes: usize,
        mine: &[f64],
        samples: &Samples,
    ) -> Result<Look, RunError> {
        let bytes: Vec<u8> = mine.iter().flat_map(|us| us.to_le_bytes()).collect();
        let all = self.world.allgather(&bytes, self.deadline())?;
        let mut of_rank: Vec<_> = all
            .iter()
            .map(|bytes| bytes.as_chunks().0.iter().map(|raw| f64::from_le_bytes(*raw)))
            .collect();
        let pairs = in_order(schedule);
        let mut next = |[from, _]: &[usize; 2]| {
            of_rank.get_mut(*from).and_then(Iterator::next).unwrap_or(f64::NAN)
        };
        let passes = (0..passes).map(|_| pairs.iter().map(&mut next).collect()).collect();
        let mut together = Samples::new();
        for bytes in self.world.allgather(&samples.to_bytes(), self.deadline())? {
            together.add_bytes(&bytes);
        }
        Ok(Look { pairs, passes, samples: together })
    }

    /// Our part of a round.
    fn pair_task(
        &self,
        test: Messages,
        sweep: Sweep,
        round: &[[usize; 2]],
        turned: bool,
        pace: Pace,
    ) -> Task {
        let me = self.world.rank();
        let ours = directed(round, turned).find(|pair| pair.contains(&me));
        let [from, to] = ours.unwrap_or([me, me]);
        let (begins, peer) = (from == me, if from == me { to } else { from });
        let bytes = self.plan.bytes_of(test) as usize;
        let answer = self.plan.answer_offset();
        Task {
            test,
            sweep,
            bytes,
            end: End { peer, begins, bytes, window: pace.window, answer },
            paired: ours.is_some(),
            iterations: pace.iterations,
            warmup: pace.warmup,
        }
    }
}
