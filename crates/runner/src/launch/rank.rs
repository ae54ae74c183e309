//! The inside of a rank process: its rank threads join the supervisor's hub, measure, report, and exit with the
//! supervisor.
//! Not a command for users.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::{Context, Result, bail};
use busbw_core::{
    exit::Exit,
    fault::Phase,
    plan::Plan,
    record::{GpuMemory, LibraryFacts},
};
use busbw_job::world::{JoinParameters, Member, World, WorldError};
use busbw_shm::{Buffers, Control, Mailboxes, WaitPolicy};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use crate::launch::rank_assignment::{Facts, RankAssignment};
use crate::{
    backend::{
        self, Backend, BackendError, Bound, Joined, Open, RankProcess, RunError, SharedMemory,
    },
    measure::{Failure, Report, Session},
};
use busbw_core::environment;
use busbw_host::machine;

/// Runs a rank process that its supervisor has started.
///
/// # Errors
/// When it was not started by a supervisor, or cannot join the hub.
pub fn run() -> Result<Exit> {
    let text =
        std::env::var(environment::RANK).context("only busbw itself starts rank processes")?;
    let assignment: RankAssignment =
        serde_json::from_str(&text).context("cannot parse the rank assignment")?;
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("prctl(PR_SET_PDEATHSIG) failed")?;
    // The supervisor may have exited before the call above.
    if getppid().map(|p| p.as_raw_nonzero().get()) != Some(assignment.supervisor) {
        bail!("the supervisor has exited");
    }
    // Ctrl-C goes to every process of the terminal; only the supervisor acts on it.
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::new(AtomicBool::new(false)))
        .context("cannot install a handler for SIGINT")?;
    // Each descriptor twice: as inherited, and opened again to be mapped.
    busbw_job::open_files::raise(2 * assignment.buffers.len());
    let well = run_threads(assignment, |_| Ok(()))?;
    Ok(if well { Exit::Ok } else { Exit::Internal })
}

/// Runs the rank threads of a process; true if all of them finished. Calls `begun` with the control memory before
/// it starts any thread.
///
/// # Errors
/// When memory cannot be mapped, or a thread cannot be started, or `begun` fails.
pub(super) fn run_threads(
    assignment: RankAssignment,
    begun: impl FnOnce(&Arc<Control>) -> Result<()>,
) -> Result<bool> {
    // Before anything is mapped: while this process is small, the kernel would kill the supervisor first.
    crate::launch::oom_score::prefer_rank_as_victim();
    let control = Control::map(inherited(assignment.control)?, assignment.rank_threads)?;
    let buffers = map_buffers(&assignment)?;
    let mailboxes = match assignment.mailboxes {
        Some(fd) => Some(Mailboxes::map(inherited(fd)?, assignment.rank_threads)?),
        None => None,
    };
    let process = backend::factory(&assignment.backend).process(&assignment.devices)?;
    begun(&control)?;
    let shared = Shared { assignment, control, buffers, mailboxes, process };
    let failed = std::thread::scope(|scope| {
        let threads = shared.assignment.own_threads.iter();
        let started: io::Result<Vec<_>> = threads
            .map(|rank_thread| {
                let shared = &shared;
                let run = move || run_thread(*rank_thread, shared);
                std::thread::Builder::new().spawn_scoped(scope, run)
            })
            .collect();
        // The threads that did start wait for those that did not.
        let started = started.inspect_err(|_| shared.control.abort());
        let failed =
            |thread: std::thread::ScopedJoinHandle<'_, bool>| !matches!(thread.join(), Ok(true));
        started.map(|threads| threads.into_iter().any(failed))
    });
    failed.map(|failed| !failed).context("cannot start a thread for a rank: lower -t")
}

/// What the rank threads of a process share.
struct Shared {
    assignment: RankAssignment,
    control: Arc<Control>,
    /// All ranks' buffers, where they are shared.
    buffers: Option<Arc<Buffers>>,
    /// All ranks' mailboxes, where messages go through them.
    mailboxes: Option<Arc<Mailboxes>>,
    /// What the backend shares.
    process: Box<dyn RankProcess>,
}

fn map_buffers(assignment: &RankAssignment) -> Result<Option<Arc<Buffers>>> {
    if assignment.buffers.is_empty() {
        return Ok(None);
    }
    let files =
        assignment.buffers.iter().map(|fd| inherited(*fd)).collect::<Result<Vec<File>>>()?;
    Ok(Some(Buffers::map(&files, assignment.buffer_bytes, assignment.verified)?))
}

/// An inherited descriptor, opened again.
fn inherited(fd: i32) -> Result<File> {
    let path = format!("/proc/self/fd/{fd}");
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot open the shared memory {path}"))
}

