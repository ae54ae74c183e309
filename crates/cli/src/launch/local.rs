//! The supervisor of ranks on this machine: starts their processes, sleeps until something happens,
//! and ends them all when one is lost. It is never a rank, owns the outputs, and leaves nothing behind.
//! Not a rank's life (`rank`).

use std::{
    os::fd::{AsRawFd, OwnedFd},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use engine::{Buffers, Control, Hub, HubEvent};
use model::{
    exit::Exit,
    fault::Phase,
    plan::Plan,
    record::{Device, Status},
};
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

use super::{
    Description, guard,
    invite::{Facts, Invite, VARIABLE},
};
use crate::{
    measure::{Failure, Report},
    options::RANK_WORD,
    outputs::{Ended, Flow, Outputs},
};

/// How long ranks may take to join. They only have to start and map memory.
const JOIN: Duration = Duration::from_secs(30);
/// How long a stopped rank may stay stopped: a debugger or Ctrl-Z is not a loss yet.
const STOPPED: Duration = Duration::from_secs(5);
/// How long ranks get to end by themselves once the run is over or lost.
const GRACE: Duration = Duration::from_secs(2);
/// Longest sleep without a look at the times above.
const TICK: Duration = Duration::from_millis(200);

/// What wakes the supervisor.
enum Event {
    Hub(HubEvent),
    Child { process: usize, status: WaitStatus },
    Signal(i32),
}

impl From<HubEvent> for Event {
    fn from(event: HubEvent) -> Event {
        Event::Hub(event)
    }
}

/// Runs every launch of the plan.
pub(super) fn run(plan: &Plan, describe: &Description, outputs: &mut Outputs) -> Result<Ended> {
    let (events, heard) = mpsc::channel();
    guard::watch(events.clone(), Event::Signal)?;
    let mut peak = 0;
    for launch in 0..plan.sampling.launches {
        let mut job = Job::start(plan, describe, launch, &events)?;
        let ended = job.follow(&heard, outputs)?;
        peak = peak.max(ended.peak_rank_bytes);
        if ended.status != Status::Complete {
            return Ok(ended);
        }
    }
    Ok(Ended { status: Status::Complete, exit: Exit::Ok, message: None, peak_rank_bytes: peak })
}

/// One launch.
struct Job<'a> {
    plan: &'a Plan,
    describe: &'a Description,
    launch: u32,
    hub: Hub,
    control: Arc<Control>,
    processes: Vec<Process>,
    /// What ranks said when they joined.
    facts: Vec<Option<Facts>>,
    /// Why the run is ending early, once it is.
    ending: Option<Ended>,
    /// When what still runs is killed.
    kill_at: Option<Instant>,
    join_by: Instant,
    begun: bool,
    peak: u64,
    /// The row under way and its size in bytes.
    progress: (u64, u64),
}

/// One process of ranks.
struct Process {
    child: Child,
    /// Since when it is stopped.
    stopped: Option<Instant>,
    running: bool,
}

impl Drop for Job<'_> {
    /// Whatever went wrong in here, no rank outlives its supervisor's job.
    fn drop(&mut self) {
        self.control.abort();
        for process in self.processes.iter_mut().filter(|p| p.running) {
            let _ = process.child.kill();
        }
    }
}

