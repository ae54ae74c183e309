//! The workers of a launch: their devices, their events, and the loss of one.
//! Not how they join (`busbw_job::rendezvous`).

use std::time::Instant;

use anyhow::Result;
use busbw_core::{exit::Exit, plan::Plan, record::Status};

use super::{LOSS_DELAY, Launch, PendingLoss, WORKER_CHECK_INTERVAL};
use crate::{
    backend::{self, Cores},
    launch::{Description, process::Process},
    outputs::{Ended, Outputs},
    signals,
};
use busbw_core::exit::ExitError;
use busbw_host::machine;
use busbw_job::{
    heartbeat::SILENCE_TIMEOUT,
    rendezvous::{RendezvousServer, WorkerEvent},
};
use serde_json::Value;

/// The devices of the rank threads, and the number of cores of all threads that share memory. A worker finds its
/// GPUs itself, and keeps the processors to which its launcher has bound it.
pub(super) fn devices(
    plan: &Plan,
    describe: &Description,
    server: Option<&RendezvousServer>,
) -> Result<(Value, usize)> {
    let (usable, alike) =
        server.map_or_else(|| (machine::usable_cores().len(), true), |server| server.cores());
    let cores = Cores { cpu: &describe.run.machine.cpu, alike };
    let devices = backend::factory(&plan.backend).devices(plan, &describe.resources, &cores)?;
    Ok((devices.assigned, devices.reserved_cores.unwrap_or(usable)))
}

/// The end of a run whose rendezvous failed.
pub(super) fn incomplete_rendezvous(
    refusal: &ExitError,
    describe: &Description,
    outputs: &mut Outputs,
) -> Result<Ended> {
    outputs.begin(describe.with_devices(Vec::new(), 0))?;
    let status = match refusal.exit() {
        Exit::Interrupted => Status::Interrupted,
        _ => Status::Failed,
    };
    let message = Some(refusal.to_string());
    Ok(Ended { status, exit: refusal.exit(), message, ..Ended::complete() })
}

impl Launch<'_> {
    /// The first rank thread of each process: it enters barriers at the hub for its process.
    pub(super) fn leaders(&self) -> Vec<usize> {
        let processes = 0..self.plan.processes();
        processes.filter_map(|process| self.plan.rank_threads_of(process).next()).collect()
    }

    /// A worker sent an event, or its connection broke.
    pub(super) fn on_worker(&mut self, process: usize, event: WorkerEvent, outputs: &mut Outputs) {
        match event {
            WorkerEvent::Ended => self.processes[process].running = false,
            WorkerEvent::Gone if self.processes[process].running => {
                self.processes[process].running = false;
                let text = format!(
                    "{} {} lost {}: the process has exited, and its launcher may print how; the other ranks were stopped",
                    self.describe_process(process),
                    if self.holds_one(process) { "was" } else { "were" },
                    self.progress_of_process(process)
                );
                if self.ending.is_none() {
                    // Hydra kills the whole job at once in this case.
                    outputs.say_early(&text);
                }
                self.end(Status::Failed, Exit::RankLost, text);
            }
            WorkerEvent::Gone => {}
            WorkerEvent::Counters(question, counters) => {
                self.on_counters(process, question, *counters);
            }
            WorkerEvent::Silent if self.processes[process].running => {
                let Process { pid, host, .. } = &self.processes[process];
                let text = format!(
                    "{} {} not answered for {} s {}: the process is stopped, or its host or the network between hangs; the other ranks were ended. `ps -o stat= -p {pid}` on {host} prints T for a stopped process; if it is left there, kill -KILL {pid} ends it",
                    self.describe_process(process),
                    if self.holds_one(process) { "has" } else { "have" },
                    SILENCE_TIMEOUT.as_secs(),
                    self.progress_of_process(process)
                );
                if self.ending.is_none() {
                    outputs.say_early(&text);
                }
                self.end(Status::Failed, Exit::RankLost, text);
            }
            WorkerEvent::Silent => {}
            // A launcher sends signals to all processes: this one may get it, too.
            WorkerEvent::Signalled(signal) => {
                let text = format!(
                    "{} received {} {}; the other ranks were stopped; check who sent it, such as a scheduler or a script",
                    self.describe_process(process),
                    signals::signal_name(signal),
                    self.progress_of_process(process)
                );
                self.loss = Some(PendingLoss { due: Instant::now() + LOSS_DELAY, text });
            }
        }
    }

    /// Checks whether workers of this host are stopped: the kernel notifies only their parent.
    pub(super) fn check_stopped_workers(&mut self, now: Instant) {
        if now.duration_since(self.workers_checked) < WORKER_CHECK_INTERVAL {
            return;
        }
        self.workers_checked = now;
        let ours = &self.describe.run.machine.host;
        for process in self.processes.iter_mut().filter(|p| p.is_worker() && p.host == *ours) {
            process.stopped = match machine::is_stopped(&machine::Root::system(), process.pid) {
                true => process.stopped.or(Some(now)),
                false => None,
            };
        }
    }
}