/// Runs one rank thread from joining the hub to leaving it; true if it finished.
fn run_thread(rank_thread: usize, shared: &Shared) -> bool {
    let (assignment, control) = (&shared.assignment, &shared.control);
    let (open, devices, nccl) = match shared.process.bind(rank_thread) {
        Ok(Bound { devices, nccl, open }) => (Ok(open), devices, nccl),
        Err(error) => (Err(error), Vec::new(), 0),
    };
    let facts = Facts { pid: getpid().as_raw_nonzero().get() as u32, devices, nccl };
    let parameters = JoinParameters {
        hub: assignment.hub.clone(),
        token: assignment.token.clone(),
        rank: rank_thread,
        size: assignment.rank_threads,
        host: assignment.host.clone(),
        sharing: assignment.apart.then(|| assignment.own_threads.clone()),
    };
    let policy = match assignment.apart {
        false => WaitPolicy::new(assignment.rank_threads, assignment.cores),
        true => WaitPolicy::new(assignment.own_threads.len(), machine::usable_cores().len()),
    };
    let facts = serde_json::to_vec(&facts).unwrap_or_default();
    let (mut member, begin) = match Member::join(parameters, &facts, Arc::clone(control), policy) {
        Ok(joined) => joined,
        // The supervisor prints the reason.
        Err(WorldError::Aborted(_)) => return false,
        Err(error) => {
            // A closed stderr must not turn an error into a panic.
            let _ = writeln!(io::stderr(), "busbw: rank process {}: {error}", assignment.process);
            return false;
        }
    };
    let measured = match (open, serde_json::from_slice::<Plan>(&begin)) {
        (Err(error), _) => Err(fail(&mut member, &error.into())),
        (_, Err(_)) => {
            let failure = Failure::new(Exit::Internal, "cannot parse the plan".to_owned());
            Err(tell(&mut member, &failure))
        }
        (Ok(open), Ok(plan)) => {
            let measured = measure(&plan, &mut member, open, shared, policy);
            if measured.is_ok() && assignment.own_threads.first() == Some(&rank_thread) {
                report_paths(&plan, &mut member, shared);
            }
            measured
        }
    };
    let Ok(gpu_memory) = measured else { return false };
    let peak_bytes = machine::peak_resident(&machine::Root::system());
    let report = Report::Finished { peak_bytes, gpu_memory };
    let reported = member.report(&report.into_bytes()).is_ok();
    member.leave();
    reported
}

/// A failure that was reported to the supervisor, or that the supervisor caused.
struct Reported;

/// Reports a failure to the supervisor.
fn tell(member: &mut Member, failure: &Failure) -> Reported {
    member.abort(&failure.to_text());
    Reported
}

/// Reports an error to the supervisor, unless the supervisor caused it.
fn fail(member: &mut Member, error: &RunError) -> Reported {
    if let Some(failure) = explain(error) {
        tell(member, &failure);
    }
    Reported
}

/// Reports what busbw's net plugin counted in this process.
fn report_paths(plan: &Plan, member: &mut Member, shared: &Shared) {
    let rank = plan.ranks_of(member.rank()).next().unwrap_or(0);
    let Some(counted) = shared.process.net_stats(rank) else { return };
    let report = Report::Library(LibraryFacts::Paths(counted.into()));
    // Without it only the record lacks these counts.
    let _ = member.report(&report.into_bytes());
}

/// Measures everything on the backend that `open` opens and returns the use of GPUs' memory. A failure is reported
/// before anything else: what is under way may never end.
fn measure(
    plan: &Plan,
    member: &mut Member,
    mut open: Box<Open>,
    shared: &Shared,
    policy: WaitPolicy,
) -> Result<Option<GpuMemory>, Reported> {
    let (rank_thread, control) = (member.rank(), &shared.control);
    let partitions = plan.partitions();
    let plans: Vec<Plan> = partitions.iter().map(|one| plan.of_partition(*one)).collect();
    let mut open = |plan| open(joined(plan, &mut *member, shared, policy));
    let opened = open(plan).and_then(|whole| {
        let others: Result<Vec<_>, RunError> = plans.iter().map(&mut open).collect();
        Ok((whole, others?))
    });
    let (mut whole, mut others) = match opened {
        Ok(opened) => opened,
        Err(error) => return Err(fail(member, &error)),
    };
    let watch =
        |phase: Phase, row: u64| control.set_progress(rank_thread, phase as u32 + 1, row as u32);
    let launch = shared.assignment.launch;
    let of_partitions = partitions.into_iter().zip(&mut others);
    let of_partitions = of_partitions.map(|(of, other)| (of, other.as_mut() as &mut dyn Backend));
    let measured = Session::new(plan, member, whole.as_mut(), launch, Box::new(watch))
        .with_partitions(of_partitions.collect())
        .run();
    let gpu_memory = whole.gpu_memory();
    let mut backends = std::iter::once(whole).chain(others);
    let Err(error) = measured else {
        return match backends.try_for_each(|backend| backend.finalize()) {
            Ok(()) => Ok(gpu_memory),
            Err(error) => Err(tell(member, &Failure::new(Exit::Library, error.to_string()))),
        };
    };
    let reported = fail(member, &error);
    for mut backend in backends {
        backend.abort();
        // The process exits: destructors could wait for other ranks.
        std::mem::forget(backend);
    }
    Err(reported)
}

/// The run that a rank thread has joined.
fn joined<'a, 'w>(
    plan: &'a Plan,
    world: &'w mut dyn World,
    shared: &'a Shared,
    policy: WaitPolicy,
) -> Joined<'a, 'w> {
    let control = &shared.control;
    let memory = shared.buffers.clone().map(|buffers| SharedMemory {
        buffers,
        control: Arc::clone(control),
        mailboxes: shared.mailboxes.clone(),
        policy,
        tables: &shared.assignment.tables,
    });
    Joined { plan, world, stopped: Box::new(|| control.is_aborted()), shared: memory }
}

/// The report of a failure; none if the supervisor aborted this rank.
fn explain(error: &RunError) -> Option<Failure> {
    let (missing, exit) = match error {
        RunError::World(WorldError::Aborted(_))
        | RunError::Backend(BackendError::Wait(busbw_shm::Wait::Aborted)) => return None,
        RunError::World(WorldError::TimedOut { missing, .. })
        | RunError::Backend(BackendError::Wait(busbw_shm::Wait::TimedOut { missing })) => {
            (Some(missing.clone()), Exit::Timeout)
        }
        RunError::World(_) => (None, Exit::Internal),
        RunError::Backend(BackendError::Refused { exit, .. }) => (None, *exit),
        RunError::Backend(BackendError::Declined(_)) => (None, Exit::Library),
    };
    Some(Failure { missing, exit, text: error.to_string() })
}
