//! Measures a plan on one rank thread: warm-up, batches, checks, rows. Every rank thread runs this
//! alike and takes the same decisions, because all of them see the same exchanged times.
//! Not printing and not recording: rows go to the supervisor as data.

mod batch;
mod calls;
mod checks;
mod clock;
mod latency;
mod messages;
mod pairs;
mod placement;
mod report;
mod row;
mod samples;
mod variants;

pub use clock::measure_clock;
pub use report::{Failure, Report};

use std::time::{Duration, Instant};

use busbw_core::{
    Benchmark, Collective,
    fault::{Action, Phase},
    plan::{Case, Partition, Placement, Plan, Style},
};
use busbw_job::world::World;

use self::{samples::Samples, variants::Tried};
use crate::backend::{Backend, Operation, RunError, finish_all};

/// The most sizes of a sweep whose tuning choice is recorded: a sweep by small steps has thousands.
const MAX_TUNING_SIZES: usize = 256;

/// The measurement of one rank thread. The ranks of its world are rank threads: `world.rank()` is
/// the number of this thread.
pub struct Session<'a> {
    plan: &'a Plan,
    world: &'a mut dyn World,
    backend: &'a mut dyn Backend,
    /// Backends whose communicators are those of a partition of the ranks, for a job's own calls.
    partitions: Vec<(Partition, &'a mut dyn Backend)>,
    /// Every communicator. All go on sampling until the last one's stopping rule ends it: they
    /// share barriers.
    groups: Vec<Group>,
    /// The index of our communicator.
    ours: usize,
    launch: u32,
    /// Receives every phase and row, so that the supervisor can say where a lost rank was.
    watch: Box<dyn Fn(Phase, u64) + 'a>,
    /// Rows begun so far.
    index: u64,
    /// Timed iterations of each batch of the current placement, and untimed ones before it.
    iterations: u32,
    warmup: u32,
    /// The time of every iteration of the current placement, where each is timed alone.
    apart: Samples,
    /// Variants that the library declined, with the reason, or honoured.
    tried: Tried,
}

/// A communicator.
struct Group {
    /// World ranks.
    ranks: Vec<usize>,
    /// The rank threads that hold them.
    threads: Vec<usize>,
}

