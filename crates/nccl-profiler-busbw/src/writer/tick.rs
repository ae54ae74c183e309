//! What the writer does each time: takes out calls that ended, and writes lines.
//! Not its thread and its orders (`writer`).

use std::{
    collections::HashMap,
    io,
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

use busbw_watch_file as lines;
use busbw_watch_file::Line;

use super::{
    collected::{self, Collected},
    core_wait::CoreWait,
    file::Output,
    nanoseconds,
    settled::{Seen, Verdict},
};
use crate::{
    communicators::Communicator,
    memory::{Memory, flag},
    slots::{Recorded, SLOTS, State},
};

/// A call that is under way for so long is written as open.
const STANDS: Duration = Duration::from_secs(2);
/// Open calls of one flush, the oldest first.
const MOST_OPEN: usize = 16;
/// Calls whose lines are written before the second is over.
const MUCH: usize = 65_536;
/// How far before the first time of a GPU times of GPUs begin to count, since another GPU's or channel's may be earlier.
const BEFORE_FIRST: u64 = 1_000_000_000;
/// A call cannot last longer on the GPU than since it was asked for; this much more is the two clocks' difference and the
/// time between the kernel's launch and NCCL's event, which comes after it.
const CLOCK_SLACK: u64 = 1_000_000_000;

/// What the writer knows of a slot's call from earlier ticks.
#[derive(Debug, Clone, Copy, Default)]
struct Waiting {
    state: Option<State>,
    changed: u64,
    passed: Option<u64>,
}

/// What the writer knows of a communicator.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// Its line is written.
    said: bool,
    /// When the newest call was asked for that ended on the GPU.
    newest_ended: Option<u64>,
    /// When it was seen to have ended.
    closed: Option<u64>,
}

/// A call and what is known of it.
struct Standing {
    index: u16,
    state: State,
    recorded: Recorded,
    seen: Seen,
}

/// The writer.
#[derive(Debug)]
pub(super) struct Writer {
    memory: &'static Memory,
    output: Output,
    waiting: Box<[Waiting]>,
    progress: HashMap<u32, Progress>,
    collected: Collected,
    gpu_origin: Option<u64>,
    core_wait: CoreWait,
    late: u64,
    /// Communicators that were looked at.
    introduced: usize,
    /// Until when steps are written.
    steps_until: u64,
}

impl Writer {
    /// Before the first tick.
    pub fn new(memory: &'static Memory, output: Output) -> Self {
        let mut core_wait = CoreWait::default();
        let _ = core_wait.since();
        Self {
            memory,
            output,
            waiting: vec![Waiting::default(); SLOTS].into_boxed_slice(),
            progress: HashMap::new(),
            collected: Collected::default(),
            gpu_origin: None,
            core_wait,
            late: 0,
            introduced: 0,
            steps_until: memory.now(),
        }
    }

    /// The thread woke so much after its time.
    pub fn woke_late(&mut self, by: Duration) {
        self.late = self.late.max(by.as_nanos() as u64);
    }

    /// Another time round; a period of timing may begin with it.
    pub fn tick(&self, period_begins: bool) {
        self.memory.timing.tick(period_begins, self.memory.now());
        for one in self.memory.communicators.all().filter(|one| !one.ended()) {
            let _ = one.has_kernel_times();
        }
    }

    /// Whether lines should be written now.
    pub fn much(&self) -> bool {
        self.collected.fresh() >= MUCH
    }

    /// Writes the line of a communicator with the first tick: of a process that dies within its first second it says who it was.
    ///
    /// # Errors
    /// As of [`Writer::flush`].
    pub fn introduce(&mut self) -> io::Result<()> {
        if self.memory.communicators.begun() == self.introduced {
            return Ok(());
        }
        self.communicator_lines();
        self.write()
    }

    /// Takes out the calls that ended.
    pub fn collect(&mut self) {
        let now = self.memory.now();
        let standing = self.standing(now);
        let mut ended: Vec<(Verdict, Standing)> = standing
            .into_iter()
            .map(|one| (one.seen.verdict(), one))
            .filter(|(verdict, _)| *verdict != Verdict::Wait)
            .collect();
        ended.sort_by_key(|(_, one)| one.recorded.call.enqueued);
        for (verdict, one) in ended {
            // An event that came meanwhile is looked at with the next tick.
            if !self.memory.slots.free(one.index, one.state) {
                continue;
            }
            self.waiting[usize::from(one.index)] = Waiting::default();
            if verdict != Verdict::Lost {
                self.ended(&one, verdict == Verdict::Timed, now);
            }
        }
    }

