//! Starts the ranks of a run, supervises them, and returns the exit code.
//! Not what ranks measure.

mod coordinator_silence;
mod copies;
mod gather;
mod inline;
mod memory;
mod oom_score;
mod process;
mod rank;
mod rank_assignment;
mod relayed_heartbeats;
mod room;
mod supervisor;
mod worker;

pub use coordinator_silence::CoordinatorSilence;
pub use gather::gather_from_all;
pub use rank::run as rank;
pub use worker::run as worker;

use std::ffi::OsString;

use anyhow::Result;
use busbw_core::{
    exit::Exit,
    plan::{Plan, RankLayout, Style},
    record::{Device, Machine, MemoryFigures, Run, SCHEMA, Status},
};
use busbw_shm::Buffers;

use self::relayed_heartbeats::RelayedHeartbeats;
use crate::signals::Guard;
use crate::{
    backend::{self, Resources},
    measure,
    outputs::{self, Ended, Outputs},
    request::Request,
};
use busbw_core::environment::{self, RELAYED, SWEPT};
use busbw_core::exit::{self, ExitError};
use busbw_host::{machine, termination_message};
pub use busbw_job::rendezvous::{self, RendezvousServer, end_with_parent};
use busbw_job::{heartbeat::EventLoop, launched::Launched};
use busbw_store as store;

/// Runs `planned` as process 0 of a launcher's job: the coordinator. The workers receive its exit code.
///
/// # Errors
/// What cannot be planned, opened or started.
pub fn lead(
    launched: &Launched,
    planned: Result<Request, ExitError>,
    args: &[OsString],
) -> Result<Exit> {
    let mut server = RendezvousServer::open(launched, args)?;
    end_with_parent();
    let ended = planned
        .map_err(anyhow::Error::from)
        .and_then(|request| supervise(request, args, Some(&mut server)));
    // Printed before the workers exit: then the launcher may kill this process.
    let exit = ended.unwrap_or_else(|error| print_error(&error));
    server.broadcast_exit(exit);
    Ok(exit)
}

/// Runs a request: opens its outputs, starts its ranks, supervises them to the end. `alone` is the launcher's
/// variable that makes this process its only one, if there is one.
///
/// # Errors
/// What cannot be opened or started.
pub fn run(request: Request, alone: Option<&str>, args: &[OsString]) -> Result<Exit> {
    copies::refuse_copies(alone)?;
    if [SWEPT, RELAYED].iter().any(|name| std::env::var_os(name).is_some()) {
        end_with_parent();
    }
    supervise(request, args, None)
}

/// Says on stderr, and in a pod's termination message, what went wrong, and how the program ends for it.
pub fn print_error(error: &anyhow::Error) -> Exit {
    termination_message::write(&format!("busbw: {error:#}"));
    exit::print_error(error)
}

fn supervise(
    mut request: Request,
    args: &[OsString],
    server: Option<&mut RendezvousServer>,
) -> Result<Exit> {
    // Before anything is opened that a signal would leave behind.
    let guard = Guard::watch()?;
    oom_score::protect_supervisor();
    let id = outputs::run_id(&request.plan.program);
    let mut outputs = Outputs::open(&request, &id)?;
    let event_loop =
        server.as_ref().map_or_else(EventLoop::default, |server| server.event_loop().clone());
    let _heartbeats = match std::env::var_os(RELAYED) {
        Some(_) => Some(RelayedHeartbeats::begin(&outputs, &event_loop)?),
        None => None,
    };
    let factory = backend::factory(&request.plan.backend);
    request.remarks.extend(factory.remarks(&request.plan, &request.resources));
    let machine = machine::read(&machine::Root::system());
    room::enough(&request.plan, request.ranks_here, &machine)?;
    let mut describe = Description::new(&id, &mut request, &machine, args)?;
    for remark in &request.remarks {
        outputs.remark(remark);
    }
    for waiver in &request.waived {
        outputs.remark(&format!("{} is waived: {}", waiver.option, waiver.reason));
    }
    let ended = match request.plan.rank_layout {
        RankLayout::Alone => inline::run(&request.plan, &describe, &guard, &mut outputs),
        RankLayout::Processes | RankLayout::Threads | RankLayout::Launched => {
            let outputs = &mut outputs;
            supervisor::run(&request.plan, &mut describe, &guard, outputs, server, &event_loop)
        }
    };
    // What was measured before a failure of our own is kept like any other.
    let ended = ended.unwrap_or_else(|error| Ended {
        status: Status::Failed,
        exit: Exit::Internal,
        message: Some(format!("{error:#}")),
        ..Ended::complete()
    });
    outputs.end(&ended, || guard.is_signalled())
}