impl<'a> Job<'a> {
    fn start(
        plan: &'a Plan,
        describe: &'a Description,
        launch: u32,
        events: &Sender<Event>,
    ) -> Result<Job<'a>> {
        let ranks = plan.ranks();
        let verified = plan.check > 0;
        let control_fd = Control::create(ranks)?;
        let control = Control::map(&control_fd, ranks)?;
        let buffer_fds = (0..ranks)
            .map(|rank| Buffers::create(rank, plan.buffer_bytes(), verified))
            .collect::<Result<Vec<OwnedFd>, _>>()?;
        let begin = serde_json::to_vec(plan).context("cannot serialise the plan")?;
        let hub = Hub::open(ranks, &token()?, begin, events.clone())
            .context("cannot open a loopback socket for the ranks")?;
        let invite = Invite {
            hub: hub.address(),
            token: hub.token().to_owned(),
            supervisor: std::process::id() as i32,
            control: control_fd.as_raw_fd(),
            buffers: buffer_fds.iter().map(AsRawFd::as_raw_fd).collect(),
            buffer_bytes: plan.buffer_bytes(),
            verified,
            ranks,
            threads: plan.threads,
            processes: plan.devices,
            cores: cores(plan, &describe.run.machine.cpu.cores),
            first_device: plan.first_device,
            host: describe.run.machine.host.clone(),
            launch,
        };
        let mut job = Job {
            plan,
            describe,
            launch,
            hub,
            control,
            processes: Vec::new(),
            facts: vec![None; ranks],
            ending: None,
            kill_at: None,
            join_by: Instant::now() + JOIN,
            begun: false,
            peak: 0,
            progress: (0, plan.min_bytes),
        };
        for process in 0..plan.devices {
            job.processes.push(spawn(process, &invite, events)?);
        }
        Ok(job)
    }

    /// Sleeps and reacts until every process has ended.
    fn follow(&mut self, heard: &Receiver<Event>, outputs: &mut Outputs) -> Result<Ended> {
        while self.processes.iter().any(|p| p.running) {
            match heard.recv_timeout(TICK) {
                Ok(Event::Hub(event)) => self.on_hub(event, outputs)?,
                Ok(Event::Child { process, status }) => self.on_child(process, status),
                Ok(Event::Signal(signal)) => self.on_signal(signal),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.on_time();
        }
        // A process's last reports may still be on their way when its exit is seen.
        while let Ok(event) =
            heard.recv_timeout(Duration::from_millis(if self.all_left() { 0 } else { 50 }))
        {
            if let Event::Hub(event) = event {
                self.on_hub(event, outputs)?;
            }
        }
        let peak_rank_bytes = self.peak;
        let complete =
            Ended { status: Status::Complete, exit: Exit::Ok, message: None, peak_rank_bytes };
        Ok(self.ending.take().map_or(complete, |ended| Ended { peak_rank_bytes, ..ended }))
    }

    fn all_left(&self) -> bool {
        self.hub.is_empty()
    }

    fn on_hub(&mut self, event: HubEvent, outputs: &mut Outputs) -> Result<()> {
        match event {
            HubEvent::Joined { rank, facts } => {
                self.facts[rank] = serde_json::from_slice(&facts).ok();
                if !self.begun && self.facts.iter().all(Option::is_some) {
                    self.begun = true;
                    let run = self.describe.with_devices(self.devices());
                    let flow = outputs.begin(run)?;
                    self.mind(flow);
                }
            }
            HubEvent::Report { bytes, .. } => match serde_json::from_slice(&bytes) {
                Ok(Report::Row(row)) => {
                    let flow = outputs.row(*row)?;
                    self.mind(flow);
                }
                Ok(Report::Progress { index, bytes }) => {
                    self.progress = (index, bytes);
                    outputs.progress(index, bytes, self.launch);
                }
                Ok(Report::Finished { peak_bytes }) => self.peak = self.peak.max(peak_bytes),
                Err(_) => self.end(
                    Status::Failed,
                    Exit::Internal,
                    "a rank's report is garbled".to_owned(),
                ),
            },
            HubEvent::Failed { rank, why } => self.on_failure(rank, &why),
            // A loss shows as its process's end, which also says how.
            HubEvent::Left { .. } => {}
        }
        Ok(())
    }

    fn mind(&mut self, flow: Flow) {
        if flow == Flow::ReaderGone {
            self.end_quietly(Status::ReaderGone, Exit::Ok);
        }
    }

    /// A rank says that it cannot go on.
    fn on_failure(&mut self, rank: usize, why: &str) {
        let failure: Failure = serde_json::from_str(why)
            .unwrap_or_else(|_| Failure { missing: None, text: why.to_owned() });
        let Some(missing) = failure.missing else {
            let text = format!("{} cannot go on: {}", self.name(rank), failure.text);
            return self.end(Status::Failed, Exit::Internal, text);
        };
        let seconds = self.plan.timeout_s.unwrap_or(0);
        let late = match missing.first() {
            Some(first) => self.name(*first),
            None => "some rank".to_owned(),
        };
        let text = format!(
            "{late} did not come within {seconds} s (-T), {}; rank {rank} and others waited. Give it more time with -T, or see what that process does",
            self.place(missing.first().copied().unwrap_or(rank))
        );
        self.end(Status::Failed, Exit::Timeout, text);
    }

    fn on_child(&mut self, process: usize, status: WaitStatus) {
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
        let how = match (status.terminating_signal(), status.exit_status()) {
            (_, Some(0)) => return,
            (Some(signal), _) => format!("was killed by {}", guard::signal_name(signal)),
            (None, code) => format!("ended with exit code {}", code.unwrap_or(-1)),
        };
        let rank = process;
        let advice = if status.terminating_signal() == Some(9) {
            "; if the kernel ran out of memory, dmesg says so: lower -e or -g"
        } else {
            ""
        };
        let text = format!(
            "{} {how} {}; the other ranks were stopped{advice}",
            self.name(rank),
            self.place(rank)
        );
        self.end(Status::Failed, Exit::RankLost, text);
    }

    fn on_signal(&mut self, signal: i32) {
        if self.ending.is_some() {
            // The second Ctrl-C: no more patience.
            self.kill_at = Some(Instant::now());
        }
        let text = format!("interrupted by {}", guard::signal_name(signal));
        self.end(Status::Interrupted, Exit::Interrupted, text);
    }

    /// What follows from time alone.
    fn on_time(&mut self) {
        let now = Instant::now();
        if !self.begun && now >= self.join_by {
            let missing: Vec<String> = (0..self.plan.ranks())
                .filter(|rank| self.facts[*rank].is_none())
                .map(|rank| rank.to_string())
                .collect();
            let text =
                format!("ranks {} did not join within {} s", missing.join(", "), JOIN.as_secs());
            self.end(Status::Failed, Exit::Timeout, text);
        }
        let stopped = self.processes.iter().position(|p| {
            p.running && p.stopped.is_some_and(|since| now.duration_since(since) >= STOPPED)
        });
        if let Some(rank) = stopped {
            let text = format!(
                "{} has been stopped for {} s {}; the other ranks were stopped as well. kill -CONT lets a stopped process go on",
                self.name(rank),
                STOPPED.as_secs(),
                self.place(rank)
            );
            self.end(Status::Failed, Exit::RankLost, text);
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            for process in self.processes.iter_mut().filter(|p| p.running) {
                let _ = process.child.kill();
            }
        }
    }

    /// Ends the run for the first reason that comes.
    fn end(&mut self, status: Status, exit: Exit, text: String) {
        if self.ending.is_none() {
            self.stop(&text);
            self.ending = Some(Ended { status, exit, message: Some(text), peak_rank_bytes: 0 });
        }
    }

    fn end_quietly(&mut self, status: Status, exit: Exit) {
        if self.ending.is_none() {
            self.stop("nobody reads the results any more");
            self.ending = Some(Ended { status, exit, message: None, peak_rank_bytes: 0 });
        }
    }

    fn stop(&mut self, why: &str) {
        self.control.abort();
        self.hub.abort(why);
        self.kill_at = Some(Instant::now() + GRACE);
    }

    /// "rank 1 (process 4242 on node7)"; all ranks of the process that holds this one.
    fn name(&self, rank: usize) -> String {
        let process = rank % self.processes.len().max(1);
        let ranks: Vec<String> = (0..self.plan.threads)
            .map(|thread| (thread * self.plan.devices + process).to_string())
            .collect();
        let word = if ranks.len() == 1 { "rank" } else { "ranks" };
        let pid = self.processes.get(process).map_or(0, |p| p.child.id());
        format!("{word} {} (process {pid} on {})", ranks.join(", "), self.describe.run.machine.host)
    }

    /// Where a rank was last.
    fn place(&self, rank: usize) -> String {
        let (step, row) = self.control.place(rank);
        let row = match self.progress {
            (index, bytes) if index == u64::from(row) => format!("{row} ({bytes} bytes)"),
            _ => row.to_string(),
        };
        let phase = (step as usize).checked_sub(1).and_then(|at| Phase::ALL.get(at));
        match phase {
            None => "before the first row".to_owned(),
            Some(Phase::Start) => "at the start".to_owned(),
            Some(Phase::Warmup) => format!("while warming up before row {row}"),
            Some(Phase::Timed) => format!("while timing row {row}"),
            Some(Phase::Verify) => format!("while verifying row {row}"),
            Some(Phase::End) => "at the end".to_owned(),
        }
    }

    fn devices(&self) -> Vec<Device> {
        let machine = &self.describe.run.machine;
        self.facts
            .iter()
            .enumerate()
            .filter_map(|(rank, facts)| facts.as_ref().map(|facts| (rank, facts)))
            .map(|(rank, facts)| Device {
                rank,
                group: self.plan.colour(rank),
                pid: facts.pid,
                host: machine.host.clone(),
                device: facts.device,
                address: "0000:00:00".to_owned(),
                name: machine.cpu.model.clone(),
            })
            .collect()
    }
}

