//! A rank's process: joins the supervisor's hub, measures, reports, and dies with the supervisor.
//! Not started by people.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::{Context, Result, bail};
use engine::{
    Buffers, Communicator, Control, Member, WaitPolicy, World, WorldError, world::Invitation,
};
use model::{exit::Exit, fault::Phase, plan::Plan};
use rustix::{
    process::{Signal, getpid, getppid, set_parent_process_death_signal},
    thread::{CpuSet, sched_setaffinity},
};

use super::invite::{Facts, Invite, VARIABLE};
use crate::{
    backend::{BackendError, host::Host},
    machine,
    measure::{Failure, MeasureError, Report, Session},
};

/// Runs process `process` of the supervisor's ranks.
///
/// # Errors
/// When it was not started by a supervisor, or cannot join.
pub fn run(process: usize) -> Result<Exit> {
    let text = std::env::var(VARIABLE).context("a rank is started by busbw itself, not by hand")?;
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

    let control = Control::map(inherited(invite.control)?, invite.ranks)?;
    let files = invite.buffers.iter().map(|fd| inherited(*fd)).collect::<Result<Vec<File>>>()?;
    let buffers = Buffers::map(&files, invite.buffer_bytes, invite.verified)?;
    let failed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..invite.threads)
            .map(|thread| {
                let rank = thread * invite.processes + process;
                let (invite, control, buffers) =
                    (&invite, Arc::clone(&control), Arc::clone(&buffers));
                scope.spawn(move || run_rank(rank, invite, control, buffers))
            })
            .collect();
        threads.into_iter().any(|thread| !matches!(thread.join(), Ok(true)))
    });
    Ok(if failed { Exit::Internal } else { Exit::Ok })
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

/// One rank from joining to leaving; whether it got there.
fn run_rank(rank: usize, invite: &Invite, control: Arc<Control>, buffers: Arc<Buffers>) -> bool {
    bind(rank, &invite.cores);
    let device = invite.cores.get(rank).copied().unwrap_or(invite.first_device + rank);
    let facts = Facts { pid: getpid().as_raw_nonzero().get() as u32, device };
    let facts = serde_json::to_vec(&facts).unwrap_or_default();
    let invitation = Invitation {
        hub: invite.hub.clone(),
        token: invite.token.clone(),
        rank,
        size: invite.ranks,
        host: invite.host.clone(),
    };
    let policy = WaitPolicy::new(invite.ranks, invite.cores.len());
    let (mut member, begin) = match Member::join(invitation, &facts, Arc::clone(&control), policy) {
        Ok(joined) => joined,
        // The supervisor says why.
        Err(WorldError::Aborted(_)) => return false,
        Err(error) => {
            // A closed stderr must not turn an error into a panic.
            let _ = writeln!(io::stderr(), "busbw: rank {rank}: {error}");
            return false;
        }
    };
    let Ok(plan) = serde_json::from_slice::<Plan>(&begin) else {
        member.abort(&failure(None, "the plan is garbled".to_owned()));
        return false;
    };
    let groups = plan.groups();
    let members = groups.iter().find(|g| g.contains(&rank)).map_or(&[][..], Vec::as_slice);
    let communicator = Communicator::new(members, rank, buffers, Arc::clone(&control), policy);
    let mut backend = Host::new(&plan, communicator, &invite.tables);
    let watch = |phase: Phase, row: u64| control.set_place(rank, phase as u32 + 1, row as u32);
    let measured =
        Session::new(&plan, &mut member, &mut backend, invite.launch, Box::new(watch)).run();
    if let Err(error) = measured {
        if let Some(text) = explain(&error) {
            member.abort(&text);
        }
        return false;
    }
    let peak_bytes = machine::peak_resident(&machine::Root::system());
    let report = serde_json::to_vec(&Report::Finished { peak_bytes }).unwrap_or_default();
    let told = member.report(&report).is_ok();
    member.leave();
    told
}

/// Binds this thread to its core, when every rank has one of its own.
fn bind(rank: usize, cores: &[usize]) {
    if let Some(core) = cores.get(rank) {
        let mut set = CpuSet::new();
        set.set(*core);
        // An unbound rank only measures a little less steadily.
        let _ = sched_setaffinity(None, &set);
    }
}

/// What to tell the supervisor; nothing when it is the one who stopped us.
fn explain(error: &MeasureError) -> Option<String> {
    let missing = match error {
        MeasureError::World(WorldError::Aborted(_))
        | MeasureError::Backend(BackendError::Wait(engine::Wait::Aborted)) => return None,
        MeasureError::World(WorldError::TimedOut { missing, .. })
        | MeasureError::Backend(BackendError::Wait(engine::Wait::TimedOut { missing })) => {
            Some(missing.clone())
        }
        MeasureError::World(_) => None,
    };
    Some(failure(missing, error.to_string()))
}

fn failure(missing: Option<Vec<usize>>, text: String) -> String {
    serde_json::to_string(&Failure { missing, text }).unwrap_or_default()
}