/// The record's first line without the devices, which are known when the ranks have joined.
struct Description {
    run: Run,
    resources: Resources,
}

impl Description {
    /// Caps the sizes by memory and describes what will run.
    fn new(
        id: &str,
        request: &mut Request,
        machine: &Machine,
        args: &[OsString],
    ) -> Result<Description> {
        let asked = request.plan.clone();
        let factory = backend::factory(&request.plan.backend);
        let capacities = factory.capacities(request.ranks_here, &request.resources, machine);
        let reduced_max_bytes = memory::cap(&mut request.plan, &capacities, &machine.host)?;
        if let Some(reduced) = reduced_max_bytes {
            let option = if asked.style == Style::Osu { "-m" } else { "-e" };
            let least =
                if asked.min_bytes > reduced { ", and the smallest size with it" } else { "" };
            request.remarks.push(format!(
                "{option} is lowered from {} to {reduced}{least}: memory for all ranks' buffers",
                asked.max_bytes
            ));
        }
        let run = Run {
            schema: SCHEMA,
            id: id.to_owned(),
            busbw: env!("CARGO_PKG_VERSION").to_owned(),
            started: busbw_store::local_time::now(),
            started_unix: jiff::Timestamp::now().as_second(),
            args: args.iter().map(|arg| store::masked(&arg.to_string_lossy())).collect(),
            environment: store::environment(environment::all()),
            machine: machine.clone(),
            nccl: [0, 0],
            preamble: request.preamble.iter().cloned().collect(),
            // The header and the report state the requested sizes, as nccl-tests does; a separate line
            // states the reduced ones.
            plan: asked,
            devices: Vec::new(),
            reduced_max_bytes,
            memory: memory_figures(&request.plan),
            clock: measure::measure_clock(),
            counted: None,
            waived: request.waived.clone(),
            remarks: request.remarks.clone(),
        };
        Ok(Description { run, resources: request.resources.clone() })
    }

    /// The whole first line; `library` is NCCL's version code, 0 without NCCL.
    fn with_devices(&self, devices: Vec<Device>, library: u32) -> Run {
        let headers = if library > 0 { busbw_ffi::nccl::HEADER_VERSION } else { 0 };
        Run { devices, nccl: [headers, library], ..self.run.clone() }
    }
}

fn memory_figures(plan: &Plan) -> MemoryFigures {
    let of = |plan: &Plan| Buffers::total(plan.buffer_bytes(), plan.has_check_buffer()) as u64;
    let of_partitions = plan.partitions().into_iter().map(|one| of(&plan.of_partition(one)));
    MemoryFigures {
        buffers_per_rank: of(plan) + of_partitions.sum::<u64>(),
        control: busbw_shm::Control::bytes(plan.rank_threads()) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lowered_run_is_described_as_it_was_asked() {
        let plan = Plan { min_bytes: 1 << 20, max_bytes: 64 << 20, ..Plan::example() };
        let mut request = Request::of(plan);
        let mut machine = machine::read(&machine::Root::system());
        machine.memory_limit = Some(96 << 20);
        let run = Description::new("run", &mut request, &machine, &[]).unwrap().run;
        // Half of it is kept; the rest is for three buffers of two ranks.
        assert_eq!((request.plan.min_bytes, request.plan.max_bytes), (1 << 20, 8 << 20));
        assert_eq!(run.reduced_max_bytes, Some(8 << 20));
        assert_eq!((run.plan.min_bytes, run.plan.max_bytes), (1 << 20, 64 << 20));
    }
}
