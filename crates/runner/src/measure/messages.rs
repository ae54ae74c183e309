//! Rows of messages between pairs of ranks: batches of iterations until the stopping rule ends
//! them, then the checks.
//! Not one iteration (`iteration`) and not how a channel moves messages.

mod check;
mod iteration;

use std::time::{Duration, Instant};

use busbw_core::{
    Benchmark,
    exit::Exit,
    fault::Phase,
    messages::Messages,
    pattern::derive_seed,
    plan::{Placement, Style, Sweep},
    record::{Figures, Half, MessageFigures, PairFigure, Row, SCHEMA},
};
use busbw_stats::{Decision, StoppingRule, median, summarise};

pub(super) use self::iteration::End;
use super::{Report, RunError, Session, batch::BatchTimes, samples::Samples};
use crate::backend::{Backend, BackendError, Channel, Found, Reason, Synchronized};
use crate::measure::checks::WrongElements;

/// How much longer than requested a sleep may last: the kernel's timer slack, and a margin.
const SLEEP_OVERRUN: Duration = Duration::from_micros(60);

/// Windows of messages up to this size get more warm-up: OSU's hundred windows take half a
/// millisecond, in which a processor is still slow that slept until the last row was written. OSU's
/// ranks do not sleep.
const MAX_WARMED_BYTES: usize = 8192;
/// The most additional untimed iterations of such windows.
const MAX_EXTRA_WARMUP: u32 = 1000;

/// One test at one message size.
pub(super) struct Task {
    pub(super) test: Messages,
    pub(super) sweep: Sweep,
    /// Bytes of a message.
    pub(super) bytes: usize,
    /// Our end of a pair, and whether we have a peer: a rank without one only takes part in
    /// barriers.
    pub(super) end: End,
    pub(super) paired: bool,
    /// Timed and untimed iterations of a batch.
    pub(super) iterations: u32,
    pub(super) warmup: u32,
}