    /// All calls under way.
    fn standing(&mut self, now: u64) -> Vec<Standing> {
        let taken: Vec<(u16, State)> = self.memory.slots.taken().collect();
        let little_room = taken.len() > SLOTS / 2;
        let mut standing = Vec::with_capacity(taken.len());
        for (index, state) in taken {
            let recorded = self.memory.slots.read(index);
            let head = recorded.call.class[0];
            let progress = self.progress.entry((head >> 48) as u32).or_default();
            if progress.closed.is_none()
                && self
                    .memory
                    .communicators
                    .get((head >> 48) as u32)
                    .is_some_and(Communicator::ended)
            {
                progress.closed = Some(now);
            }
            let waiting = &mut self.waiting[usize::from(index)];
            if waiting.state != Some(state) {
                let same = waiting.state.is_some_and(|old| old.generation() == state.generation());
                let passed = waiting.passed.filter(|_| same);
                *waiting = Waiting { state: Some(state), changed: now, passed };
            }
            if progress.newest_ended.is_some_and(|newest| newest > recorded.call.enqueued) {
                waiting.passed.get_or_insert(now);
            }
            let since = |then: u64| Duration::from_nanos(now.saturating_sub(then));
            let flags = head >> 40 & 0xff;
            let seen = Seen {
                stopped: state.stopped(),
                kernel: flags & flag::KERNEL != 0,
                perhaps_kernel: flags & flag::PERHAPS_KERNEL != 0,
                message: flags & flag::PEER != 0,
                channels: (head >> 32 & 0xff) as u32,
                started: state.started(),
                ended: state.ended(),
                quiet: since(waiting.changed),
                passed: waiting.passed.map(since),
                closed: progress.closed.map(since),
                in_the_way: little_room && progress.newest_ended.is_none(),
            };
            standing.push(Standing { index, state, recorded, seen });
        }
        standing
    }

    /// A call ended.
    fn ended(&mut self, one: &Standing, timed: bool, now: u64) {
        let Recorded { call, first_start, last_stop } = one.recorded;
        let number = (call.class[0] >> 48) as u32;
        if one.seen.ended > 0 {
            let newest = &mut self.progress.entry(number).or_default().newest_ended;
            *newest = Some(newest.map_or(call.enqueued, |newest| newest.max(call.enqueued)));
        }
        let longest = now.saturating_sub(call.enqueued).saturating_add(CLOCK_SLACK);
        let duration = last_stop
            .checked_sub(first_start)
            .filter(|took| timed && first_start > 0 && *took <= longest);
        let started = duration.and_then(|_| self.since_origin(first_start));
        let ended =
            lines::Call { sequence: call.sequence, enqueued: call.enqueued, started, duration };
        self.collected.add(call.class, self.ranks(number), ended);
    }

    fn ranks(&self, number: u32) -> u32 {
        self.memory.communicators.get(number).map_or(0, |one| one.told.ranks)
    }

    /// A time of the GPU, counted from where the file says. None: a clock of another GPU is behind that.
    fn since_origin(&mut self, time: u64) -> Option<u64> {
        let origin = match self.gpu_origin {
            Some(origin) => origin,
            None => {
                let origin = time.saturating_sub(BEFORE_FIRST).max(1);
                self.gpu_origin = Some(origin);
                self.output.gpu_origin(origin);
                origin
            }
        };
        time.checked_sub(origin)
    }

    /// Writes what there is. A file that is large enough is put aside.
    ///
    /// # Errors
    /// The system's; the last line then says so, if there is room for it.
    pub fn flush(&mut self) -> io::Result<()> {
        let now = self.memory.now();
        self.communicator_lines();
        self.call_lines()?;
        self.clock_lines(now);
        self.step_lines(now);
        self.open_lines(now);
        let beat = lines::Heartbeat {
            at: now,
            clock: nanoseconds(SystemTime::now()),
            late: std::mem::take(&mut self.late),
            core_wait: self.core_wait.since(),
            dropped_calls: self.memory.dropped_calls.load(Ordering::Relaxed),
            dropped_steps: self.memory.dropped_steps.load(Ordering::Relaxed),
            mask: self.memory.communicators.all().find(|one| !one.ended()).map(Communicator::mask),
        };
        self.output.line(&Line::Heartbeat(beat));
        self.write()
    }

