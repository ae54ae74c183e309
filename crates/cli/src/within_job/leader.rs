//! Process 0 of a launcher's job: gathers the other processes, orders launches, and waits until all parts have ended.
//! Not a launch's own child of this process: its caller starts and watches that.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    net::TcpListener,
    process::Command,
    sync::{Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::exit::{Exit, ExitError};
use busbw_host::machine;
use busbw_job::{
    launched::Launched,
    rendezvous::{RendezvousServer, WorkerEvent, end_with_parent, token},
};

use super::order::Order;

/// How long the other processes' parts may take to end after process 0's: they lose their connection to it at once.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);
/// The same where the launch's time is over already: what was interrupted on process 0 ends elsewhere a moment later.
const MIN_SETTLE_TIME: Duration = Duration::from_secs(2);

/// The job.
pub(crate) struct Leader {
    server: RendezvousServer,
    events: Mutex<mpsc::Receiver<(usize, WorkerEvent)>>,
    /// Each process's host.
    hosts: Vec<String>,
    /// This process, as the others reach it.
    address: String,
}

impl Leader {
    /// Waits until the other processes of the job have joined. `args` is the command line, the same in all of them.
    ///
    /// # Errors
    /// Names the process that does not join in time, or cannot take part.
    pub(crate) fn gather(launched: &Launched, args: &[OsString]) -> Result<Leader> {
        let mut server = RendezvousServer::open(launched, args)?;
        end_with_parent();
        if let Err(refusal) = server.gather_statements(String::new()) {
            let exit = refusal.exit();
            server.broadcast_exit(exit);
            return Err(refusal.into());
        }
        let (sender, events) = mpsc::channel();
        server.follow_workers(sender, |process, event| (process, event))?;
        let mut hosts = vec![machine::host_name()];
        hosts.extend(server.workers().map(|(_, worker)| worker.host.clone()));
        let reached = server.workers().find_map(|(_, worker)| worker.local_address());
        let address = reached.map_or_else(|| "127.0.0.1".to_owned(), |ip| ip.to_string());
        Ok(Leader { server, events: Mutex::new(events), hosts, address })
    }

    /// Has every other process start its part of a launch, and gives `command`, this process's own part, its
    /// environment. All get `words`, and `variables` set, or removed where they have no value.
    ///
    /// # Errors
    /// A process of the job has ended, or no port is free.
    pub(crate) fn order(
        &self,
        words: &[OsString],
        variables: Vec<(String, Option<String>)>,
        command: &mut Command,
    ) -> Result<()> {
        let text = |word: &OsString| {
            let text = word.to_str().map(str::to_owned);
            text.with_context(|| {
                format!("{} is not UTF-8: other processes cannot get it", word.to_string_lossy())
            })
        };
        let free = TcpListener::bind(("0.0.0.0", 0)).context("cannot find a free port")?;
        let own = Order {
            words: words.iter().map(text).collect::<Result<_>>()?,
            variables,
            rank: 0,
            size: self.hosts.len(),
            local_rank: 0,
            local_size: 0,
            port: free.local_addr().context("cannot find a free port")?.port(),
            secret: token()?,
        };
        drop(free);
        for (process, worker) in self.server.workers() {
            worker.assign(&self.part(&own, process), &[])?;
        }
        self.part(&own, 0).apply(command, &self.address);
        Ok(())
    }

    fn part(&self, order: &Order, process: usize) -> Order {
        let host = self.hosts.get(process);
        let here =
            |until: usize| self.hosts.iter().take(until).filter(|h| Some(*h) == host).count();
        Order {
            rank: process,
            local_rank: here(process),
            local_size: here(self.hosts.len()),
            ..order.clone()
        }
    }

    /// Waits until all other processes' parts of the last launch have ended: until `until`, where there is such a time, and
    /// never longer than 20 s.
    ///
    /// # Errors
    /// Names a process that was lost, or whose part has not ended in time and was aborted.
    pub(crate) fn settle(&self, until: Option<Instant>) -> Result<(), ExitError> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running: BTreeSet<usize> = self.server.workers().map(|(one, _)| one).collect();
        let begun = Instant::now();
        let limit = begun + SETTLE_TIMEOUT;
        let due = until.map_or(limit, |until| limit.min(until.max(begun + MIN_SETTLE_TIME)));
        let named = |process: usize| {
            format!("process {process} on {}", self.hosts.get(process).map_or("?", String::as_str))
        };
        while !running.is_empty() {
            match events.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok((process, WorkerEvent::Ended)) => _ = running.remove(&process),
                Ok((process, event @ (WorkerEvent::Gone | WorkerEvent::Silent))) => {
                    let how =
                        if event == WorkerEvent::Gone { "was lost" } else { "does not answer" };
                    let text = format!("{} of the launcher's job {how}", named(process));
                    return Err(ExitError::new(Exit::RankLost, text));
                }
                Ok(_) => {}
                Err(_) => {
                    for (_, worker) in
                        self.server.workers().filter(|(one, _)| running.contains(one))
                    {
                        worker.abort();
                    }
                    let all: Vec<String> = running.iter().copied().map(named).collect();
                    let text = format!(
                        "the launch did not end on {} within {} s of its end on process 0",
                        all.join(", "),
                        begun.elapsed().as_secs()
                    );
                    return Err(ExitError::new(Exit::Timeout, text));
                }
            }
        }
        Ok(())
    }

    /// Tells all other processes what the job's end means.
    pub(crate) fn conclude(&self, text: &str) {
        self.server.workers().for_each(|(_, worker)| worker.conclude(text));
    }

    /// Ends all other processes with this exit code.
    pub(crate) fn end(self: Box<Self>, exit: Exit) {
        self.server.broadcast_exit(exit);
    }
}
