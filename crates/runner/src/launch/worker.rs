//! A worker: a process of a launcher other than process 0. It joins the coordinator, runs the ranks that it is
//! assigned, writes nothing to stdout, and exits with the run's exit code.
//! Not the ranks themselves (`rank`).

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{self, Write},
    os::fd::AsRawFd,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use busbw_core::{
    exit::Exit,
    record::{DeviceKind, HostCounters},
};
use busbw_shm::Control;
use rustix::process::{Pid, getppid};
use signal_hook::{iterator::Signals, low_level};

use crate::{
    backend::{self, Cores},
    launch::{coordinator_silence::CoordinatorSilence, rank, rank_assignment::RankAssignment},
    request::Request,
    signals,
};
use busbw_core::exit::ExitError;
use busbw_host::{counters::Counters, machine};
use busbw_job::rendezvous::{
    JoinRequest, ToCoordinator, ToWorker, address::Rendezvous, framed_stream::FramedStream,
    is_parent, rendezvous_timeout, watch_parent,
};
use busbw_job::{heartbeat::HEARTBEAT_INTERVAL, launched::Launched, open_files};

/// How long this process waits for the exit code after a terminating signal.
const SIGNAL_EXIT_TIMEOUT: Duration = Duration::from_secs(6);
/// How often it is checked whether process 0 and the launcher are still there.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Runs this process's ranks of the job that `launched` describes. `args` is the command line, `planned` what it
/// means on this machine. Exits with the coordinator's exit code instead of returning.
///
/// # Errors
/// When the coordinator is not found in time, or the plan or the ranks' memory cannot be used.
pub fn run(
    launched: &Launched,
    planned: Result<Request, ExitError>,
    args: &[OsString],
) -> Result<Exit> {
    let parent = getppid();
    // Libraries print to stdout, which belongs to the supervisor's table.
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())
        .context("cannot redirect stdout to stderr")?;
    let mut join = JoinRequest::of_this_process(launched, args);
    let mut limit = rendezvous_timeout(None);
    match &planned {
        Ok(request) => {
            join.backend = request.plan.backend.name().to_owned();
            join.tuner = request.resources.agreement_of_tuner();
            limit = rendezvous_timeout(request.plan.timeout_s);
        }
        Err(bad) => join.failure = Some((bad.exit(), bad.to_string())),
    }
    let stream = Rendezvous::of(launched)?.join(&join, limit, parent)?;
    let mut silence = CoordinatorSilence::new(launched, &join.host);
    let (mut assignment, descriptors) = receive_assignment(&stream, parent, &mut silence)?;
    let request = planned?;
    let writer = Arc::new(Mutex::new(stream.try_clone()?));
    send_heartbeats(&writer)?;
    if !assignment.backend.spec().shares_memory {
        let cpu = machine::read(&machine::Root::system()).cpu;
        let cores = Cores { cpu: &cpu, alike: false };
        let factory = backend::factory(&assignment.backend);
        assignment.devices = factory.devices(&request.plan, &request.resources, &cores)?.assigned;
    }
    assignment.host.clone_from(&join.host);
    for (name, value) in assignment.environment()? {
        busbw_ffi::environment::set(name, value);
    }
    // Each descriptor twice: as received, and opened again to be mapped.
    open_files::raise(2 * descriptors);
    let received = stream.receive_descriptors(descriptors)?;
    let own;
    if received.is_empty() {
        // This process may be on another host than the coordinator.
        own = Control::create(assignment.rank_threads)?;
        assignment.control = own.as_raw_fd();
    } else {
        let numbers: Vec<i32> = received.iter().map(AsRawFd::as_raw_fd).collect();
        assignment.control = numbers[0];
        let mailboxes = usize::from(assignment.mailboxes.is_some());
        assignment.mailboxes = numbers.get(1).copied().filter(|_| mailboxes > 0);
        assignment.buffers = numbers.get(1 + mailboxes..).unwrap_or_default().to_vec();
    }
    if let (Some(mut hub), Some((_, port))) = (stream.peer(), assignment.hub.rsplit_once(':')) {
        // The coordinator's address with the scope of a link-local one, and the hub's port.
        hub.set_port(port.parse().context("cannot parse the hub's address")?);
        assignment.hub = hub.to_string();
    }
    let (reader, stream) = (stream, writer);
    rank::run_threads(assignment, |control| {
        follow_coordinator(reader, control, silence, CountersOfHost::new(&stream));
        forward_signals(&stream)?;
        watch_parent(|| low_level::exit(Exit::RankLost.code().into()));
        Ok(())
    })?;
    send(&stream, &ToCoordinator::Ended);
    loop {
        // The thread that follows the coordinator exits the process.
        std::thread::park();
    }
}

/// Sends `statement` to the coordinator and waits for the exit code. Exits with it instead of returning.
///
/// # Errors
/// When the coordinator is not found in time, or its connection breaks.
pub(super) fn send_statement(
    launched: &Launched,
    args: &[OsString],
    statement: String,
) -> Result<Exit> {
    let parent = getppid();
    let join = JoinRequest { statement, ..JoinRequest::of_this_process(launched, args) };
    let stream = Rendezvous::of(launched)?.join(&join, rendezvous_timeout(None), parent)?;
    let mut silence = CoordinatorSilence::new(launched, &join.host);
    receive_assignment(&stream, parent, &mut silence)?;
    let text = "the coordinator assigned ranks to this process, which only sends a statement";
    Err(ExitError::new(Exit::Internal, text).into())
}

