//! Measuring a plan on one driver: warm-up, batches, checks, rows. Every driver runs this alike, with
//! the same decisions, since all of them see the same exchanged times.
//! Not printing and not recording: rows go to the supervisor as data.

mod batch;
mod clock;
mod half;
mod latency;
mod messages;
mod pairs;
mod report;
mod row;
mod samples;

pub use clock::measure_clock;
pub use report::{Failure, Report};

use std::time::{Duration, Instant};

use busbw_core::{
    Benchmark, Collective,
    fault::{Action, Phase},
    plan::{Case, Place, Plan, Style},
};
use busbw_job::world::{World, WorldError};
use thiserror::Error;

use self::samples::Samples;
use crate::backend::{Backend, BackendError, Operation, finish_all};

/// Sizes of a sweep about which the library is asked: a sweep by small steps has thousands.
const SURVEYED: usize = 256;

/// Why a rank could not go on measuring.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// The other ranks, or the way to them.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The backend.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// One driver's measurement. The world is that of drivers: its rank is this driver's number.
pub struct Session<'a> {
    plan: &'a Plan,
    world: &'a mut dyn World,
    backend: &'a mut dyn Backend,
    /// Every communicator. All go on sampling until the last is content: they share barriers.
    groups: Vec<Group>,
    /// Which of them is ours.
    ours: usize,
    launch: u32,
    /// Told where we are, for whoever must say where we were lost.
    watch: Box<dyn Fn(Phase, u64) + 'a>,
    /// Rows begun so far.
    index: u64,
    /// Timed iterations of each batch of the placement under way, and untimed ones before it.
    iterations: u32,
    warmup: u32,
    /// Every iteration of the placement under way, where each is timed alone.
    apart: Samples,
}

/// A communicator.
struct Group {
    /// World ranks.
    ranks: Vec<usize>,
    /// Who drives them.
    drivers: Vec<usize>,
}

