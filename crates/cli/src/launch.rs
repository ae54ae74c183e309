//! Where ranks run, and what becomes of them. Ends in a world that measures, and in an exit code.
//! Not what they measure.

mod alone;
mod guard;
mod inline;
mod invite;
mod local;
mod memory;
mod naming;
mod open_files;
mod party;
mod process;
mod rank;
mod sacrifice;

pub(crate) use guard::{Guard, terminating};
use invite::Devices;
pub(crate) use invite::token;
pub(crate) use party::end_with_parent;
pub use party::{guest, roll};
pub use rank::run as rank;

use std::{ffi::OsString, path::PathBuf};

use anyhow::Result;
use engine::Buffers;
use model::{
    exit::Exit,
    plan::{BackendChoice, Plan, Style},
    record::{Device, Machine, MemoryFigures, Run, SCHEMA, Status},
};

use crate::{
    Refusal,
    backend::{
        mpi,
        nccl::{Gpus, Libraries, Log},
        net,
    },
    complain, lint_command, local_time, machine, measure,
    options::{BackendName, BadOption, BenchArguments, Launched, RELAYED, Request, Surroundings},
    outputs::{self, Ended, Outputs},
    store,
    sweep::SWEPT,
};

/// Why a backend's library was not looked for.
const OTHER: &str = "another backend was asked for";

/// What planning must know of this machine and moment.
pub fn surroundings(arguments: &BenchArguments) -> Surroundings {
    let now = jiff::Timestamp::now().as_nanosecond() as u64;
    Surroundings {
        cores: machine::usable_cores().len(),
        gpus: match arguments.backend {
            None | Some(BackendName::Nccl) => Gpus::find(arguments.nccl.as_deref()),
            Some(_) => Err(OTHER.to_owned()),
        },
        mpi: match (arguments.backend, &arguments.osu) {
            (Some(BackendName::Mpi), _) | (None, Some(_)) => {
                mpi::Libraries::find(arguments.mpi.as_deref(), arguments.wants_gpus())
            }
            _ => Err(OTHER.to_owned()),
        },
        seed: now ^ u64::from(std::process::id()) << 32,
    }
}

/// What planning believes of hosts that this process does not see: whatever is asked for is there.
pub fn surroundings_elsewhere(arguments: &BenchArguments) -> Surroundings {
    /// More ranks than these there cannot be.
    const PLENTY: usize = 4096;
    let (nowhere, memory) = (PathBuf::new, u64::MAX);
    let libraries = Libraries { amd: false, driver: nowhere(), nccl: nowhere() };
    let gpus = Gpus { count: PLENTY, memory, libraries };
    let gpus_of_mpi = mpi::Gpus { amd: false, driver: nowhere(), count: PLENTY, memory };
    let is_on_gpus = matches!(arguments.backend, None | Some(BackendName::Nccl));
    Surroundings {
        cores: PLENTY,
        gpus: if is_on_gpus { Ok(gpus) } else { Err(OTHER.to_owned()) },
        mpi: Ok(mpi::Libraries { mpi: nowhere(), gpus: Some(gpus_of_mpi) }),
        seed: 0,
    }
}

/// Runs what `planned` is, as the first of several processes that a launcher started; the others hear how
/// it ended.
///
/// # Errors
/// What cannot be planned, opened or started.
pub fn lead(
    launched: &Launched,
    planned: Result<Request, BadOption>,
    args: &[OsString],
) -> Result<Exit> {
    let mut door = party::Door::open(launched, args)?;
    party::end_with_parent();
    let request = planned.map_err(|bad| Refusal::new(bad.exit, bad.to_string()));
    let ended = request
        .map_err(anyhow::Error::from)
        .and_then(|request| supervise(request, args, Some(&mut door)));
    // Said before the others exit: then their launcher may kill us.
    let exit = ended.unwrap_or_else(|error| complain(&error));
    door.dismiss(exit);
    Ok(exit)
}

/// Runs a request: opens its outputs, starts its ranks, follows them to the end. `alone` is what a launcher
/// says where it says that this process is its only one.
///
/// # Errors
/// What cannot be opened or started.
pub fn run(request: Request, alone: Option<&str>, args: &[OsString]) -> Result<Exit> {
    alone::refuse_copies(alone)?;
    if [SWEPT, RELAYED].iter().any(|name| std::env::var_os(name).is_some()) {
        party::end_with_parent();
    }
    supervise(request, args, None)
}

fn supervise(
    mut request: Request,
    args: &[OsString],
    door: Option<&mut party::Door>,
) -> Result<Exit> {
    // Before anything is opened that would be left behind.
    let guard = guard::Guard::watch()?;
    sacrifice::spare_us();
    let id = outputs::run_id(&request.plan.program);
    let mut outputs = Outputs::open(&request, &id)?;
    request.remarks.extend(lint_command::look_at_environment());
    if let Some(gpus) = &request.gpus {
        request.remarks.extend(gpus.apart(&ordinals(&request.plan, gpus).collect::<Vec<_>>()));
        request.remarks.extend(Log::absence());
    }
    let machine = machine::read(&machine::Root::system());
    let mut describe = Description::new(&id, &mut request, &machine, args)?;
    for remark in &request.remarks {
        outputs.say(remark);
    }
    for waiver in &request.waived {
        outputs.say(&format!("{} is waived: {}", waiver.option, waiver.reason));
    }
    let ended = match request.plan.backend {
        BackendChoice::Host | BackendChoice::Nccl(_) | BackendChoice::Mpi | BackendChoice::Net => {
            local::run(&request.plan, &mut describe, &guard, &mut outputs, door)
        }
        BackendChoice::Fake(model) => {
            inline::run(&request.plan, model, &describe, &guard, &mut outputs)
        }
    };
    // What was measured before a failure of our own is kept like any other.
    let ended = ended.unwrap_or_else(|error| Ended {
        status: Status::Failed,
        exit: Exit::Internal,
        message: Some(format!("{error:#}")),
        ..Ended::complete()
    });
    outputs.end(&ended, || guard.heard())
}

