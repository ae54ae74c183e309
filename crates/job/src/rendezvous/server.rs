//! The rendezvous server of the coordinator: it admits authenticated workers, refuses the run when one cannot take
//! part or does not join in time, and broadcasts the exit code.
//! Not what a lost worker means for the run (`busbw-runner`).

use std::{
    collections::BTreeSet,
    ffi::OsString,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::{exit::Exit, plan::Plan};

use super::{JoinRequest, Worker, WorkerEvent, interface, rendezvous_timeout};
use crate::rendezvous::{
    accept::{self, Arrival},
    address::Rendezvous,
    heartbeats::Heartbeats,
    missing_workers,
    missing_workers::{JoinedProcess, ProcessLabel},
    worker_events,
};
use crate::{heartbeat::EventLoop, launched::Launched, leftover, naming, open_files};
use busbw_core::exit::ExitError;
use busbw_ffi::mpi::Launcher;
use busbw_host::machine;

/// How long late workers of a run that never began may take to join, to receive its exit code.
const LATE_JOIN_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a launcher may take to forward the last lines.
const FORWARD_DELAY: Duration = Duration::from_millis(300);
/// How often `stop` and the deadline are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The server. It stops accepting when all workers have joined.
pub struct RendezvousServer {
    ours: JoinRequest,
    rendezvous: Arc<Rendezvous>,
    /// The host of every process, where the launcher tells; else empty.
    hosts: Vec<String>,
    workers: Vec<Option<Worker>>,
    arrivals: mpsc::Receiver<Arrival>,
    /// Another version of busbw that could not join, and where it is.
    other_version: Option<String>,
    closing: Arc<AtomicBool>,
    /// Whether the launcher waits for a stopped worker.
    waits_for_stopped: bool,
    /// Its heartbeats go to all workers, from their handshake on.
    heartbeats: Heartbeats,
}

impl RendezvousServer {
    /// Starts the server of the job that `launched` describes, whose process 0 was started with `args`.
    ///
    /// # Errors
    /// When the rendezvous has no address, or it is in use.
    pub fn open(launched: &Launched, args: &[OsString]) -> Result<RendezvousServer> {
        // Before the first worker connects.
        open_files::raise(launched.size);
        let rendezvous = Arc::new(Rendezvous::of(launched)?);
        let listener = rendezvous.listen()?;
        let closing = Arc::new(AtomicBool::new(false));
        let (sender, arrivals) = mpsc::channel();
        let (stop_accepting, accepting) = (Arc::clone(&closing), Arc::clone(&rendezvous));
        let (heartbeats, joined) = Heartbeats::begin()?;
        std::thread::Builder::new()
            .name("rendezvous".to_owned())
            .spawn(move || {
                accept::accept_workers(&listener, &accepting, &sender, &joined, &stop_accepting);
            })
            .context("cannot start a thread for the other processes of this launcher's job")?;
        Ok(RendezvousServer {
            ours: JoinRequest::of_this_process(launched, args),
            rendezvous,
            hosts: launched.hosts.clone(),
            workers: vec![None; launched.size],
            arrivals,
            other_version: None,
            closing,
            // Open MPI's kills all processes when this one fails.
            waits_for_stopped: launched.by != Launcher::OpenMpi,
            heartbeats,
        })
    }

    /// The event loop of this process, of which heartbeats tell.
    pub fn event_loop(&self) -> &EventLoop {
        self.heartbeats.event_loop()
    }

    /// Whether all processes are on this host.
    pub fn is_here(&self) -> bool {
        self.rendezvous.is_here()
    }

    /// This host's addresses that accept control connections; empty for all of them.
    pub fn control_addresses(&self) -> Vec<IpAddr> {
        self.rendezvous.interface().map_or_else(Vec::new, |chosen| chosen.ips())
    }

    /// The interfaces over which workers have connected; none within a host.
    pub fn control_interfaces(&self) -> Option<String> {
        let mut addresses: Vec<IpAddr> =
            self.workers().filter_map(|(_, worker)| worker.local_address()).collect();
        if addresses.iter().any(|ip| !ip.is_loopback()) {
            // Workers on this host may connect over loopback.
            addresses.retain(|ip| !ip.is_loopback());
        }
        let all = interface::addresses().unwrap_or_default();
        (!addresses.is_empty())
            .then(|| format!("control over {}", interface::describe(addresses, &all)))
    }

    /// Waits until all workers have joined, or `stop` returns true. `tuner` is what this process's ranks' tuner chooses
    /// by, empty without one.
    ///
    /// # Errors
    /// Names the worker that does not join in time, joins twice, or cannot take part.
    pub fn gather_workers(
        &mut self,
        plan: &Plan,
        tuner: &str,
        stop: impl Fn() -> bool,
    ) -> Result<(), ExitError> {
        let name = plan.backend.name();
        if plan.backend.spec().shares_memory && !self.is_here() {
            let text = format!(
                "--backend {name} needs memory that all ranks share, and this launcher sets no variable that names its job, by which ranks would find it: use --backend nccl, or start busbw without the launcher, with -g for the number of ranks"
            );
            return Err(ExitError::new(Exit::Usage, text));
        }
        self.ours.backend = name.to_owned();
        self.ours.tuner = tuner.to_owned();
        let label = ProcessLabel { noun: "rank", each: plan.ranks_each() };
        self.wait_for_workers(rendezvous_timeout(plan.timeout_s), label, stop).map(drop)
    }

    /// Gathers one text from every process of the job, where none runs ranks: `statement` is process 0's own.
    ///
    /// # Errors
    /// Names the worker that does not join in time, joins twice, or cannot take part.
    pub fn gather_statements(&mut self, statement: String) -> Result<Vec<String>, ExitError> {
        let label = ProcessLabel { noun: "process", each: 1 };
        let mut statements = self.wait_for_workers(rendezvous_timeout(None), label, || false)?;
        statements[0] = statement;
        Ok(statements)
    }

    /// Waits until all workers have joined. Returns the statement of each process.
    fn wait_for_workers(
        &mut self,
        limit: Duration,
        label: ProcessLabel,
        stop: impl Fn() -> bool,
    ) -> Result<Vec<String>, ExitError> {
        if let Some(wrong) = self.rendezvous.interface_error() {
            return Err(wrong);
        }
        let deadline = Instant::now() + limit;
        let mut statements = vec![String::new(); self.workers.len()];
        let mut missing = self.workers.len() - 1;
        while missing > 0 {
            if stop() {
                return Err(ExitError::new(Exit::Interrupted, "interrupted"));
            }
            if Instant::now() >= deadline {
                return Err(ExitError::new(Exit::Timeout, self.describe_missing(label, limit)));
            }
            match self.arrivals.recv_timeout(POLL_INTERVAL) {
                Ok(Err(other)) => self.other_version = Some(other),
                Ok(Ok((request, worker))) => {
                    let checked = self.check(label, &request);
                    if let Err(error) = checked {
                        worker.exit(error.exit());
                        return Err(error);
                    }
                    statements[request.process] = request.statement;
                    self.workers[request.process] = Some(worker);
                    missing -= 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ExitError::new(
                        Exit::Internal,
                        "the rendezvous server's thread has ended",
                    ));
                }
            }
        }
        self.closing.store(true, Ordering::SeqCst);
        Ok(statements)
    }

    /// Names the processes that have not joined, and the hosts of those that have.
    fn describe_missing(&self, label: ProcessLabel, limit: Duration) -> String {
        let size = self.workers.len();
        let mut present = vec![JoinedProcess {
            process: 0,
            host: &self.ours.host,
            processes_of_host: self.ours.processes_of_host.clone(),
        }];
        present.extend(self.workers().map(|(process, worker)| JoinedProcess {
            process,
            host: &worker.host,
            processes_of_host: worker.processes_of_host.clone(),
        }));
        let (here, late) = if self.is_here() {
            let late: Vec<usize> =
                (1..size).filter(|process| self.workers[*process].is_none()).collect();
            (format!(" on {}", self.ours.host), label.name(&late))
        } else {
            (String::new(), missing_workers::describe_missing(size, &self.hosts, &present, label))
        };
        let other = self.other_version.as_ref().map_or_else(String::new, |other| {
            format!(
                ". A process of busbw {other} could not join, and rank 0 is busbw {}: install one version on all hosts",
                self.ours.version
            )
        });
        format!(
            "{} of {size} processes did not join within {} s{here}: {late}. {} accepts them {}; those that joined are on {}. Check that the missing processes run, or raise the timeout with -T{other}",
            size - present.len(),
            limit.as_secs(),
            if label.noun == "rank" { "Rank 0" } else { "Process 0" },
            self.rendezvous.describe(),
            naming::hosts(present.iter().map(|one| one.host)),
        )
    }

    /// Checks that a process can take part: the run needs every one.
    ///
    /// # Errors
    /// Names the process, and what is wrong with it.
    fn check(&self, label: ProcessLabel, request: &JoinRequest) -> Result<(), ExitError> {
        let (process, size) = (request.process, self.workers.len());
        if request.size != size || process == 0 || process >= size {
            let text = format!(
                "process {} on {} is number {process} of {}, and this one is number 0 of {size}: they do not belong to one job",
                request.pid, request.host, request.size
            );
            return Err(ExitError::new(Exit::Usage, text));
        }
        let whose =
            format!("{} (process {} on {})", label.name(&[process]), request.pid, request.host);
        if let Some(other) = &self.workers[process] {
            let text =
                format!("{whose} has joined already, as process {} on {}", other.pid, other.host);
            return Err(ExitError::new(Exit::Usage, text));
        }
        if let Some(difference) = self.ours.difference(request) {
            return Err(ExitError::new(Exit::Usage, format!("{whose} {difference}")));
        }
        if let Some((exit, why)) = &request.failure {
            return Err(ExitError::new(*exit, format!("{whose} cannot take part: {why}")));
        }
        if self.ours.backend != request.backend {
            let text = format!(
                "{whose} would use --backend {}, and rank 0 on {} uses {}: choose one with --backend, or run busbw doctor on both hosts to see how they differ",
                request.backend, self.ours.host, self.ours.backend
            );
            return Err(ExitError::new(Exit::Impossible, text));
        }
        if let Some(difference) = self.ours.other_tuner(request) {
            return Err(ExitError::new(Exit::Usage, format!("{whose} {difference}")));
        }
        Ok(())
    }

    /// The workers that have joined, with their process numbers, from 1.
    pub fn workers(&self) -> impl Iterator<Item = (usize, &Worker)> {
        self.workers
            .iter()
            .enumerate()
            .filter_map(|(process, worker)| Some((process, worker.as_ref()?)))
    }

    /// Sends an event for everything that happens to a worker, from now on.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn follow_workers<E: Send + 'static>(
        &self,
        events: Sender<E>,
        event: impl Fn(usize, WorkerEvent) -> E + Send + 'static,
    ) -> Result<()> {
        worker_events::follow(self.workers(), events, event)
    }

    /// How many processors all processes together may use, and whether each may use the same ones.
    pub fn cores(&self) -> (usize, bool) {
        let ours = &self.ours.cores;
        let alike = self.workers().all(|(_, worker)| worker.cores == *ours);
        let theirs = self.workers().flat_map(|(_, worker)| &worker.cores);
        let all: BTreeSet<&usize> = theirs.chain(ours).collect();
        (all.len(), alike)
    }

    /// Sends every worker the exit code. Workers that join late, after a run that never began, receive it, too.
    pub fn broadcast_exit(mut self, exit: Exit) {
        let deadline = Instant::now() + LATE_JOIN_TIMEOUT;
        while self.workers.iter().skip(1).any(Option::is_none) && Instant::now() < deadline {
            let Ok(Ok((request, worker))) = self.arrivals.recv_timeout(POLL_INTERVAL) else {
                continue;
            };
            worker.exit(exit);
            if let Some(place) = self.workers.get_mut(request.process) {
                *place = Some(worker);
            }
        }
        self.closing.store(true, Ordering::SeqCst);
        self.workers().for_each(|(_, worker)| worker.exit(exit));
        if exit != Exit::Ok && self.waits_for_stopped {
            self.end_stopped_workers();
        }
    }

    /// Ends the workers of this host that are stopped, since the launcher would wait for them.
    fn end_stopped_workers(&self) {
        let here = || self.workers().filter(|(_, worker)| worker.host == self.ours.host);
        let is_stopped =
            |worker: &Worker| machine::is_stopped(&machine::Root::system(), worker.pid);
        if here().any(|(_, worker)| is_stopped(worker)) {
            // Hydra kills everything when one dies of a signal: first it forwards what this process has printed.
            std::thread::sleep(FORWARD_DELAY);
            for (_, worker) in here() {
                leftover::end_stopped(worker.pid);
            }
        }
    }
}

impl Drop for RendezvousServer {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_named_among_the_missing() {
        let job = Some(format!("another version {}", std::process::id()));
        let launched = Launched { job, ..Launched::planned(2, true) };
        let mut server = RendezvousServer::open(&launched, &["busbw".into()]).unwrap();
        let worker = Rendezvous::of(&launched).unwrap().connect(&[], 0).unwrap();
        worker
            .send(&serde_json::json!({"protocol": 99, "version": "9.9.9", "nonce": "1"}))
            .unwrap();
        let label = ProcessLabel { noun: "rank", each: 1 };
        let limit = Duration::from_secs(1);
        let error = server.wait_for_workers(limit, label, || false).unwrap_err().to_string();
        let text = format!(
            ". A process of busbw 9.9.9 on this host could not join, and rank 0 is busbw {}: install one version on all hosts",
            env!("CARGO_PKG_VERSION")
        );
        assert!(error.ends_with(&text), "{error}");
    }
}