    /// Writes what there is, and the totals.
    ///
    /// # Errors
    /// As of [`Writer::flush`].
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.totals();
        self.write()
    }

    /// Writes all, and the last line.
    ///
    /// # Errors
    /// As of [`Writer::flush`].
    pub fn end(&mut self) -> io::Result<()> {
        self.finish()?;
        let why = match self.memory.communicators.live() {
            0 => "finished".to_owned(),
            1 => "the process ended with a communicator that it had not ended".to_owned(),
            more => format!("the process ended with {more} communicators that it had not ended"),
        };
        self.output.last(lines::End { at: self.memory.now(), why });
        Ok(())
    }

    fn totals(&mut self) {
        let (output, now) = (&mut self.output, self.memory.now());
        self.collected.totals(now, |line| output.line(&line));
    }

    fn write(&mut self) -> io::Result<()> {
        let written = self.output.write().and_then(|()| {
            if !self.output.full() {
                return Ok(());
            }
            self.totals();
            self.output.write()?;
            self.output.replace()?;
            self.progress.values_mut().for_each(|one| one.said = false);
            self.communicator_lines();
            self.output.write()
        });
        written.inspect_err(|why| {
            let end =
                lines::End { at: self.memory.now(), why: format!("cannot write: {}", bare(why)) };
            self.output.last(end);
        })
    }

    /// Lines of communicators that have none in this file.
    fn communicator_lines(&mut self) {
        let mut introduced = 0;
        for one in self.memory.communicators.all() {
            introduced += 1;
            let progress = self.progress.entry(one.number).or_default();
            // v2 and v3 say the rank with the first call.
            let Ok(rank) = u32::try_from(one.rank.load(Ordering::Relaxed)) else { continue };
            if progress.said {
                continue;
            }
            progress.said = true;
            let (id, name) = match one.said.get() {
                Some((id, name)) => (id.clone(), name.clone()),
                None => (one.told.id.clone(), one.told.name.clone()),
            };
            self.output.line(&Line::Communicator(lines::Communicator {
                number: one.number,
                id,
                name,
                nodes: one.told.nodes,
                ranks: one.told.ranks,
                rank,
                at: one.at,
            }));
        }
        self.introduced = introduced;
    }

    /// Lines of calls; written in parts, so that memory stays bounded.
    fn call_lines(&mut self) -> io::Result<()> {
        let mut all = Vec::new();
        let memory = self.memory;
        let ranks = |number| memory.communicators.get(number).map_or(0, |one| one.told.ranks);
        self.collected.lines(ranks, |line| all.push(line));
        for line in all {
            self.output.line(&line);
            if self.output.much() {
                self.write()?;
            }
        }
        Ok(())
    }

    /// Lines of GPUs' clocks. Before a call is written that has a time of the GPU there is no origin to count from.
    fn clock_lines(&mut self, now: u64) {
        let Some(origin) = self.gpu_origin else { return };
        for one in self.memory.communicators.all() {
            if let Some(least) = one.gpu_clock.take() {
                let ahead = least.wrapping_add(origin as i64);
                let clock = lines::GpuClock { communicator: one.number, at: now, ahead };
                self.output.line(&Line::Clock(clock));
            }
        }
    }

    /// Lines of the network's steps since the last time.
    fn step_lines(&mut self, now: u64) {
        for one in self.memory.communicators.all() {
            for (place, sums) in one.all_sums().iter().enumerate() {
                let taken = sums.take();
                if taken.steps == 0 {
                    continue;
                }
                let [gpu, peer_wait, wire, flush] = taken.waits;
                self.output.line(&Line::Steps(lines::Steps {
                    communicator: one.number,
                    peer: place as u32 / 2,
                    send: place % 2 == 1,
                    from: self.steps_until,
                    to: now,
                    steps: taken.steps,
                    bytes: taken.bytes,
                    gpu,
                    peer_wait,
                    wire,
                    flush,
                }));
            }
        }
        self.steps_until = now;
    }

    /// Lines of calls that have been under way for long.
    fn open_lines(&mut self, now: u64) {
        let mut open = self.standing(now);
        open.retain(|one| {
            one.seen.stands()
                && one.seen.verdict() == Verdict::Wait
                && now.saturating_sub(one.recorded.call.enqueued) >= STANDS.as_nanos() as u64
        });
        open.sort_by_key(|one| one.recorded.call.enqueued);
        for one in open.into_iter().take(MOST_OPEN) {
            let call = one.recorded.call;
            let ranks = self.ranks((call.class[0] >> 48) as u32);
            self.output.line(&Line::Open(lines::OpenCall {
                class: collected::class(&call.class, ranks),
                sequence: call.sequence,
                enqueued: call.enqueued,
                at: now,
                channels_started: one.seen.started,
                channels_ended: one.seen.ended,
            }));
        }
    }
}

/// The system's reason without its number.
fn bare(why: &io::Error) -> String {
    let text = why.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