impl<'a> Session<'a> {
    /// A session of launch `launch`; `watch` is called with every phase and row.
    pub fn new(
        plan: &'a Plan,
        world: &'a mut dyn World,
        backend: &'a mut dyn Backend,
        launch: u32,
        watch: Box<dyn Fn(Phase, u64) + 'a>,
    ) -> Session<'a> {
        let group = |ranks: Vec<usize>| {
            let mut threads: Vec<usize> =
                ranks.iter().map(|rank| plan.rank_thread(*rank)).collect();
            threads.dedup();
            Group { ranks, threads }
        };
        let groups: Vec<Group> = plan.groups().into_iter().map(group).collect();
        let ours = groups.iter().position(|g| g.threads.contains(&world.rank())).unwrap_or(0);
        Session {
            plan,
            world,
            backend,
            partitions: Vec::new(),
            groups,
            ours,
            launch,
            watch,
            index: 0,
            iterations: plan.iterations,
            warmup: plan.warmup,
            apart: Samples::new(),
            tried: Tried::default(),
        }
    }

    /// The same with a backend for each partition of the ranks that the plan's calls need.
    pub fn with_partitions(self, partitions: Vec<(Partition, &'a mut dyn Backend)>) -> Session<'a> {
        Session { partitions, ..self }
    }

    /// Measures every row of the plan.
    ///
    /// # Errors
    /// A backend call fails, or a rank does not arrive in time. Rows that were reported before stay
    /// reported.
    pub fn run(&mut self) -> Result<(), RunError> {
        self.enter(Phase::Start);
        for table in self.backend.init(self.world)? {
            self.report_measured(table)?;
        }
        for (_, backend) in &mut self.partitions {
            backend.init(self.world)?;
        }
        if self.plan.timeout_s.is_some() && self.groups.len() > 1 {
            // Another communicator may still measure its algorithm table, which takes longer than
            // the deadline: this barrier has none.
            self.world.barrier(None)?;
        }
        if self.backend.is_known_at_once() {
            self.report_library()?;
        }
        match self.plan.benchmark {
            Benchmark::Collective(collective) => self.run_collective(collective)?,
            Benchmark::Messages(test) => self.run_messages(test)?,
            Benchmark::Pairs => self.run_pairs()?,
            Benchmark::Replay => self.run_calls()?,
        }
        self.report_library()?;
        self.enter(Phase::End);
        self.world.barrier(self.deadline())?;
        Ok(())
    }

    fn run_collective(&mut self, collective: Collective) -> Result<(), RunError> {
        let case = |session: &Self, sweep, bytes| {
            session.plan.case(collective, sweep, bytes, session.group().ranks.len())
        };
        for sweep in self.plan.sweeps() {
            let first = case(self, sweep, self.plan.min_bytes);
            if self.waive(&first, 0)? {
                continue;
            }
            if !self.plan.latency {
                // With `latency` every batch has its own warm-up.
                self.warm_up(|session, bytes| case(session, sweep, bytes))?;
            }
            let sizes = self.plan.sizes().take(MAX_TUNING_SIZES);
            let cases = sizes.map(|bytes| case(self, sweep, bytes)).collect();
            self.tuning_pass(cases)?;
            let mut cycle = 0;
            while self.plan.cycles == 0 || cycle < self.plan.cycles {
                for bytes in self.plan.sizes() {
                    let case = case(self, sweep, bytes);
                    if self.moves_nothing(&case)
                        || self.is_large(bytes) && self.waive(&case, cycle)?
                    {
                        continue;
                    }
                    let wrong = self.measure_rows(&case, cycle)?;
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
        let empty = case.counts.param == 0 && case.collective.moves_data();
        self.plan.style == Style::Osu && empty
    }

    /// Whether this number of wrong elements ends a sweep over sizes, as it does under OSU's names.
    fn ends_sizes(&self, wrong: u64) -> bool {
        self.plan.style == Style::Osu && wrong > 0
    }

    /// Whether a size is beyond what many a library counts (2^31 - 1 bytes over all ranks), so that
    /// it may be impossible where others are not. The answer is the same on all ranks, in groups of
    /// any size: they then ask each other.
    fn is_large(&self, bytes: u64) -> bool {
        bytes.saturating_mul(self.plan.ranks() as u64) > i32::MAX as u64
    }

    /// Whether some communicator cannot run this case. If so, one row says why, and all skip the
    /// case.
    fn waive(&mut self, case: &Case, cycle: u64) -> Result<bool, RunError> {
        let Some(reason) = self.why_not(case)? else { return Ok(false) };
        self.report_waived(case, cycle, reason)?;
        self.index += 1;
        Ok(true)
    }

    /// Why some communicator cannot run this case, if one cannot. All ranks learn it, since they
    /// share barriers.
    fn why_not(&mut self, case: &Case) -> Result<Option<String>, RunError> {
        let reason = self.backend.supported(case).err().map_or(String::new(), |r| r.0);
        let all = self.world.allgather(reason.as_bytes(), self.deadline())?;
        let reason = all.into_iter().find(|r| !r.is_empty());
        Ok(reason.map(|reason| String::from_utf8_lossy(&reason).into_owned()))
    }

    /// Untimed operations for doubling sizes, out of place (nccl-tests src/common.cu:925).
    fn warm_up(&mut self, case: impl Fn(&Self, u64) -> Case) -> Result<(), RunError> {
        self.enter(Phase::Warmup);
        for bytes in self.plan.warmup_sizes() {
            let case = case(self, bytes);
            if self.is_large(bytes) && self.why_not(&case)?.is_some() {
                continue;
            }
            for (_, case) in self.honoured(&case)?.cases {
                if !self.plan.variants.is_empty() {
                    // A process may tell its calls what to have for all of its rank threads.
                    self.world.barrier(self.deadline())?;
                }
                let deadline = self.deadline();
                let mut prepared = self.backend.prepare(&case);
                for iteration in 0..u64::from(self.plan.warmup) {
                    let operation =
                        Operation { placement: Placement::OutOfPlace, iteration, verified: false };
                    prepared.enqueue(operation)?;
                }
                finish_all(prepared.as_mut(), deadline)?;
            }
        }
        Ok(())
    }

    /// Tuning pass: runs every case once while the backend captures the library's log.
    fn tuning_pass(&mut self, cases: Vec<Case>) -> Result<(), RunError> {
        for case in &cases {
            // What is tried later would write into the log that is read here.
            self.honoured(case)?;
        }
        self.world.barrier(self.deadline())?;
        if !self.backend.begin_log_capture() {
            return Ok(());
        }
        let placement = Placement::OutOfPlace;
        for case in &cases {
            for (_, case) in self.honoured(case)?.cases {
                self.world.barrier(self.deadline())?;
                let deadline = self.deadline();
                let mut prepared = self.backend.prepare(&case);
                prepared.enqueue(Operation { placement, iteration: 0, verified: false })?;
                finish_all(prepared.as_mut(), deadline)?;
                drop(prepared);
                self.world.barrier(self.deadline())?;
                self.backend.record_tuning_choice(&case)?;
            }
        }
        self.end_log_capture()
    }

    /// Ends the tuning pass and reports what the library logged.
    fn end_log_capture(&mut self) -> Result<(), RunError> {
        self.world.barrier(self.deadline())?;
        self.backend.end_log_capture();
        self.report_library()
    }

    /// Reports what a library says about itself, if that is new.
    fn report_library(&mut self) -> Result<(), RunError> {
        match self.backend.library() {
            Some(said) => self.report(Report::Library(said)),
            None => Ok(()),
        }
    }

    /// Our communicator.
    fn group(&self) -> &Group {
        &self.groups[self.ours]
    }

    /// Whether this thread reports for our communicator: it holds the communicator's first rank.
    fn leads(&self) -> bool {
        self.group().threads.first() == Some(&self.world.rank())
    }

    /// Whether one of our ranks is `rank`.
    fn holds(&self, rank: usize) -> bool {
        self.plan.rank_thread(rank) == self.world.rank()
    }

    /// The deadline of a wait that starts now.
    fn deadline(&self) -> Option<Instant> {
        self.plan.timeout_s.map(|seconds| Instant::now() + Duration::from_secs(seconds))
    }

    /// Reports the phase, and injects the fault that the plan has for it.
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
        // The signal goes to our own process, so it cannot be refused. But another thread may take
        // it first, and this one must not get beyond the place of the fault.
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

    /// By how much our iterations are slowed, of `each` operations or messages each; only with
    /// `peer` where the fault names a peer.
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

/// An injected slowdown of operations.
#[derive(Debug, Clone, Copy)]
enum Slowdown {
    /// Slowed to this multiple of their time.
    Times(f64),
    /// Slowed by this number of seconds each.
    By(f64),
}

impl Slowdown {
    /// Seconds to add to an iteration that took `seconds`.
    fn after(self, seconds: f64) -> f64 {
        match self {
            Slowdown::Times(factor) => seconds * (factor - 1.0),
            Slowdown::By(delay) => delay,
        }
    }
}
