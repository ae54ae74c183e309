//! The supervisor of ranks: starts their processes, or tells a launcher's, sleeps until something happens,
//! and ends them all when one is lost. It is never a rank, owns the outputs, and leaves nothing behind.
//! Not a rank's life (`rank`).

mod agreement;
mod counting;
mod events;
mod guests;
mod loss;
mod patience;
mod sharing;
mod whereabouts;

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
    plan::{BackendChoice, Plan},
    record::{Device, GpuMemory, Run, Status},
};
use busbw_job::world::{Hub, Reach};
use busbw_shm::{Buffers, Control, Mailboxes};

use self::{counting::larger, events::Event};
use super::{
    Description,
    invite::{self, Facts, Invite},
    process::{self, Process},
};
use crate::outputs::{Ended, Outputs};
use crate::signals::Guard;
use busbw_host::{
    counters::Counters,
    machine::{self, OutOfMemoryKills},
};
use busbw_job::{open_files, rendezvous::Door};

/// How long ranks may take to join. They only have to start and map memory.
const JOIN: Duration = Duration::from_secs(30);
/// How long a stopped rank may stay stopped: a debugger or Ctrl-Z is not a loss yet.
const STOPPED: Duration = Duration::from_secs(5);
/// How long ranks get to end by themselves once the run is over or lost.
const GRACE: Duration = Duration::from_secs(2);
/// How long a loss waits for a better reason: a signal that went to us as well as to the ranks, or
/// a rank's own word about why it ended.
const PATIENCE: Duration = Duration::from_millis(300);
/// Longest sleep without a look at the times above.
const TICK: Duration = Duration::from_millis(200);
/// The same while a reader of stdout pauses, and with it the rank whose row it has not taken.
const HELD_TICK: Duration = Duration::from_millis(10);
/// Between two looks whether guests of this host are stopped: each is a file to read.
const LOOK_AT_GUESTS: Duration = Duration::from_millis(500);
/// After a sleep this long, we were stopped ourselves, and nobody else's time has run out.
const ASLEEP: Duration = Duration::from_secs(1);

/// Runs every launch of the plan; the processes of a launcher come in at `door`.
pub(super) fn run(
    plan: &Plan,
    describe: &mut Description,
    guard: &Guard,
    outputs: &mut Outputs,
    mut door: Option<&mut Door>,
) -> Result<Ended> {
    let room = open_files::for_everyone(plan);
    let gathered = room
        .and_then(|()| door.as_mut().map_or(Ok(()), |door| door.gather(plan, || guard.heard())));
    if let Err(refusal) = gathered {
        return guests::not_all(&refusal, describe, outputs);
    }
    if let Some(control) = door.as_ref().and_then(|door| door.control()) {
        outputs.say(&control);
        describe.run.remarks.push(control);
    }
    let describe = &*describe;
    let (events, heard) = mpsc::channel();
    let signals = events.clone();
    // Nobody hears of signals that come when the last rank has ended: the guard notes them.
    guard.relay(move |signal| drop(signals.send(Event::Signal(signal))));
    let (mut peak, mut gpu_memory) = (0, None);
    let mut counters = Counters::default();
    let mut tables = invite::tables(plan, &describe.run.machine);
    for launch in 0..plan.sampling.launches {
        let mut job = Job::start(plan, describe, door.as_deref(), &tables, launch, &events)?;
        job.counters = counters;
        let ended = job.follow(&heard, outputs)?;
        counters = std::mem::take(&mut job.counters);
        // The next launch measures nothing again, also where no cache can be written.
        tables.append(&mut job.measured);
        peak = peak.max(ended.peak_rank_bytes);
        gpu_memory = larger(gpu_memory, ended.gpu_memory);
        if ended.status != Status::Complete {
            return Ok(ended);
        }
    }
    Ok(Ended { peak_rank_bytes: peak, gpu_memory, ..Ended::complete() })
}