/// Starts one process of ranks, and a thread that waits for it. Its stdout is our stderr: nothing
/// that a library prints can land in the table.
fn spawn(process: usize, invite: &Invite, events: &Sender<Event>) -> Result<Process> {
    let program = std::env::current_exe().context("cannot find our own program file")?;
    let child = Command::new(&program)
        .arg(RANK_WORD)
        .arg(process.to_string())
        .env(VARIABLE, serde_json::to_string(invite).context("cannot serialise an invitation")?)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .spawn()
        .with_context(|| format!("cannot start rank process {process}, {}", program.display()))?;
    let pid = Pid::from_child(&child);
    let events = events.clone();
    std::thread::Builder::new()
        .name("child".to_owned())
        .spawn(move || {
            let options = WaitOptions::UNTRACED | WaitOptions::CONTINUED;
            while let Ok(Some((_, status))) = waitpid(Some(pid), options) {
                let over = status.exited() || status.signaled();
                if events.send(Event::Child { process, status }).is_err() || over {
                    return;
                }
            }
        })
        .context("cannot start a thread for a rank")?;
    Ok(Process { child, stopped: None, running: true })
}

/// Core of every rank, from NCCL_TESTS_DEVICE on; none when ranks must share cores.
fn cores(plan: &Plan, usable: &[usize]) -> Vec<usize> {
    let cores: Vec<usize> =
        usable.iter().skip(plan.first_device).copied().take(plan.ranks()).collect();
    if cores.len() == plan.ranks() { cores } else { Vec::new() }
}

/// 128 bits that only our own ranks know.
fn token() -> Result<String> {
    let mut bytes = [0u8; 16];
    let mut source = std::fs::File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    std::io::Read::read_exact(&mut source, &mut bytes).context("cannot read /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