/// Receives the rank assignment and the number of descriptors that follow. Exits if the run ended before it began.
fn receive_assignment(
    stream: &FramedStream,
    parent: Option<Pid>,
    silence: &mut CoordinatorSilence,
) -> Result<(RankAssignment, usize)> {
    loop {
        while !stream.is_ready(CHECK_INTERVAL) {
            if !is_parent(parent) {
                bail!("the launcher has exited");
            }
            if silence.check().is_err() {
                low_level::exit(Exit::RankLost.code().into());
            }
        }
        return match stream.receive() {
            Ok(ToWorker::Heartbeat(heartbeat)) => {
                silence.heartbeat(heartbeat);
                continue;
            }
            Ok(ToWorker::Assign { assignment, descriptors }) => Ok((assignment, descriptors)),
            Ok(ToWorker::Exit(exit)) => low_level::exit(exit.code().into()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(error).context("cannot parse the rank assignment")
            }
            Ok(
                ToWorker::Authentication { .. }
                | ToWorker::Abort
                | ToWorker::Conclusion(_)
                | ToWorker::ReadCounters { .. },
            )
            | Err(_) => {
                Err(ExitError::new(Exit::RankLost, "lost the connection to process 0 of this run")
                    .into())
            }
        };
    }
}

/// Starts a thread that obeys the coordinator, and exits the process when the connection breaks or falls silent.
fn follow_coordinator(
    reader: FramedStream,
    control: &Arc<Control>,
    mut silence: CoordinatorSilence,
    mut counters: CountersOfHost,
) {
    let control = Arc::clone(control);
    let _ = std::thread::Builder::new().name("coordinator".to_owned()).spawn(move || {
        loop {
            while !reader.is_ready(CHECK_INTERVAL) {
                if silence.check().is_err() {
                    low_level::exit(Exit::RankLost.code().into());
                }
            }
            match reader.receive() {
                Ok(ToWorker::<()>::Abort) => control.abort(),
                Ok(ToWorker::Heartbeat(heartbeat)) => silence.heartbeat(heartbeat),
                Ok(ToWorker::ReadCounters { gpus, question, after }) => {
                    counters.read(gpus.as_deref(), question, after);
                }
                Ok(ToWorker::Conclusion(_)) => {}
                Ok(ToWorker::Exit(exit)) => low_level::exit(exit.code().into()),
                Ok(ToWorker::Authentication { .. } | ToWorker::Assign { .. }) | Err(_) => {
                    let _ = writeln!(
                        io::stderr(),
                        "busbw: lost the connection to process 0 of this run"
                    );
                    low_level::exit(Exit::RankLost.code().into());
                }
            }
        }
    });
}

/// Starts a thread that shows the coordinator that this process answers, whatever its ranks and libraries do.
fn send_heartbeats(stream: &Arc<Mutex<FramedStream>>) -> Result<()> {
    let stream = Arc::clone(stream);
    std::thread::Builder::new()
        .name("heartbeats".to_owned())
        .spawn(move || {
            loop {
                send(&stream, &ToCoordinator::Heartbeat);
                std::thread::sleep(HEARTBEAT_INTERVAL);
            }
        })
        .map(drop)
        .context("cannot start a thread for heartbeats")
}

/// The counters of this host, which the coordinator asks for around each row.
struct CountersOfHost {
    counters: Counters,
    /// Devices whose bytes are counted, once that is known.
    devices: Option<BTreeMap<String, DeviceKind>>,
    stream: Arc<Mutex<FramedStream>>,
}

impl CountersOfHost {
    fn new(stream: &Arc<Mutex<FramedStream>>) -> CountersOfHost {
        CountersOfHost { counters: Counters::default(), devices: None, stream: Arc::clone(stream) }
    }

    /// Reads them before a row or after it, and answers.
    fn read(&mut self, gpus: Option<&[String]>, question: u64, after: bool) {
        let root = machine::Root::system();
        let watched = || self.counters.watch(&root, gpus).with_bytes();
        let devices = self.devices.get_or_insert_with(watched).clone();
        let counters = match after {
            true => self.counters.after_row(),
            false => {
                self.counters.before_row();
                Vec::new()
            }
        };
        let host = machine::host_name();
        let counters = Box::new(HostCounters { host, devices, counters });
        send(&self.stream, &ToCoordinator::Counters { question, counters });
    }
}

/// Starts a thread that forwards terminating signals to the coordinator: it decides what they mean.
fn forward_signals(stream: &Arc<Mutex<FramedStream>>) -> Result<()> {
    let mut signals =
        Signals::new(signals::terminating()).context("cannot install signal handlers")?;
    let stream = Arc::clone(stream);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in &mut signals {
                send(&stream, &ToCoordinator::Signalled(signal));
                signals::exit_after(SIGNAL_EXIT_TIMEOUT);
            }
        })
        .context("cannot start a thread for signals")?;
    Ok(())
}

fn send(stream: &Mutex<FramedStream>, message: &ToCoordinator) {
    // A broken connection shows in the thread that reads it.
    let _ = stream.lock().unwrap_or_else(PoisonError::into_inner).send(message);
}