/// Everything of a run's first line but its devices, which are known when the ranks have joined.
struct Description {
    run: Run,
    /// The GPUs that it runs on, if it does.
    gpus: Option<Gpus>,
    /// The MPI, if it uses one.
    mpi: Option<mpi::Libraries>,
    /// The net plugin, if it uses one.
    net: Option<net::Wanted>,
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
        let reduced_max_bytes = match request.plan.backend {
            BackendChoice::Host => {
                let ranks = request.plan.ranks();
                memory::cap(&mut request.plan, ranks, machine)?
            }
            BackendChoice::Net => {
                let here = request.ranks_here;
                memory::cap(&mut request.plan, here, machine)?
            }
            BackendChoice::Mpi => {
                let here = request.ranks_here;
                let host = memory::cap(&mut request.plan, here, machine)?;
                match request.mpi.as_ref().and_then(|mpi| mpi.gpus.as_ref()) {
                    Some(gpus) => {
                        let share = gpus.memory / gpus.ranks_on_one(here) as u64;
                        memory::cap_on_gpus(&mut request.plan, share, machine)?.or(host)
                    }
                    None => host,
                }
            }
            BackendChoice::Nccl(_) => {
                let memory = request.gpus.as_ref().map_or(0, |gpus| gpus.memory);
                memory::cap_on_gpus(&mut request.plan, memory, machine)?
            }
            BackendChoice::Fake(_) => None,
        };
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
            started: local_time::now(),
            started_unix: jiff::Timestamp::now().as_second(),
            args: args.iter().map(|arg| store::masked(&arg.to_string_lossy())).collect(),
            environment: store::environment(environment_variables()),
            machine: machine.clone(),
            nccl: [0, 0],
            preamble: Vec::new(),
            // The header and the report say what was asked, as nccl-tests does; a line of its own says
            // what became of it.
            plan: asked,
            devices: Vec::new(),
            reduced_max_bytes,
            memory: memory_figures(&request.plan),
            clock: measure::measure_clock(),
            counted: None,
            waived: request.waived.clone(),
            remarks: request.remarks.clone(),
        };
        let (gpus, mpi, net) = (request.gpus.clone(), request.mpi.clone(), request.net.clone());
        Ok(Description { run, gpus, mpi, net })
    }

    /// The whole first line; `library` is NCCL's version code, 0 without NCCL.
    fn with_devices(&self, devices: Vec<Device>, library: u32) -> Run {
        let headers = if library > 0 { native::nccl::HEADER_VERSION } else { 0 };
        Run { devices, nccl: [headers, library], ..self.run.clone() }
    }

    /// What the plan's drivers drive.
    fn devices(&self, plan: &Plan) -> Devices {
        let cpu = &self.run.machine.cpu;
        match (&self.gpus, &self.mpi, &self.net) {
            (Some(gpus), _, net) => Devices::of_gpus(plan, gpus, net.clone()),
            (_, Some(libraries), _) => Devices::of_mpi(plan, libraries, cpu),
            (_, _, Some(wanted)) => Devices::of_net(wanted, cpu),
            (None, None, None) => Devices::of_cores(plan, cpu),
        }
    }
}

/// The GPU of every rank of our own process, or processes. Where ranks share GPUs, numbers begin again.
fn ordinals(plan: &Plan, gpus: &Gpus) -> impl Iterator<Item = usize> {
    (0..plan.ranks_each()).map(|rank| (plan.first_device + rank) % gpus.count)
}

fn memory_figures(plan: &Plan) -> MemoryFigures {
    MemoryFigures {
        buffers_per_rank: Buffers::total(plan.buffer_bytes(), plan.has_check_buffer()) as u64,
        control: engine::Control::bytes(plan.rank_threads()) as u64,
    }
}

pub(crate) fn environment_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{self, Command, Environment};

    #[test]
    fn a_lowered_run_is_described_as_it_was_asked() {
        let words = "all_reduce_perf -b 1M -e 64M -f 2 -g 2".split(' ').map(OsString::from);
        let Ok(Command::Bench { benchmark, style, program, arguments }) = options::parse(words)
        else {
            panic!("it does not parse");
        };
        let environment = Environment::default();
        let (gpus, mpi) = (Err(String::new()), Err(String::new()));
        let surroundings = Surroundings { cores: 2, gpus, mpi, seed: 1 };
        let mut request =
            options::plan(benchmark, style, &program, &arguments, &environment, &surroundings)
                .unwrap();
        let mut machine = machine::read(&machine::Root::system());
        machine.memory_limit = Some(96 << 20);
        let run = Description::new("run", &mut request, &machine, &[]).unwrap().run;
        // Half of it is kept; the rest is for three buffers of two ranks.
        assert_eq!((request.plan.min_bytes, request.plan.max_bytes), (1 << 20, 8 << 20));
        assert_eq!(run.reduced_max_bytes, Some(8 << 20));
        assert_eq!((run.plan.min_bytes, run.plan.max_bytes), (1 << 20, 64 << 20));
    }
}
