//! What a rank's process tells by its end, and what a rank says when it cannot go on: who was lost,
//! how, where, and what to do about it.
//! Not what becomes of the others (`local`).

use std::{collections::BTreeSet, time::Instant};

use busbw_core::{
    exit::Exit,
    plan::{BackendChoice, Memory},
    record::Status,
};
use rustix::process::WaitStatus;
use signal_hook::consts::{
    SIGABRT, SIGBUS, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGKILL, SIGSEGV, SIGTERM,
};

use super::{Job, Late, Loss, PATIENCE};
use crate::{measure::Failure, signals};
use busbw_host::machine::{self, OutOfMemory};

/// So many ranks are named with their processes, more only with their hosts.
const NAMED: usize = 16;

impl Job<'_> {
    /// A rank says that it cannot go on.
    pub(super) fn on_failure(&mut self, rank: usize, why: &str) {
        let failure: Failure = serde_json::from_str(why)
            .unwrap_or_else(|_| Failure::new(Exit::Internal, why.to_owned()));
        let Some(mut missing) = failure.missing else {
            let text = format!("{} cannot go on: {}", self.name(rank), failure.text);
            return self.end(Status::Failed, failure.exit, text);
        };
        if missing.is_empty() {
            // It waited in an exchange: the hub knows for whom.
            missing = self.hub.missing(&self.leaders());
        }
        let due = Instant::now() + PATIENCE;
        let late =
            self.late.get_or_insert_with(|| Late { due, waited: Vec::new(), missing: Vec::new() });
        late.waited.push(rank);
        late.missing.append(&mut missing);
    }

    /// Ends the run for the deadlines that have passed, if some have: for want of a rank that is
    /// stopped, of one that does not wait itself, or of any, in this order.
    pub(super) fn end_for_lateness(&mut self) {
        let Some(Late { waited, missing, .. }) = self.late.take() else { return };
        let stopped = |rank: &&usize| self.processes[self.plan.process(**rank)].stopped.is_some();
        let waits = |rank: &&usize| waited.contains(rank);
        let guilty = missing.iter().find(stopped).or_else(|| missing.iter().find(|r| !waits(r)));
        // Ranks that wait within NCCL know only that they do, and for everybody.
        let in_nccl = matches!(self.plan.backend, BackendChoice::Nccl(_));
        let guilty = if in_nccl { guilty } else { guilty.or(missing.first()) };
        let seconds = self.plan.timeout_s.unwrap_or(0);
        let place = self.place(*guilty.unwrap_or(&waited[0]));
        let text = match guilty {
            Some(rank) => format!(
                "{} did not come within {seconds} s (-T), {place}; rank {} and others waited. Give it more time with -T, or see what that process does",
                self.name(*rank),
                waited[0]
            ),
            None => {
                let names = if waited.len() > NAMED {
                    let drivers: BTreeSet<usize> = waited.into_iter().collect();
                    self.name_all(drivers.into_iter())
                } else {
                    let names: BTreeSet<String> =
                        waited.iter().map(|rank| self.name(*rank)).collect();
                    names.into_iter().collect::<Vec<_>>().join(", ")
                };
                format!(
                    "nobody came back from NCCL within {seconds} s (-T), {place}: {names} wait for each other. Give it more time with -T, or see with NCCL_DEBUG=INFO how far each of them is"
                )
            }
        };
        self.end(Status::Failed, Exit::Timeout, text);
    }

    /// A rank's process stopped, went on, or ended.
    pub(super) fn on_child(&mut self, process: usize, status: WaitStatus) {
        let state = &mut self.processes[process];
        if status.stopped() {
            state.stopped = Some(Instant::now());
            return;
        }
        if status.continued() {
            state.stopped = None;
            return;
        }
        state.running = false;
        let were = if self.holds_one(process) { "was" } else { "were" };
        let how = match (status.terminating_signal(), status.exit_status()) {
            (_, Some(0)) => return,
            (Some(signal), _) => format!("{were} killed by {}", signals::signal_name(signal)),
            (None, code) => format!("ended with exit code {}", code.unwrap_or(-1)),
        };
        let advice = status.terminating_signal().map_or_else(String::new, |s| self.advice(s));
        let text = format!(
            "{} {how} {}; the other ranks were stopped{advice}",
            self.name_process(process),
            self.places(process)
        );
        match status.terminating_signal() {
            // timeout(1), a terminal and a scheduler send these to every process of the run: ours
            // may be on its way. A rank that exits has said why; its word may be on its way.
            None | Some(SIGHUP | SIGINT | SIGTERM) => {
                self.loss = Some(Loss { due: Instant::now() + PATIENCE, text });
            }
            Some(_) => self.end(Status::Failed, Exit::RankLost, text),
        }
    }

    /// Who is to be asked about a crash.
    fn whose_mistake(&self) -> &'static str {
        let on_gpus = self.plan.buffers.is_some_and(|both| both.contains(&Memory::Gpu));
        match self.plan.backend {
            BackendChoice::Mpi if on_gpus => {
                "; an MPI that says that it takes buffers in GPUs' memory, and does not, ends so (CUDA switched off, or a UCX without it): see whether --buffers host ends well"
            }
            BackendChoice::Mpi | BackendChoice::Nccl(_) | BackendChoice::Net => {
                "; that is a mistake in busbw or in a library that it called, which may have said more above: report it with this run's record"
            }
            BackendChoice::Host | BackendChoice::Fake(_) => {
                "; that is a mistake in busbw: report it with this run's record"
            }
        }
    }

    /// What to do about a rank that died of a signal.
    fn advice(&self, signal: i32) -> String {
        let less = "lower -e or -g";
        match signal {
            SIGKILL => {
                let now = machine::out_of_memory(&machine::Root::system());
                match now.since(&self.out_of_memory) {
                    OutOfMemory::InGroup => {
                        let limit = self.describe.run.machine.memory_limit;
                        let limit = limit.map_or_else(String::new, |bytes| {
                            format!(" ({bytes} bytes were left at the start)")
                        });
                        format!(
                            ": the kernel killed for want of memory in this control group{limit}; {less}, or raise the group's limit"
                        )
                    }
                    OutOfMemory::OnMachine => format!(
                        "; the kernel killed for want of memory on this machine meanwhile, and dmesg says whom: {less}"
                    ),
                    OutOfMemory::No => "; not for want of memory, by the kernel's count: see who sent it, such as a scheduler or a script".to_owned(),
                    OutOfMemory::Unknown => {
                        format!("; if the kernel ran out of memory, dmesg says so: {less}")
                    }
                }
            }
            SIGSEGV | SIGBUS | SIGILL | SIGFPE | SIGABRT => self.whose_mistake().to_owned(),
            _ => "; see who sent it, such as a scheduler or a script".to_owned(),
        }
    }
}
