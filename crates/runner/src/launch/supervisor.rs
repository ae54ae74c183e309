//! The supervisor: starts rank processes, or assigns ranks to a launcher's workers, sleeps until an event, and ends
//! all ranks when one is lost. It is never a rank, owns the outputs, and leaves nothing behind.
//! Not the inside of a rank process (`rank`).

mod agreement;
mod counting;
mod describe_ranks;
mod events;
mod loss;
mod other_hosts;
mod sharing;
mod timeouts;
mod workers;

use std::{
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::{
    algorithm::Table,
    exit::Exit,
    plan::Plan,
    record::{Device, GpuMemory, Run, Status},
};
use busbw_job::world::{Hub, ListenScope};
use busbw_shm::{Buffers, Control, Mailboxes};

use self::{counting::larger, events::Event, other_hosts::OtherHosts};
use super::{
    Description,
    process::{self, Process},
};
use crate::launch::{
    rank_assignment,
    rank_assignment::{Facts, RankAssignment},
};
use crate::outputs::{Ended, Outputs};
use crate::signals::Guard;
use busbw_host::{
    counters::Counters,
    machine::{self, OutOfMemoryKills},
};
use busbw_job::{heartbeat::EventLoop, open_files, rendezvous::RendezvousServer};

/// How long ranks may take to join the hub: they only start and map memory.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long ranks may take to exit after the run has ended, before they are killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long killed ranks of an interrupted run are waited for: unmapping many GB takes longer than users wait, and the
/// kernel ends it without us.
const UNMAP_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a lost rank is held back as the reason: a signal to this process, too, or the rank's own report
/// explains it better.
const LOSS_DELAY: Duration = Duration::from_millis(300);
/// Longest sleep between two checks of the timeouts above.
const TICK_INTERVAL: Duration = Duration::from_millis(200);
/// The same while the reader of stdout pauses, and with it the rank that waits for its row.
const BACKPRESSURE_TICK_INTERVAL: Duration = Duration::from_millis(10);
/// How often workers of this host are checked for being stopped: each check reads a file.
const WORKER_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// A sleep of this length means that this process was stopped itself: no timeout counts it.
const SUSPENDED_THRESHOLD: Duration = Duration::from_secs(1);

/// Runs every launch of the plan; the workers of a launcher join at `server`.
///
/// # Errors
/// When the ranks cannot be started, or an output cannot be written.
pub(super) fn run(
    plan: &Plan,
    describe: &mut Description,
    guard: &Guard,
    outputs: &mut Outputs,
    mut server: Option<&mut RendezvousServer>,
    event_loop: &EventLoop,
) -> Result<Ended> {
    let room = open_files::for_everyone(plan);
    let tuner = describe.resources.agreement_of_tuner();
    let gathered = room.and_then(|()| {
        server
            .as_mut()
            .map_or(Ok(()), |server| server.gather_workers(plan, &tuner, || guard.is_signalled()))
    });
    if let Err(refusal) = gathered {
        return workers::incomplete_rendezvous(&refusal, describe, outputs);
    }
    if let Some(control) = server.as_ref().and_then(|server| server.control_interfaces()) {
        outputs.remark(&control);
        describe.run.remarks.push(control);
    }
    let describe = &*describe;
    let (sender, events) = mpsc::channel();
    let signals = sender.clone();
    // After the last rank no event is read: `guard` records later signals.
    guard.relay(move |signal| drop(signals.send(Event::Signal(signal))));
    let (mut peak, mut gpu_memory) = (0, None);
    let mut counters = Counters::default();
    let mut tables = rank_assignment::tables(plan, &describe.run.machine);
    for launch in 0..plan.sampling.launches {
        let mut running =
            Launch::start(plan, describe, server.as_deref(), &tables, launch, &sender)?;
        running.counters = counters;
        let ended = running.follow(&events, outputs, event_loop);
        event_loop.leave();
        let ended = ended?;
        counters = std::mem::take(&mut running.counters);
        // The next launch reuses what this one measured, also without a cache on disk.
        tables.append(&mut running.measured);
        peak = peak.max(ended.peak_rank_bytes);
        gpu_memory = larger(gpu_memory, ended.gpu_memory);
        if ended.status != Status::Complete {
            return Ok(ended);
        }
    }
    Ok(Ended { peak_rank_bytes: peak, gpu_memory, ..Ended::complete() })
}

/// One launch: its processes, and the state of its end.
struct Launch<'a> {
    plan: &'a Plan,
    describe: &'a Description,
    launch: u32,
    hub: Hub,
    control: Arc<Control>,
    /// Whether processes share no memory, since they may be on several hosts.
    apart: bool,
    processes: Vec<Process>,
    /// What rank threads reported when they joined.
    facts: Vec<Option<Facts>>,
    /// Why the run is ending early, once it is.
    ending: Option<Ended>,
    /// A lost rank that ends the run when it is due, unless a better reason arrives before.
    loss: Option<PendingLoss>,
    /// Ranks that missed a deadline, until it is known which rank they waited for.
    late: Option<MissedDeadlines>,
    /// When what still runs is killed.
    kill_at: Option<Instant>,
    /// The kernel's count of out-of-memory kills when the launch began.
    out_of_memory: OutOfMemoryKills,
    join_deadline: Instant,
    /// When timeouts were last checked, and when the workers of this host were.
    last_check: Instant,
    workers_checked: Instant,
    begun: bool,
    /// Ranks whose row is not on stdout yet.
    held: Vec<usize>,
    /// The tables of fastest algorithms that ranks measured.
    measured: Vec<Table>,
    peak: u64,
    gpu_memory: Option<GpuMemory>,
    /// The counters of devices, read around each row.
    counters: Counters,
    /// Those of the other hosts.
    other_hosts: OtherHosts,
    /// The row under way and its size in bytes.
    progress: (u64, u64),
}