/// One launch.
struct Job<'a> {
    plan: &'a Plan,
    describe: &'a Description,
    launch: u32,
    hub: Hub,
    control: Arc<Control>,
    /// Whether processes share no memory, being on several hosts, possibly.
    apart: bool,
    processes: Vec<Process>,
    /// What drivers said when they joined.
    facts: Vec<Option<Facts>>,
    /// Why the run is ending early, once it is.
    ending: Option<Ended>,
    /// A loss that ends the run unless a better reason comes before it is due.
    loss: Option<Loss>,
    /// Ranks whose time for a wait ran out, until it is clear who kept all of them waiting.
    late: Option<Late>,
    /// When what still runs is killed.
    kill_at: Option<Instant>,
    /// The kernel's count of kills for want of memory when the launch began.
    out_of_memory: OutOfMemoryKills,
    join_by: Instant,
    /// When we last looked at the time, and at the guests of this host.
    looked: Instant,
    looked_at_guests: Instant,
    begun: bool,
    /// Ranks whose row is not on stdout yet.
    held: Vec<usize>,
    /// What ranks measured of this machine.
    measured: Vec<Table>,
    peak: u64,
    gpu_memory: Option<GpuMemory>,
    /// What devices count while rows are measured.
    counters: Counters,
    /// The row under way and its size in bytes.
    progress: (u64, u64),
}

/// A rank is gone, and nobody has said why yet.
struct Loss {
    due: Instant,
    text: String,
}

/// Deadlines that passed on some ranks. One that waits for a rank that itself waits must not accuse it.
struct Late {
    due: Instant,
    waited: Vec<usize>,
    missing: Vec<usize>,
}

impl Drop for Job<'_> {
    /// Whatever went wrong in here, no rank outlives its supervisor's job.
    fn drop(&mut self) {
        self.control.abort();
        for process in self.processes.iter_mut().filter(|p| p.running) {
            process.kill(Exit::Internal);
        }
    }
}

