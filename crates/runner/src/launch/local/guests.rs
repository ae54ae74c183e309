//! What processes of a launcher mean for a job: their devices, what they tell, and how one is missed.
//! Not how they are let in (`party`).

use std::time::Instant;

use anyhow::Result;
use busbw_core::{exit::Exit, plan::Plan, record::Status};

use super::{Job, LOOK_AT_GUESTS, Loss, PATIENCE};
use crate::{
    launch::{Description, invite::Devices},
    outputs::{Ended, Outputs},
    signals,
};
use busbw_core::exit::ExitError;
use busbw_host::machine;
use busbw_job::rendezvous::{Door, News};

/// What drivers drive, and how many cores those have that share memory. Each process of a launcher finds
/// its GPUs itself, and stays where its launcher has bound it.
pub(super) fn devices(
    plan: &Plan,
    describe: &Description,
    door: Option<&Door>,
) -> (Devices, usize) {
    let mut devices = describe.devices(plan);
    let (usable, alike) =
        door.map_or_else(|| (machine::usable_cores().len(), true), |door| door.cores());
    let cores = match &mut devices {
        Devices::Cores { cores, .. } if alike => cores.len(),
        Devices::Cores { cores, .. } => {
            cores.clear();
            usable
        }
        Devices::Gpus { .. } | Devices::Mpi { .. } | Devices::Net { .. } => usable,
    };
    (devices, cores)
}

/// The end of a run to which not everybody came.
pub(super) fn not_all(
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

impl Job<'_> {
    /// The first driver of each process, where they meet at the hub.
    pub(super) fn leaders(&self) -> Vec<usize> {
        let processes = 0..self.plan.processes();
        processes.filter_map(|process| self.plan.rank_threads_of(process).next()).collect()
    }

    /// A process of the launcher has something to tell, or is gone.
    pub(super) fn on_guest(&mut self, process: usize, news: News, outputs: &mut Outputs) {
        match news {
            News::Ended => self.processes[process].running = false,
            News::Gone if self.processes[process].running => {
                self.processes[process].running = false;
                let text = format!(
                    "{} {} lost {}: its process is gone, and its launcher may say how it ended; the other ranks were stopped",
                    self.name_process(process),
                    if self.holds_one(process) { "was" } else { "were" },
                    self.places(process)
                );
                if self.ending.is_none() {
                    // Some launchers kill the whole job at once for it (Hydra).
                    outputs.say_early(&text);
                }
                self.end(Status::Failed, Exit::RankLost, text);
            }
            News::Gone => {}
            // A launcher sends them to all: ours may be on its way.
            News::Signalled(signal) => {
                let text = format!(
                    "{} got {} {}; the other ranks were stopped; see who sent it, such as a scheduler or a script",
                    self.name_process(process),
                    signals::signal_name(signal),
                    self.places(process)
                );
                self.loss = Some(Loss { due: Instant::now() + PATIENCE, text });
            }
        }
    }

    /// Looks whether guests of this host are stopped: nobody tells who is not their parent.
    pub(super) fn look_at_guests(&mut self, now: Instant) {
        if now.duration_since(self.looked_at_guests) < LOOK_AT_GUESTS {
            return;
        }
        self.looked_at_guests = now;
        let ours = &self.describe.run.machine.host;
        for process in self.processes.iter_mut().filter(|p| p.is_guest() && p.host == *ours) {
            process.stopped = match machine::is_stopped(&machine::Root::system(), process.pid) {
                true => process.stopped.or(Some(now)),
                false => None,
            };
        }
    }
}