/// A rank was lost, and the reason may still arrive.
struct PendingLoss {
    due: Instant,
    text: String,
}

/// Deadlines that some ranks missed. A rank that itself waits for another is not to blame.
struct MissedDeadlines {
    due: Instant,
    waited: Vec<usize>,
    missing: Vec<usize>,
}

impl Drop for Launch<'_> {
    /// No rank outlives its launch, whatever error ended it.
    fn drop(&mut self) {
        self.control.abort();
        for process in self.processes.iter_mut().filter(|p| p.running) {
            process.kill(Exit::Internal);
        }
    }
}

impl<'a> Launch<'a> {
    fn start(
        plan: &'a Plan,
        describe: &'a Description,
        server: Option<&RendezvousServer>,
        tables: &[Table],
        launch: u32,
        events: &Sender<Event>,
    ) -> Result<Launch<'a>> {
        let rank_threads = plan.rank_threads();
        let verified = plan.has_check_buffer();
        let control_fd = Control::create(rank_threads)?;
        let control = Control::map(&control_fd, rank_threads)?;
        let shared = if plan.backend.spec().shares_memory { plan.ranks() } else { 0 };
        let buffer_fds = (0..shared)
            .map(|rank| Buffers::create(rank, plan.buffer_bytes(), verified))
            .collect::<Result<Vec<OwnedFd>, _>>()?;
        let messages = shared > 0 && plan.benchmark.is_between_pairs();
        let mailboxes = messages.then(|| Mailboxes::create(shared)).transpose()?;
        let begin = serde_json::to_vec(plan).context("cannot serialise the plan")?;
        let apart = server.is_some_and(|server| !server.is_here());
        let memories = if apart { plan.processes() } else { 1 };
        let scope = match server {
            Some(server) if apart => ListenScope::Network(server.control_addresses()),
            _ => ListenScope::Host,
        };
        let hub = Hub::open(
            rank_threads,
            memories,
            scope,
            &busbw_job::rendezvous::token()?,
            &begin,
            events.clone(),
        )
        .context("cannot open a socket for the ranks")?;
        let (devices, cores) = workers::devices(plan, describe, server)?;
        let assignment = RankAssignment {
            hub: hub.address(),
            token: hub.token().to_owned(),
            supervisor: std::process::id() as i32,
            control: control_fd.as_raw_fd(),
            mailboxes: mailboxes.as_ref().map(AsRawFd::as_raw_fd),
            buffers: buffer_fds.iter().map(AsRawFd::as_raw_fd).collect(),
            buffer_bytes: plan.buffer_bytes(),
            verified,
            rank_threads,
            process: 0,
            own_threads: Vec::new(),
            apart,
            cores,
            backend: plan.backend,
            devices,
            host: describe.run.machine.host.clone(),
            tables: tables.to_vec(),
            launch,
        };
        let mut running = Launch {
            plan,
            describe,
            launch,
            hub,
            control,
            apart,
            processes: Vec::new(),
            facts: vec![None; rank_threads],
            ending: None,
            loss: None,
            late: None,
            kill_at: None,
            out_of_memory: machine::out_of_memory(&machine::Root::system()),
            join_deadline: Instant::now() + JOIN_TIMEOUT,
            last_check: Instant::now(),
            workers_checked: Instant::now(),
            begun: false,
            held: Vec::new(),
            measured: Vec::new(),
            peak: 0,
            gpu_memory: None,
            counters: Counters::default(),
            other_hosts: OtherHosts::default(),
            progress: (0, plan.min_bytes),
        };
        let ours = if server.is_some() { 1 } else { plan.processes() };
        let assigned = |process| {
            let own_threads = plan.rank_threads_of(process).collect();
            RankAssignment { process, own_threads, ..assignment.clone() }
        };
        for process in 0..ours {
            let event = move |status| Event::Child { process, status };
            running.processes.push(process::spawn(&assigned(process), events.clone(), event)?);
        }
        let memory = std::iter::once(&control_fd).chain(&mailboxes).chain(&buffer_fds);
        let memory = memory.map(AsFd::as_fd);
        let memory = if apart { Vec::new() } else { memory.collect() };
        if let Some(server) = server {
            for (process, worker) in server.workers() {
                // A worker finds its own devices: the assignment leaves them out.
                worker.assign(&assigned(process).for_worker(), &memory)?;
                running.processes.push(Process::of_worker(worker.clone()));
            }
            server.follow_workers(events.clone(), |process, event| Event::Worker {
                process,
                event,
            })?;
        }
        Ok(running)
    }

    /// Handles events until every process has exited.
    fn follow(
        &mut self,
        events: &Receiver<Event>,
        outputs: &mut Outputs,
        event_loop: &EventLoop,
    ) -> Result<Ended> {
        while self.processes.iter().any(|p| p.running) && !self.leaves_ranks_to_the_kernel() {
            event_loop.advance();
            match events.recv_timeout(if self.held.is_empty() {
                TICK_INTERVAL
            } else {
                BACKPRESSURE_TICK_INTERVAL
            }) {
                Ok(event) => self.on_event(event, outputs)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.on_reader(outputs)?;
            self.on_time();
        }
        // The last reports of a process may arrive after its exit, and so may the signal that ended it.
        while let Ok(event) = events.recv_timeout(self.event_timeout()) {
            self.on_event(event, outputs)?;
        }
        self.write_waiting_row(outputs)?;
        self.end_for_missed_deadlines();
        if let Some(loss) = self.loss.take() {
            self.end(Status::Failed, Exit::RankLost, loss.text);
        }
        if self.ending.is_some() && !self.begun {
            // The record and the table name what was to run, and the ranks that had joined.
            self.begun = true;
            outputs.begin(self.run())?;
        }
        let ended = self.ending.take().unwrap_or_else(Ended::complete);
        self.report_xids(&ended, outputs);
        Ok(Ended { peak_rank_bytes: self.peak, gpu_memory: self.gpu_memory, ..ended })
    }

    /// Whether the run was interrupted, and its ranks were killed and still unmap their memory.
    fn leaves_ranks_to_the_kernel(&self) -> bool {
        let interrupted =
            self.ending.as_ref().is_some_and(|ending| ending.status == Status::Interrupted);
        interrupted && self.kill_at.is_some_and(|at| Instant::now() >= at + UNMAP_TIMEOUT)
    }

    /// How long to wait for one more event after every process has exited.
    fn event_timeout(&self) -> Duration {
        match &self.loss {
            Some(loss) if self.ending.is_none() => {
                loss.due.saturating_duration_since(Instant::now())
            }
            _ if self.hub.is_empty() => Duration::ZERO,
            // Their sockets are closed: the hub reads every report, and then the end of the stream.
            _ => Duration::from_secs(1),
        }
    }

    /// Ends the run; the first reason counts.
    fn end(&mut self, status: Status, exit: Exit, text: String) {
        if self.ending.is_none() {
            self.stop(&text);
            self.ending = Some(Ended { status, exit, message: Some(text), ..Ended::complete() });
        }
    }

    fn end_quietly(&mut self, status: Status, exit: Exit) {
        if self.ending.is_none() {
            self.stop("the reader of stdout is gone");
            self.ending = Some(Ended { status, exit, ..Ended::complete() });
        }
    }

    fn stop(&mut self, why: &str) {
        self.control.abort();
        self.hub.abort(why);
        self.processes.iter().for_each(Process::stop);
        if self.kill_at.is_none() {
            self.kill_at = Some(Instant::now() + EXIT_TIMEOUT);
        }
    }

    /// The record's first line, with the devices of the ranks that have joined.
    fn run(&self) -> Run {
        let library = self.facts.iter().flatten().map(|facts| facts.nccl).max().unwrap_or(0);
        self.describe.with_devices(self.devices(), library)
    }

    fn devices(&self) -> Vec<Device> {
        let devices = self.facts.iter().enumerate().filter_map(|(rank_thread, facts)| {
            let facts = facts.as_ref()?;
            let host = &self.processes[self.plan.process(rank_thread)].host;
            Some(self.plan.ranks_of(rank_thread).zip(&facts.devices).map(move |(rank, device)| {
                device.of_rank(rank, self.plan.colour(rank), facts.pid, host)
            }))
        });
        devices.flatten().collect()
    }
}
