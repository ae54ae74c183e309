//! Lost and failed ranks: which one, how it ended, in which phase, and what to do.
//! Not the end of the other ranks (`supervisor`).

use std::{collections::BTreeSet, time::Instant};

use busbw_core::{
    exit::Exit,
    plan::{Memory, MovedBy},
    record::Status,
};
use rustix::process::WaitStatus;
use signal_hook::consts::{
    SIGABRT, SIGBUS, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGKILL, SIGSEGV, SIGTERM,
};

use super::{LOSS_DELAY, Launch, MissedDeadlines, PendingLoss};
use crate::{measure::Failure, signals};
use busbw_host::machine::{self, OutOfMemory};

/// Up to so many ranks are named with their processes, more only with their hosts.
const MAX_NAMED_RANKS: usize = 16;

impl Launch<'_> {
    /// A rank reported a failure.
    pub(super) fn on_failure(&mut self, rank: usize, why: &str) {
        let failure: Failure = serde_json::from_str(why)
            .unwrap_or_else(|_| Failure::new(Exit::Internal, why.to_owned()));
        let Some(mut missing) = failure.missing else {
            let text = format!("{} failed: {}", self.describe_process_of(rank), failure.text);
            return self.end(Status::Failed, failure.exit, text);
        };
        if missing.is_empty() {
            // It waited in an allgather: the hub knows for which ranks.
            missing = self.hub.missing(&self.leaders());
        }
        let due = Instant::now() + LOSS_DELAY;
        let late = self.late.get_or_insert_with(|| MissedDeadlines {
            due,
            waited: Vec::new(),
            missing: Vec::new(),
        });
        late.waited.push(rank);
        late.missing.append(&mut missing);
    }

    /// Ends the run if deadlines were missed, and blames a rank: one that is stopped, else one that does not wait
    /// itself, else any that is missing.
    pub(super) fn end_for_missed_deadlines(&mut self) {
        let Some(MissedDeadlines { waited, missing, .. }) = self.late.take() else { return };
        let stopped = |rank: &&usize| self.processes[self.plan.process(**rank)].stopped.is_some();
        let waits = |rank: &&usize| waited.contains(rank);
        let guilty = missing.iter().find(stopped).or_else(|| missing.iter().find(|r| !waits(r)));
        // A rank that waits inside NCCL does not know for which ranks.
        let in_nccl = self.plan.backend.spec().moved_by == MovedBy::Nccl;
        let guilty = if in_nccl { guilty } else { guilty.or(missing.first()) };
        let seconds = self.plan.timeout_s.unwrap_or(0);
        let place = self.progress_of(*guilty.unwrap_or(&waited[0]));
        let text = match guilty {
            Some(rank) => format!(
                "{} did not arrive within {seconds} s (-T), {place}; rank {} and others waited for it. Raise -T, or check what that process is doing",
                self.describe_process_of(*rank),
                waited[0]
            ),
            None => {
                let names = if waited.len() > MAX_NAMED_RANKS {
                    let rank_threads: BTreeSet<usize> = waited.into_iter().collect();
                    self.describe_ranks(rank_threads.into_iter())
                } else {
                    let names: BTreeSet<String> =
                        waited.iter().map(|rank| self.describe_process_of(*rank)).collect();
                    names.into_iter().collect::<Vec<_>>().join(", ")
                };
                format!(
                    "NCCL operation timed out after {seconds} s (-T), {place}: {names} are all still inside NCCL. Raise -T, or check with NCCL_DEBUG=INFO how far each of them is"
                )
            }
        };
        self.end(Status::Failed, Exit::Timeout, text);
    }

    /// A rank process of this supervisor was stopped, continued, or exited.
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
            self.describe_process(process),
            self.progress_of_process(process)
        );
        match status.terminating_signal() {
            // timeout(1), a terminal and a scheduler send these to every process of the run: this process may
            // get one, too. A rank that exits has reported why; its report may still arrive.
            None | Some(SIGHUP | SIGINT | SIGTERM) => {
                self.loss = Some(PendingLoss { due: Instant::now() + LOSS_DELAY, text });
            }
            Some(_) => self.end(Status::Failed, Exit::RankLost, text),
        }
    }

    /// What to do about a crash.
    fn crash_advice(&self) -> &'static str {
        let on_gpus = self.plan.buffers.is_some_and(|both| both.contains(&Memory::Gpu));
        match self.plan.backend.spec().moved_by {
            MovedBy::Mpi if on_gpus => {
                "; an MPI that reports support for GPU buffers without having it crashes like this (CUDA switched off, or a UCX without CUDA): check whether --buffers host works"
            }
            by if by.is_library() => {
                "; that is a bug in busbw or in a library that it called, which may have printed more above: report it with this run's record"
            }
            _ => "; that is a bug in busbw: report it with this run's record",
        }
    }

    /// What to do about a rank that a signal killed.
    fn advice(&self, signal: i32) -> String {
        let less = "lower -e or -g";
        match signal {
            SIGKILL => {
                let now = machine::out_of_memory(&machine::Root::system());
                match now.since(&self.out_of_memory) {
                    OutOfMemory::InGroup => {
                        let limit = self.describe.run.machine.memory_limit;
                        let limit = limit.map_or_else(String::new, |bytes| {
                            format!(" ({bytes} bytes were available at the start)")
                        });
                        format!(
                            ": the kernel's out-of-memory killer acted in this control group{limit}; {less}, or raise the group's limit"
                        )
                    }
                    OutOfMemory::OnMachine => format!(
                        "; the kernel's out-of-memory killer acted on this machine meanwhile, and dmesg names the process: {less}"
                    ),
                    OutOfMemory::No => "; the kernel counts no out-of-memory kill: check who sent the signal, such as a scheduler or a script".to_owned(),
                    OutOfMemory::Unknown => {
                        format!("; check with dmesg whether the kernel ran out of memory; if so, {less}")
                    }
                }
            }
            SIGSEGV | SIGBUS | SIGILL | SIGFPE | SIGABRT => self.crash_advice().to_owned(),
            _ => "; check who sent the signal, such as a scheduler or a script".to_owned(),
        }
    }
}