impl<'a> Job<'a> {
    fn start(
        plan: &'a Plan,
        describe: &'a Description,
        door: Option<&Door>,
        tables: &[Table],
        launch: u32,
        events: &Sender<Event>,
    ) -> Result<Job<'a>> {
        let drivers = plan.rank_threads();
        let verified = plan.has_check_buffer();
        let control_fd = Control::create(drivers)?;
        let control = Control::map(&control_fd, drivers)?;
        // Only our own collectives go through memory that all ranks share.
        let shared = if plan.backend == BackendChoice::Host { plan.ranks() } else { 0 };
        let buffer_fds = (0..shared)
            .map(|rank| Buffers::create(rank, plan.buffer_bytes(), verified))
            .collect::<Result<Vec<OwnedFd>, _>>()?;
        let messages = shared > 0 && plan.benchmark.collective().is_none();
        let mailboxes = messages.then(|| Mailboxes::create(shared)).transpose()?;
        let begin = serde_json::to_vec(plan).context("cannot serialise the plan")?;
        let apart = door.is_some_and(|door| !door.is_here());
        let memories = if apart { plan.processes() } else { 1 };
        let reach = match door {
            Some(door) if apart => Reach::Network(door.chosen()),
            _ => Reach::Host,
        };
        let hub = Hub::open(
            drivers,
            memories,
            reach,
            &busbw_job::rendezvous::token()?,
            &begin,
            events.clone(),
        )
        .context("cannot open a socket for the ranks")?;
        let (devices, cores) = guests::devices(plan, describe, door);
        let invite = Invite {
            hub: hub.address(),
            token: hub.token().to_owned(),
            supervisor: std::process::id() as i32,
            control: control_fd.as_raw_fd(),
            mailboxes: mailboxes.as_ref().map(AsRawFd::as_raw_fd),
            buffers: buffer_fds.iter().map(AsRawFd::as_raw_fd).collect(),
            buffer_bytes: plan.buffer_bytes(),
            verified,
            drivers,
            process: 0,
            virtual_nodes: plan.virtual_nodes,
            processes: plan.processes(),
            seats: Vec::new(),
            apart,
            cores,
            devices,
            host: describe.run.machine.host.clone(),
            tables: tables.to_vec(),
            launch,
        };
        let mut job = Job {
            plan,
            describe,
            launch,
            hub,
            control,
            apart,
            processes: Vec::new(),
            facts: vec![None; drivers],
            ending: None,
            loss: None,
            late: None,
            kill_at: None,
            out_of_memory: machine::out_of_memory(&machine::Root::system()),
            join_by: Instant::now() + JOIN,
            looked: Instant::now(),
            looked_at_guests: Instant::now(),
            begun: false,
            held: Vec::new(),
            measured: Vec::new(),
            peak: 0,
            gpu_memory: None,
            counters: Counters::default(),
            progress: (0, plan.min_bytes),
        };
        let ours = if door.is_some() { 1 } else { plan.processes() };
        let seated = |process| {
            let seats = plan.rank_threads_of(process).collect();
            Invite { process, seats, ..invite.clone() }
        };
        for process in 0..ours {
            let event = move |status| Event::Child { process, status };
            job.processes.push(process::spawn(&seated(process), events.clone(), event)?);
        }
        let memory = std::iter::once(&control_fd).chain(&mailboxes).chain(&buffer_fds);
        let memory = memory.map(AsFd::as_fd);
        let memory = if apart { Vec::new() } else { memory.collect() };
        if let Some(door) = door {
            for (process, guest) in door.guests() {
                // It finds its own devices: not everybody's need go to everybody.
                guest.welcome(&seated(process).for_guest(), &memory)?;
                job.processes.push(Process::of_guest(guest.clone()));
            }
            door.follow(events.clone(), |process, news| Event::Guest { process, news })?;
        }
        Ok(job)
    }

    /// Sleeps and reacts until every process has ended.
    fn follow(&mut self, heard: &Receiver<Event>, outputs: &mut Outputs) -> Result<Ended> {
        while self.processes.iter().any(|p| p.running) {
            match heard.recv_timeout(if self.held.is_empty() { TICK } else { HELD_TICK }) {
                Ok(event) => self.on_event(event, outputs)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.on_reader(outputs)?;
            self.on_time();
        }
        // A process's last reports may still be on their way when its exit is seen, and so may the
        // signal that ended it.
        while let Ok(event) = heard.recv_timeout(self.patience()) {
            self.on_event(event, outputs)?;
        }
        self.end_for_lateness();
        if let Some(loss) = self.loss.take() {
            self.end(Status::Failed, Exit::RankLost, loss.text);
        }
        if self.ending.is_some() && !self.begun {
            // The record and the table say what was to run, and who had come.
            self.begun = true;
            outputs.begin(self.run())?;
        }
        let ended = self.ending.take().unwrap_or_else(Ended::complete);
        self.tell_xids(&ended, outputs);
        Ok(Ended { peak_rank_bytes: self.peak, gpu_memory: self.gpu_memory, ..ended })
    }

    /// How long to wait for one more event when every process has ended.
    fn patience(&self) -> Duration {
        match &self.loss {
            Some(loss) if self.ending.is_none() => {
                loss.due.saturating_duration_since(Instant::now())
            }
            _ if self.hub.is_empty() => Duration::ZERO,
            // Its sockets are closed: the hub sees that soon, and every report before it.
            _ => Duration::from_secs(1),
        }
    }

    /// Ends the run for the first reason that comes.
    fn end(&mut self, status: Status, exit: Exit, text: String) {
        if self.ending.is_none() {
            self.stop(&text);
            self.ending = Some(Ended { status, exit, message: Some(text), ..Ended::complete() });
        }
    }

    fn end_quietly(&mut self, status: Status, exit: Exit) {
        if self.ending.is_none() {
            self.stop("nobody reads the results any more");
            self.ending = Some(Ended { status, exit, ..Ended::complete() });
        }
    }

    fn stop(&mut self, why: &str) {
        self.control.abort();
        self.hub.abort(why);
        self.processes.iter().for_each(Process::stop);
        if self.kill_at.is_none() {
            self.kill_at = Some(Instant::now() + GRACE);
        }
    }

    /// The run with everything that drivers said of their places.
    fn run(&self) -> Run {
        let library = self.facts.iter().flatten().map(|facts| facts.nccl).max().unwrap_or(0);
        self.describe.with_devices(self.devices(), library)
    }

    fn devices(&self) -> Vec<Device> {
        let seats = self.facts.iter().enumerate().filter_map(|(driver, facts)| {
            let facts = facts.as_ref()?;
            let host = &self.processes[self.plan.process(driver)].host;
            Some(self.plan.ranks_of(driver).zip(&facts.devices).map(move |(rank, seat)| Device {
                rank,
                group: self.plan.colour(rank),
                pid: facts.pid,
                host: host.clone(),
                device: seat.device,
                address: seat.address.clone(),
                name: seat.name.clone(),
                bound: seat.bound.clone(),
            }))
        });
        seats.flatten().collect()
    }
}
