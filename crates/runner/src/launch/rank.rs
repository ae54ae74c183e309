//! A process of ranks: its drivers join the supervisor's hub, measure, report, and die with the
//! supervisor. Not started by people.

mod station;

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::{Context, Result, bail};
use busbw_core::{
    exit::Exit,
    fault::Phase,
    plan::{BackendChoice, Plan},
    record::{GpuMemory, LibraryFacts},
};
use busbw_job::world::{Invitation, Member, World, WorldError};
use busbw_shm::{Buffers, Communicator, Control, Mailboxes, Messages, WaitPolicy};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use self::station::Station;
use super::invite::{Devices, Facts, Invite};
use crate::{
    backend::{Backend, BackendError, host::Host, mpi, nccl, net},
    measure::{Failure, MeasureError, Report, Session},
};
use busbw_core::environment;
use busbw_host::machine;

/// Runs the process of ranks that its supervisor has started.
///
/// # Errors
/// When it was not started by a supervisor, or cannot join.
pub fn run() -> Result<Exit> {
    let text = std::env::var(environment::RANK)
        .context("a rank is started by busbw itself, not by hand")?;
    let invite: Invite =
        serde_json::from_str(&text).context("the supervisor's invitation is garbled")?;
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot bind our life to the supervisor's")?;
    // The supervisor may have died before the line above took effect.
    if getppid().map(|p| p.as_raw_nonzero().get()) != Some(invite.supervisor) {
        bail!("the supervisor is gone");
    }
    // Ctrl-C goes to every process of the terminal; the supervisor decides what it means.
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::new(AtomicBool::new(false)))
        .context("cannot take SIGINT")?;
    // As inherited, and opened again to be mapped.
    busbw_job::open_files::raise(2 * invite.buffers.len());
    let well = drive(invite, |_| Ok(()))?;
    Ok(if well { Exit::Ok } else { Exit::Internal })
}

/// Runs the drivers of a process of ranks; whether all of them got to the end. Calls `begun` with the
/// control memory before it starts any thread.
///
/// # Errors
/// Memory or threads that cannot be had, or what `begun` returns.
pub(super) fn drive(
    invite: Invite,
    begun: impl FnOnce(&Arc<Control>) -> Result<()>,
) -> Result<bool> {
    // Before anything is mapped: while we are small, the kernel would rather take the supervisor.
    super::sacrifice::offer_us();
    let control = Control::map(inherited(invite.control)?, invite.drivers)?;
    let buffers = map_buffers(&invite)?;
    let mailboxes = match invite.mailboxes {
        Some(fd) => Some(Mailboxes::map(inherited(fd)?, invite.drivers)?),
        None => None,
    };
    let log = match &invite.devices {
        Devices::Cores { .. } | Devices::Net { .. } => Log::None,
        Devices::Mpi { .. } => Log::Mpi(Arc::new(mpi::Log::capture())),
        Devices::Gpus { .. } => {
            let log = nccl::Log::capture().context("cannot make a file for NCCL's log")?;
            Log::Nccl(log.map(Arc::new))
        }
    };
    let stats = match &invite.devices {
        Devices::Net { .. } | Devices::Gpus { .. } => {
            Some(net::Stats::capture().context("cannot make a file for the net plugin")?)
        }
        Devices::Cores { .. } | Devices::Mpi { .. } => None,
    };
    begun(&control)?;
    let shared = Shared { invite, control, buffers, mailboxes, log, stats };
    let failed = std::thread::scope(|scope| {
        let seats = shared.invite.seats.iter();
        let threads: Vec<_> = seats
            .map(|driver| {
                let shared = &shared;
                scope.spawn(move || run_driver(*driver, shared))
            })
            .collect();
        threads.into_iter().any(|thread| !matches!(thread.join(), Ok(true)))
    });
    Ok(!failed)
}

/// What the drivers of a process share.
struct Shared {
    invite: Invite,
    control: Arc<Control>,
    /// All ranks' buffers, where they are shared.
    buffers: Option<Arc<Buffers>>,
    /// All ranks' mailboxes, where messages go through them.
    mailboxes: Option<Arc<Mailboxes>>,
    log: Log,
    /// What busbw's net plugin counts.
    stats: Option<net::Stats>,
}