impl Session<'_> {
    /// Measures every row of a test of messages.
    pub(super) fn run_messages(&mut self, test: Messages) -> Result<(), RunError> {
        let pairs = self.plan.pairs(test);
        for sweep in self.plan.sweeps() {
            let element = sweep.datatype.bytes();
            let smallest = self.plan.min_bytes as usize;
            let whole = self.backend.channel().map(drop);
            if self.waive_messages(whole, test.into(), sweep, smallest)? {
                continue;
            }
            let window = self.plan.messaging.window;
            let first = self.task(test, sweep, smallest, window, &pairs);
            self.tuning_pass_of_messages(&first)?;
            let mut cycle = 0;
            while self.plan.cycles == 0 || cycle < self.plan.cycles {
                for asked in self.plan.sizes() {
                    let bytes = asked as usize / element * element;
                    if bytes == 0 && self.plan.style == Style::Osu {
                        continue;
                    }
                    let taken = self.backend.channel().and_then(|c| c.takes(test, bytes));
                    if self.waive_messages(taken, test.into(), sweep, bytes)? {
                        continue;
                    }
                    let mut wrong = 0;
                    for window in self.plan.messaging.windows() {
                        let task = self.task(test, sweep, bytes, window, &pairs);
                        wrong += self.measure_messages(&task, &pairs, cycle)?;
                        self.index += 1;
                    }
                    if self.ends_sizes(wrong) {
                        break;
                    }
                }
                cycle += 1;
            }
        }
        Ok(())
    }

    fn task(
        &self,
        test: Messages,
        sweep: Sweep,
        bytes: usize,
        window: u32,
        pairs: &[(usize, usize)],
    ) -> Task {
        let plan = self.plan;
        let me = self.world.rank();
        let begins = pairs.iter().any(|pair| pair.0 == me);
        let peer = pairs.iter().find_map(|pair| match pair {
            (first, second) if *first == me => Some(*second),
            (first, second) if *second == me => Some(*first),
            _ => None,
        });
        let answer = plan.answer_offset();
        let (iterations, mut warmup) = plan.loops(bytes as u64);
        // A user who wants no warm-up gets none.
        if warmup > 0 && !test.is_latency() && !test.is_multiple() && bytes <= MAX_WARMED_BYTES {
            warmup += iterations.min(MAX_EXTRA_WARMUP);
        }
        Task {
            test,
            sweep,
            bytes,
            end: End { peer: peer.unwrap_or(me), begins, bytes, window, answer },
            paired: peer.is_some(),
            iterations,
            warmup,
        }
    }

    /// Tuning pass: runs one iteration while the backend captures the library's log.
    fn tuning_pass_of_messages(&mut self, task: &Task) -> Result<(), RunError> {
        self.enter(Phase::Warmup);
        self.world.barrier(self.deadline())?;
        if !self.backend.begin_log_capture() {
            return Ok(());
        }
        self.world.barrier(self.deadline())?;
        if task.paired {
            task.end.talk(task.test, channel(self.backend)?, 1)?;
        }
        channel(self.backend)?.quiesce()?;
        self.end_log_capture()
    }

    /// Whether some rank has no channel, or one that does not take these messages. If so, one row says why.
    pub(super) fn waive_messages(
        &mut self,
        taken: Result<(), Reason>,
        benchmark: Benchmark,
        sweep: Sweep,
        bytes: usize,
    ) -> Result<bool, RunError> {
        let reason = taken.err().map_or(String::new(), |reason| reason.0);
        let all = self.world.allgather(reason.as_bytes(), self.deadline())?;
        let Some(reason) = all.into_iter().find(|reason| !reason.is_empty()) else {
            return Ok(false);
        };
        let reason = Some(String::from_utf8_lossy(&reason).into_owned());
        let row = Row { waived: reason, ..self.messages_row(benchmark, sweep, bytes, 0) };
        self.report_row(row)?;
        self.index += 1;
        Ok(true)
    }

    fn measure_messages(
        &mut self,
        task: &Task,
        pairs: &[(usize, usize)],
        cycle: u64,
    ) -> Result<u64, RunError> {
        if self.world.rank() == 0 {
            let bytes = task.bytes as u64;
            self.report(Report::Progress { index: self.index, bytes })?;
        }
        let half = self.messages_half(task, pairs)?;
        let wrong = half.figures.wrong.unwrap_or(0);
        let row = self.messages_row(task.test.into(), task.sweep, task.bytes, cycle);
        self.report_row(Row { out_of_place: Some(half), ..row })?;
        Ok(wrong)
    }

    fn messages_half(&mut self, task: &Task, pairs: &[(usize, usize)]) -> Result<Half, RunError> {
        let checked = self.plan.check > 0;
        let seed = self.seed(Placement::OutOfPlace);
        let (least, iterations) = self.afford_messages(task)?;
        let wanted = task.iterations;
        // If the time does not allow all iterations, it does not allow additional warm-up either.
        let warmup = if iterations < wanted { task.warmup.min(iterations) } else { task.warmup };
        let task = &Task { iterations, warmup, ..*task };
        let begun = Instant::now();
        let (mut samples, mut batches) = (Samples::new(), Vec::new());
        let mut wrong_elements = WrongElements::default();
        let mut figures: Vec<f64> = Vec::new();
        loop {
            let fill = checked.then(|| derive_seed(seed, batches.len() as u64));
            let (mut mine, found) = self.messages_batch(task, fill, &mut samples)?;
            mine.spent = begun.elapsed().as_secs_f64();
            let all = self.world.allgather(&mine.to_bytes(), self.deadline())?;
            let all: Vec<BatchTimes> = all.iter().map(|b| BatchTimes::from_bytes(b)).collect();
            let spent = all.first().map_or(f64::INFINITY, |first| first.spent);
            let of = |rank: &usize| all.get(*rank).map_or(f64::NAN, |times| times.total * 1e6);
            let each: Vec<f64> = pairs.iter().map(|(first, _)| of(first)).collect();
            figures.push(each.iter().sum::<f64>() / each.len() as f64);
            batches.push(each);
            if let Some(found) = found {
                let name = format!("last timed iteration of batch {}", batches.len());
                self.collect(&found, &name, &mut wrong_elements)?;
            }
            let content = self.messages_rule(least).decide(&figures, spent) != Decision::Continue;
            if content || wrong_elements.wrong_anywhere > 0 {
                break;
            }
        }
        if checked && wrong_elements.wrong_anywhere == 0 {
            self.check_messages(task, seed, &mut wrong_elements)?;
        }
        let time_us = median(&figures).unwrap_or(f64::NAN);
        let messages = self.message_figures(task, pairs, time_us, &batches, &samples)?;
        let algbw = pairs.len() as f64 * task.bytes as f64 / time_us / 1e3;
        Ok(Half {
            figures: Figures {
                time_us: Some(time_us),
                algbw: Some(algbw),
                wrong: checked.then_some(wrong_elements.wrong),
                ..Figures::default()
            },
            failed_checks: wrong_elements.failed_checks,
            wrong_places: wrong_elements.places,
            summary: summarise(&figures),
            batches_us: batches,
            fewer_iterations: (iterations < wanted).then_some(iterations),
            messages: Some(messages),
            ..Half::default()
        })
    }

    /// Batches and iterations for which there is time. With a limit, one iteration is timed, and
    /// the slowest rank's time counts for all.
    fn afford_messages(&mut self, task: &Task) -> Result<(u32, u32), RunError> {
        let sampling = self.plan.sampling;
        if sampling.row_time.is_none() {
            return Ok((sampling.min_batches, task.iterations));
        }
        self.world.barrier(self.deadline())?;
        let times = self.time_messages(&Task { iterations: 1, warmup: 0, ..*task })?;
        let mine: Duration = times.iter().sum();
        let all = self.world.allgather(&mine.as_secs_f64().to_le_bytes(), self.deadline())?;
        let times = all.iter().flat_map(|bytes| bytes.as_chunks().0);
        let slowest = times.map(|raw| f64::from_le_bytes(*raw)).fold(0.0, f64::max);
        Ok(sampling.afforded(task.iterations, slowest))
    }

    fn messages_rule(&self, min_batches: u32) -> StoppingRule {
        let sampling = self.plan.sampling;
        StoppingRule {
            min_batches: min_batches as usize,
            precision: sampling.precision,
            max_time_seconds: Some(
                sampling.max_time.min(sampling.row_time.unwrap_or(f64::INFINITY)),
            ),
        }
    }

    /// Combines the samples of all ranks. Only the rank that reports a row needs the result.
    fn message_figures(
        &mut self,
        task: &Task,
        pairs: &[(usize, usize)],
        time_us: f64,
        batches: &[Vec<f64>],
        mine: &Samples,
    ) -> Result<MessageFigures, RunError> {
        let mut samples = Samples::new();
        for bytes in self.world.allgather(&mine.to_bytes(), self.deadline())? {
            samples.add_bytes(&bytes);
        }
        let messages = self.plan.messages_each(task.test, task.end.window);
        let of_pair = |(place, (from, to)): (usize, &(usize, usize))| {
            let times: Vec<f64> = batches.iter().filter_map(|b| b.get(place).copied()).collect();
            PairFigure { from: *from, to: *to, time_us: median(&times).unwrap_or(f64::NAN) }
        };
        let each: Vec<PairFigure> = pairs.iter().enumerate().map(of_pair).collect();
        let asked = &self.plan.messaging.percentiles;
        Ok(MessageFigures {
            window: task.end.window,
            // From the same time as the bandwidth (osu_mbw_mr.c: rate = 1e6 * MB/s / bytes).
            rate: pairs.len() as f64 * 1e6 / time_us,
            spread: samples.spread(messages),
            percentiles: asked
                .iter()
                .map(|percent| (*percent, samples.percentile(f64::from(*percent), messages)))
                .collect(),
            pairs: if each.len() > 1 { each } else { Vec::new() },
        })
    }

    /// Runs one batch. Returns our time of one message, and the wrong elements if they were
    /// verified.
    fn messages_batch(
        &mut self,
        task: &Task,
        fill: Option<u64>,
        samples: &mut Samples,
    ) -> Result<(BatchTimes, Option<Vec<Found>>), RunError> {
        if let Some(seed) = fill {
            self.fill_messages(task, seed, 1)?;
        }
        self.world.barrier(self.deadline())?;
        self.enter(Phase::Timed);
        self.world.barrier(self.deadline())?;
        let times = self.time_messages(task)?;
        let total = if task.end.begins {
            times.iter().for_each(|taken| samples.add(taken.as_nanos() as u64));
            let messages = f64::from(task.iterations)
                * self.plan.messages_each(task.test, task.end.window) as f64;
            times.iter().sum::<Duration>().as_secs_f64() / messages
        } else {
            f64::NAN
        };
        let found =
            fill.map(|seed| self.verify_messages(task, seed, 1, Phase::Timed)).transpose()?;
        Ok((BatchTimes { total, ..BatchTimes::default() }, found))
    }

    /// Runs the iterations of a batch. Returns the time of each timed iteration, at the end that
    /// begins.
    pub(super) fn time_messages(&mut self, task: &Task) -> Result<Vec<Duration>, RunError> {
        let (test, end, plan) = (task.test, task.end, self.plan);
        let slowdown = self.slowdown(task.paired.then_some(end.peer), test.messages(end.window));
        // All messages use one part of the buffer, which stays in the caches, as in OSU's loops.
        let apart = if plan.messaging.separate { self.apart(task) } else { 1 };
        let patience = plan.timeout_s.map(Duration::from_secs);
        let channel = channel(self.backend)?;
        if slowdown.is_none() && task.paired {
            let batch = end.batch(test, (task.iterations, task.warmup), apart);
            if let Some(times) = channel.batch(&batch) {
                return Ok(times?);
            }
        }
        // The other end reads no clock: the end that begins would wait for that, a tenth of a short
        // message's time.
        let looks = end.begins || slowdown.is_some();
        let mut times = Vec::with_capacity(task.iterations as usize);
        let mut delay = Duration::ZERO;
        for iteration in 0..task.warmup + task.iterations {
            if test.is_multiple() {
                // As in `batch::time_iterations`.
                if channel.quiesce()? == Synchronized::No {
                    self.world.barrier(patience.map(|patience| Instant::now() + patience))?;
                }
            }
            let begun = looks.then(Instant::now);
            if slowdown.is_some() {
                spin(delay);
            }
            if task.paired {
                end.talk(test, channel, apart)?;
            }
            let Some(begun) = begun else { continue };
            let taken = begun.elapsed();
            if let Some(slowdown) = slowdown {
                let seconds = taken.saturating_sub(delay).as_secs_f64();
                delay = Duration::from_secs_f64(slowdown.after(seconds));
            }
            if iteration >= task.warmup {
                times.push(taken);
            }
        }
        channel.quiesce()?;
        Ok(times)
    }

    pub(super) fn messages_row(
        &self,
        benchmark: Benchmark,
        sweep: Sweep,
        bytes: usize,
        cycle: u64,
    ) -> Row {
        Row {
            schema: SCHEMA,
            index: self.index,
            cycle,
            launch: self.launch,
            shown: self.launch + 1 == self.plan.sampling.launches,
            group: 0,
            ranks: self.plan.ranks(),
            benchmark,
            size: bytes as u64,
            count: (bytes / sweep.datatype.bytes()) as u64,
            datatype: sweep.datatype,
            redop: "none".to_owned(),
            root: -1,
            finished: busbw_store::local_time::now(),
            variant: None,
            waived: None,
            out_of_place: None,
            in_place: None,
            pairs: None,
            notes: Vec::new(),
            counters: Vec::new(),
            other_hosts: Vec::new(),
        }
    }
}

/// The backend's channel. Where it has none, the test was waived before.
pub(super) fn channel(backend: &mut dyn Backend) -> Result<&mut dyn Channel, BackendError> {
    backend
        .channel()
        .map_err(|reason| BackendError::Refused { text: reason.0, exit: Exit::Internal })
}

/// Delays by `time`: an injected fault.
fn spin(time: Duration) {
    let begun = Instant::now();
    if time > SLEEP_OVERRUN {
        // Other ranks may need the core: they must not be slowed, too.
        std::thread::sleep(time - SLEEP_OVERRUN);
    }
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}