impl<'a> Session<'a> {
    /// A session of `launch`; `watch` hears of every phase and row.
    pub fn new(
        plan: &'a Plan,
        world: &'a mut dyn World,
        backend: &'a mut dyn Backend,
        launch: u32,
        watch: Box<dyn Fn(Phase, u64) + 'a>,
    ) -> Session<'a> {
        let group = |ranks: Vec<usize>| {
            let mut drivers: Vec<usize> = ranks.iter().map(|rank| plan.driver(*rank)).collect();
            drivers.dedup();
            Group { ranks, drivers }
        };
        let groups: Vec<Group> = plan.groups().into_iter().map(group).collect();
        let ours = groups.iter().position(|g| g.drivers.contains(&world.rank())).unwrap_or(0);
        Session {
            plan,
            world,
            backend,
            groups,
            ours,
            launch,
            watch,
            index: 0,
            iterations: plan.iterations,
            warmup: plan.warmup,
            apart: Samples::new(),
        }
    }

    /// Measures every row of the plan.
    ///
    /// # Errors
    /// [`MeasureError`]; rows reported before stay reported.
    pub fn run(&mut self) -> Result<(), MeasureError> {
        self.enter(Phase::Start);
        if let Some(table) = self.backend.warm(self.world)? {
            self.report_measured(table)?;
        }
        if self.plan.timeout_s.is_some() && self.groups.len() > 1 {
            // One communicator may have to be measured while another is known: none is late for that.
            self.world.barrier(None)?;
        }
        match self.plan.benchmark {
            Benchmark::Collective(collective) => self.run_collective(collective)?,
            Benchmark::Messages(test) => self.run_messages(test)?,
            Benchmark::Pairs => self.run_pairs()?,
        }
        self.tell_library()?;
        self.enter(Phase::End);
        self.world.barrier(self.deadline())?;
        Ok(())
    }

    fn run_collective(&mut self, collective: Collective) -> Result<(), MeasureError> {
        let case = |session: &Self, sweep, bytes| {
            session.plan.case(collective, sweep, bytes, session.group().ranks.len())
        };
        for sweep in self.plan.sweeps() {
            let first = case(self, sweep, self.plan.min_bytes);
            if self.waive(&first, 0)? {
                continue;
            }
            if !self.plan.latency {
                // Otherwise every batch has its own.
                self.warm_up(|session, bytes| case(session, sweep, bytes))?;
            }
            self.survey(|session, bytes| case(session, sweep, bytes))?;
            let mut cycle = 0;
            while self.plan.cycles == 0 || cycle < self.plan.cycles {
                for bytes in self.plan.sizes() {
                    let case = case(self, sweep, bytes);
                    if self.moves_nothing(&case)
                        || self.is_large(bytes) && self.waive(&case, cycle)?
                    {
                        continue;
                    }
                    let wrong = self.measure_row(&case, cycle)?;
                    self.index += 1;
                    if self.ends_sizes(wrong) {
                        break;
                    }
                }
                cycle += 1;
            }
        }
        Ok(())
    }

    /// Whether a size is too small for an element, which OSU leaves out.
    fn moves_nothing(&self, case: &Case) -> bool {
        let empty = case.counts.param == 0 && case.collective != Collective::Barrier;
        self.plan.style == Style::Osu && empty
    }

    /// Whether so many wrong elements end a sweep over sizes, as they do under OSU's names.
    fn ends_sizes(&self, wrong: u64) -> bool {
        self.plan.style == Style::Osu && wrong > 0
    }

    /// Whether a size is beyond what many a library counts, so that it may be impossible where others are not. All
    /// ranks say the same, in groups of whatever size: they ask each other then.
    fn is_large(&self, bytes: u64) -> bool {
        bytes.saturating_mul(self.plan.ranks() as u64) > i32::MAX as u64
    }

    /// Whether some communicator cannot run this case: one row then says why, and all skip it.
    fn waive(&mut self, case: &Case, cycle: u64) -> Result<bool, MeasureError> {
        let Some(reason) = self.why_not(case)? else { return Ok(false) };
        self.report_waived(case, cycle, reason)?;
        self.index += 1;
        Ok(true)
    }

    /// Why some communicator cannot run this case, if one cannot: all know, since they share barriers.
    fn why_not(&mut self, case: &Case) -> Result<Option<String>, MeasureError> {
        let reason = self.backend.supported(case).err().map_or(String::new(), |r| r.0);
        let all = self.world.allgather(reason.as_bytes(), self.deadline())?;
        let reason = all.into_iter().find(|r| !r.is_empty());
        Ok(reason.map(|reason| String::from_utf8_lossy(&reason).into_owned()))
    }

    /// Untimed operations for doubling sizes, out of place (nccl-tests src/common.cu:925).
    fn warm_up(&mut self, case: impl Fn(&Self, u64) -> Case) -> Result<(), MeasureError> {
        self.enter(Phase::Warmup);
        for bytes in self.plan.warmup_sizes() {
            let case = case(self, bytes);
            if self.is_large(bytes) && self.why_not(&case)?.is_some() {
                continue;
            }
            let deadline = self.deadline();
            let mut prepared = self.backend.prepare(&case);
            for iteration in 0..u64::from(self.plan.warmup) {
                let operation = Operation { place: Place::OutOfPlace, iteration, proof: false };
                prepared.enqueue(operation)?;
            }
            finish_all(prepared.as_mut(), deadline)?;
        }
        Ok(())
    }

    /// Runs every size once while the backend listens to what its library says about it.
    fn survey(&mut self, case: impl Fn(&Self, u64) -> Case) -> Result<(), MeasureError> {
        self.world.barrier(self.deadline())?;
        if !self.backend.listen(true) {
            return Ok(());
        }
        let place = Place::OutOfPlace;
        for bytes in self.plan.sizes().take(SURVEYED) {
            let case = case(self, bytes);
            self.world.barrier(self.deadline())?;
            let deadline = self.deadline();
            let mut prepared = self.backend.prepare(&case);
            prepared.enqueue(Operation { place, iteration: 0, proof: false })?;
            finish_all(prepared.as_mut(), deadline)?;
            drop(prepared);
            self.world.barrier(self.deadline())?;
            self.backend.overhear(&case)?;
        }
        self.end_listening()
    }

    /// Ends finding out how cases run, and tells what libraries said.
    fn end_listening(&mut self) -> Result<(), MeasureError> {
        self.world.barrier(self.deadline())?;
        self.backend.listen(false);
        self.tell_library()
    }

    /// Tells what a library said of itself, if that is new.
    fn tell_library(&mut self) -> Result<(), MeasureError> {
        match self.backend.library() {
            Some(said) => self.report(&Report::Library(said)),
            None => Ok(()),
        }
    }

    /// Our communicator.
    fn group(&self) -> &Group {
        &self.groups[self.ours]
    }

    /// Whether we speak for our communicator: its first rank is ours.
    fn leads(&self) -> bool {
        self.group().drivers.first() == Some(&self.world.rank())
    }

    /// Whether one of our ranks is `rank`.
    fn holds(&self, rank: usize) -> bool {
        self.plan.driver(rank) == self.world.rank()
    }

    /// When a wait that starts now gives up.
    fn deadline(&self) -> Option<Instant> {
        self.plan.timeout_s.map(|seconds| Instant::now() + Duration::from_secs(seconds))
    }

    /// Notes the phase, and breaks what is to be broken in it.
    fn enter(&self, phase: Phase) {
        (self.watch)(phase, self.index);
        let Some(fault) = self.plan.fault else { return };
        if !(self.holds(fault.rank) && fault.strikes(fault.rank, phase, self.index)) {
            return;
        }
        let (signal, pause) = match fault.action {
            Action::Kill => (rustix::process::Signal::KILL, Duration::MAX),
            Action::Stop => (rustix::process::Signal::STOP, Duration::from_millis(500)),
            Action::Corrupt(_) | Action::Slow(_) | Action::Late(_) => return,
        };
        // Our own process: it cannot be refused. But the signal may find another thread first, and
        // this one must not get beyond the place where it breaks.
        let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
        std::thread::sleep(pause);
    }

    /// The rank and the element to corrupt now, if any.
    fn corruption(&self, phase: Phase) -> Option<(usize, u64)> {
        let fault = self.plan.fault?;
        match fault.action {
            Action::Corrupt(element)
                if self.holds(fault.rank) && fault.strikes(fault.rank, phase, self.index) =>
            {
                Some((fault.rank, element))
            }
            _ => None,
        }
    }

    /// By how much our iterations are slowed, if they are, of so many operations or messages each; with one
    /// peer alone where the fault says so.
    fn slowdown(&self, peer: Option<usize>, each: u64) -> Option<Slowdown> {
        let fault = self.plan.fault?;
        let meant = self.holds(fault.rank) && (fault.peer.is_none() || fault.peer == peer);
        match fault.action {
            Action::Slow(factor) if meant => Some(Slowdown::Times(factor)),
            Action::Late(us) if meant => Some(Slowdown::By(us / 1e6 * each as f64)),
            _ => None,
        }
    }
}

/// By how much operations are slowed on purpose.
#[derive(Debug, Clone, Copy)]
enum Slowdown {
    /// To so many times their time.
    Times(f64),
    /// By so many seconds each.
    By(f64),
}

impl Slowdown {
    /// Seconds to be added to an iteration that took so many.
    fn after(self, seconds: f64) -> f64 {
        match self {
            Slowdown::Times(factor) => seconds * (factor - 1.0),
            Slowdown::By(delay) => delay,
        }
    }
}