/// What libraries say of themselves.
enum Log {
    /// There are none.
    None,
    Mpi(Arc<mpi::Log>),
    /// What NCCL writes, if it writes for us.
    Nccl(Option<Arc<nccl::Log>>),
}

fn map_buffers(invite: &Invite) -> Result<Option<Arc<Buffers>>> {
    if invite.buffers.is_empty() {
        return Ok(None);
    }
    let files = invite.buffers.iter().map(|fd| inherited(*fd)).collect::<Result<Vec<File>>>()?;
    Ok(Some(Buffers::map(&files, invite.buffer_bytes, invite.verified)?))
}

/// An inherited descriptor as a file of our own.
fn inherited(fd: i32) -> Result<File> {
    let path = format!("/proc/self/fd/{fd}");
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot open the shared memory {path}"))
}

/// One driver from joining to leaving; whether it got there.
fn run_driver(driver: usize, shared: &Shared) -> bool {
    let (invite, control) = (&shared.invite, &shared.control);
    let (station, seats) = match Station::take(driver, &invite.devices) {
        Ok((station, seats)) => (Ok(station), seats),
        Err(failure) => (Err(failure), Vec::new()),
    };
    let nccl = station.as_ref().map_or(0, Station::nccl);
    let facts = Facts { pid: getpid().as_raw_nonzero().get() as u32, devices: seats, nccl };
    let invitation = Invitation {
        hub: invite.hub.clone(),
        token: invite.token.clone(),
        rank: driver,
        size: invite.drivers,
        host: invite.host.clone(),
        sharing: invite.apart.then(|| invite.seats.clone()),
    };
    let policy = match invite.apart {
        false => WaitPolicy::new(invite.drivers, invite.cores),
        true => WaitPolicy::new(invite.seats.len(), machine::usable_cores().len()),
    };
    let told = serde_json::to_vec(&facts).unwrap_or_default();
    let (mut member, begin) = match Member::join(invitation, &told, Arc::clone(control), policy) {
        Ok(joined) => joined,
        // The supervisor says why.
        Err(WorldError::Aborted(_)) => return false,
        Err(error) => {
            // A closed stderr must not turn an error into a panic.
            let _ = writeln!(io::stderr(), "busbw: rank process {}: {error}", invite.process);
            return false;
        }
    };
    let measured = match (station, serde_json::from_slice::<Plan>(&begin)) {
        (Err(failure), _) => Err(tell(&mut member, &failure)),
        (_, Err(_)) => {
            let failure = Failure::new(Exit::Internal, "the plan is garbled".to_owned());
            Err(tell(&mut member, &failure))
        }
        (Ok(station), Ok(plan)) => {
            let measured = measure(&plan, &mut member, station, shared, policy);
            if measured.is_ok() && invite.seats.first() == Some(&driver) {
                tell_paths(&plan, &mut member, shared);
            }
            measured
        }
    };
    let Ok(gpu_memory) = measured else { return false };
    let peak_bytes = machine::peak_resident(&machine::Root::system());
    let report =
        serde_json::to_vec(&Report::Finished { peak_bytes, gpu_memory }).unwrap_or_default();
    let told = member.report(&report).is_ok();
    member.leave();
    told
}

/// A failure that the supervisor was told of, or that it caused.
struct Told;

/// Tells the supervisor of a failure.
fn tell(member: &mut Member, failure: &Failure) -> Told {
    member.abort(&failure.to_text());
    Told
}

/// Tells what busbw's net plugin counted in this process, if it did.
fn tell_paths(plan: &Plan, member: &mut Member, shared: &Shared) {
    let rank = plan.ranks_of(member.rank()).next().unwrap_or(0);
    let Some(counted) = shared.stats.as_ref().and_then(|stats| stats.last(rank)) else { return };
    let report = Report::Library(LibraryFacts::Paths(counted.into()));
    // Without it the record says less, and nothing else is wrong.
    let _ = member.report(&serde_json::to_vec(&report).unwrap_or_default());
}

/// Measures everything on the station's devices; what became of GPUs' memory. A failure is told before
/// anything else: what is under way may never end.
fn measure(
    plan: &Plan,
    member: &mut Member,
    station: Station,
    shared: &Shared,
    policy: WaitPolicy,
) -> Result<Option<GpuMemory>, Told> {
    let (driver, control) = (member.rank(), &shared.control);
    let mut backend = match backend(plan, member, station, shared, policy) {
        Ok(backend) => backend,
        Err(Some(failure)) => return Err(tell(member, &failure)),
        Err(None) => return Err(Told),
    };
    let watch = |phase: Phase, row: u64| control.set_progress(driver, phase as u32 + 1, row as u32);
    let launch = shared.invite.launch;
    let measured = Session::new(plan, member, backend.as_mut(), launch, Box::new(watch)).run();
    let Err(error) = measured else {
        let gpu_memory = backend.gpu_memory();
        return match backend.finalize() {
            Ok(()) => Ok(gpu_memory),
            Err(error) => Err(tell(member, &Failure::new(Exit::Library, error.to_string()))),
        };
    };
    if let Some(failure) = explain(&error) {
        tell(member, &failure);
    }
    backend.abort();
    // The process ends: whatever would wait for the other ranks is left to the system.
    std::mem::forget(backend);
    Err(Told)
}

/// The plan's backend on the station's devices. A failure is nothing where the supervisor caused it.
fn backend<'a>(
    plan: &'a Plan,
    member: &mut Member,
    station: Station,
    shared: &'a Shared,
    policy: WaitPolicy,
) -> Result<Box<dyn Backend + 'a>, Option<Failure>> {
    let (driver, control) = (member.rank(), &shared.control);
    let stopped = Box::new(|| control.is_aborted());
    match (station, &shared.buffers, &shared.log, &plan.backend) {
        (Station::Core, Some(buffers), _, BackendChoice::Host) => {
            let groups = plan.groups();
            let members =
                groups.iter().find(|g| g.contains(&driver)).map_or(&[][..], Vec::as_slice);
            let (buffers, control) = (Arc::clone(buffers), Arc::clone(control));
            let messages = shared.mailboxes.clone().map(|mailboxes| {
                let (buffers, control) = (Arc::clone(&buffers), Arc::clone(&control));
                Messages::new(members, driver, buffers, control, mailboxes, policy)
            });
            let communicator = Communicator::new(members, driver, buffers, control, policy);
            let tables = &shared.invite.tables;
            Ok(Box::new(Host::new(plan, driver, communicator, messages, tables)))
        }
        (Station::Gpus { opened, ordinals }, _, Log::Nccl(log), BackendChoice::Nccl(options)) => {
            let log = log.clone();
            Ok(Box::new(nccl::Nccl::new(plan, *options, opened, ordinals, log, stopped)))
        }
        (Station::Mpi { libraries, gpu }, _, Log::Mpi(log), BackendChoice::Mpi) => {
            let log = Arc::clone(log);
            let joined = mpi::Mpi::new(plan, &libraries, gpu, log, member, stopped);
            Ok(Box::new(joined.map_err(|error| explain(&error))?))
        }
        (Station::Net { wanted }, _, _, BackendChoice::Net) => {
            let joined = net::Net::new(plan, &wanted, member, stopped);
            Ok(Box::new(joined.map_err(|error| explain(&error))?))
        }
        // The supervisor invited to other devices than its plan needs.
        _ => {
            let text = "the plan does not fit the invitation".to_owned();
            Err(Some(Failure::new(Exit::Internal, text)))
        }
    }
}

/// What to tell the supervisor; nothing when it is the one who stopped us.
fn explain(error: &MeasureError) -> Option<Failure> {
    let (missing, exit) = match error {
        MeasureError::World(WorldError::Aborted(_))
        | MeasureError::Backend(BackendError::Wait(busbw_shm::Wait::Aborted)) => return None,
        MeasureError::World(WorldError::TimedOut { missing, .. })
        | MeasureError::Backend(BackendError::Wait(busbw_shm::Wait::TimedOut { missing })) => {
            (Some(missing.clone()), Exit::Timeout)
        }
        MeasureError::World(_) => (None, Exit::Internal),
        MeasureError::Backend(BackendError::Refused { exit, .. }) => (None, *exit),
    };
    Some(Failure { missing, exit, text: error.to_string() })
}
