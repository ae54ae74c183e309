//! `busbw __agent`, the remote end of ssh: it describes its host, starts the host's processes as stdin orders, and ends
//! them when stdin closes or heartbeats stop. It answers heartbeats. Their output goes to ssh.
//! Not a supervisor: that is process 0 of the run.

use std::{
    io::{self, Write},
    net::{TcpListener, ToSocketAddrs},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use busbw_core::exit::Exit;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, kill_process},
};

use super::{
    agent_stdout::{Forwarder, answer_heartbeats},
    orders::{Answer, Greeting, Orders, READY, ToAgent},
};
use crate::frame::{FrameReader, Peer};
use busbw_host::machine;

/// How long no message may arrive (`monitor::HEARTBEAT_INTERVAL`): the connection is dead, but not closed.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the orders may take: busbw may still be copied to other hosts.
const ORDERS_TIMEOUT: Duration = Duration::from_secs(600);
/// How often processes are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long the host of process 0 waits for its other processes after process 0 has exited.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// Runs the agent; its exit code is that of its first process.
///
/// # Errors
/// When no orders arrive, or a process cannot be started.
pub fn run() -> Result<Exit> {
    greet()?;
    let mut reader = FrameReader::default();
    let first = receive(&mut reader, ORDERS_TIMEOUT);
    let ToAgent::Start(orders) = first.context("busbw at the other end of ssh has exited")? else {
        bail!("busbw at the other end of ssh sent no orders");
    };
    if let Some(folder) = &orders.folder {
        // If the folder does not exist here, ssh's own is used, as with mpirun.
        let _ = std::env::set_current_dir(folder);
    }
    let children = Arc::new(Mutex::new(Vec::new()));
    // Before the first process: a busy machine may take long to start all of them.
    obey_in_a_thread(reader, &children, orders.first == 0)?;
    let knows = |name: &&String| (name.as_str(), orders.port).to_socket_addrs().is_ok();
    let master = orders.masters.iter().find(knows).or(orders.masters.first());
    let master = master.map_or("", String::as_str);
    let mut forwarder = None;
    for place in 0..orders.count {
        let started = start(&orders, master, place).and_then(|mut child| {
            if let Some(stdout) = child.stdout.take() {
                forwarder = Some(Forwarder::start(stdout)?);
            }
            Ok(child)
        });
        let mut all = lock(&children);
        match started {
            Ok(child) => all.push(child),
            Err(error) => {
                end(&mut all);
                return Err(error);
            }
        }
    }
    let mut over: Option<Instant> = None;
    loop {
        let mut all = lock(&children);
        if over.is_some_and(|since| since.elapsed() > EXIT_TIMEOUT) {
            // A stopped process, for example, does not exit by itself.
            end(&mut all);
        }
        let codes: Vec<Option<i32>> = all
            .iter_mut()
            .map(|child| {
                Some(child.try_wait().ok()??.code().unwrap_or(Exit::RankLost.code().into()))
            })
            .collect();
        drop(all);
        if orders.first == 0 && matches!(codes.first(), Some(Some(_))) {
            over.get_or_insert_with(Instant::now);
        }
        if let Some(codes) = codes.into_iter().collect::<Option<Vec<i32>>>()
            && forwarder.as_ref().is_none_or(Forwarder::is_done)
        {
            let code = codes.first().copied().unwrap_or(0);
            // Any code of the process, not only busbw's own (`Exit`).
            std::process::exit(code);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Prints the description of this host.
fn greet() -> Result<()> {
    let free = TcpListener::bind(("::", 0)).or_else(|_| TcpListener::bind(("0.0.0.0", 0)));
    let port = free.and_then(|listener| listener.local_addr()).context("there is no free port")?;
    // "client port server port", sshd(8).
    let ssh = std::env::var("SSH_CONNECTION").ok();
    let address = ssh.and_then(|words| Some(words.split_whitespace().nth(2)?.to_owned()));
    let greeting = Greeting {
        port: port.port(),
        pid: std::process::id(),
        host: machine::host_name(),
        address,
    };
    let text = serde_json::to_string(&greeting).context("cannot serialise a greeting")?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{READY}{text}").and_then(|()| stdout.flush()).context("cannot write to ssh")
}

/// Starts one process. Only rank 0 writes to stdout.
fn start(orders: &Orders, master: &str, place: usize) -> Result<Child> {
    let rank = orders.first + place;
    let program = std::env::current_exe().context("cannot find busbw's own program file")?;
    let mut command = Command::new(&program);
    command
        .args(&orders.words)
        .envs(orders.variables.iter().map(|(name, value)| (name, value)))
        .env("RANK", rank.to_string())
        .env("WORLD_SIZE", orders.size.to_string())
        .env("LOCAL_RANK", place.to_string())
        .env("LOCAL_WORLD_SIZE", orders.count.to_string())
        .env("MASTER_ADDR", master)
        .env("MASTER_PORT", orders.port.to_string())
        .stdin(Stdio::null());
    for name in &orders.unset {
        command.env_remove(name);
    }
    match rank {
        0 => command.stdout(Stdio::piped()),
        _ => command.stdout(io::stderr()),
    };
    command.spawn().with_context(|| format!("cannot start process {rank}, {}", program.display()))
}

/// Starts the thread that obeys the messages on stdin, and the one that answers heartbeats. `has_process_0` says whether
/// the first child is process 0 of the run.
fn obey_in_a_thread(
    mut reader: FrameReader,
    children: &Arc<Mutex<Vec<Child>>>,
    has_process_0: bool,
) -> Result<()> {
    let ours = Arc::clone(children);
    let answer = move || {
        let pid = lock(&ours).first().map(Child::id).filter(|_| has_process_0);
        let is_stopped = |pid: &u32| machine::is_stopped(&machine::Root::system(), *pid);
        Answer { stopped: pid.filter(is_stopped) }
    };
    let heartbeats = answer_heartbeats(answer)?;
    let ours = Arc::clone(children);
    std::thread::Builder::new()
        .name("orders".to_owned())
        .spawn(move || obey(&mut reader, &ours, &heartbeats))
        .map(drop)
        .context("cannot start a thread for orders")
}

/// Obeys the messages on stdin; ends all processes when they stop.
fn obey(reader: &mut FrameReader, children: &Mutex<Vec<Child>>, heartbeats: &mpsc::Sender<()>) {
    while let Ok(message) = receive(reader, HEARTBEAT_TIMEOUT) {
        match message {
            ToAgent::Interrupt => {
                if let Some(first) = lock(children).first() {
                    let _ = kill_process(Pid::from_child(first), Signal::INT);
                }
            }
            ToAgent::Heartbeat => drop(heartbeats.send(())),
            ToAgent::Start(_) => {}
        }
    }
    end(&mut lock(children));
    std::process::exit(Exit::RankLost.code().into());
}

fn lock(children: &Mutex<Vec<Child>>) -> MutexGuard<'_, Vec<Child>> {
    children.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills all processes of this host.
fn end(children: &mut [Child]) {
    for child in children {
        let _ = child.kill();
    }
}

/// The next message on stdin.
///
/// # Errors
/// When stdin closes, or no message arrives within `limit`.
fn receive(reader: &mut FrameReader, limit: Duration) -> Result<ToAgent> {
    let by = Instant::now() + limit;
    loop {
        if let Some(payload) = reader.next(Peer::Authenticated)? {
            return serde_json::from_slice(payload).context("cannot parse a message to the agent");
        }
        let left = Timespec::try_from(by.saturating_duration_since(Instant::now()))?;
        let stdin = io::stdin();
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&left)) {
            Ok(0) => bail!("no heartbeat"),
            Err(Errno::INTR) => {}
            // Not std's stdin: it reads ahead, and poll would not see its buffer.
            _ => reader.read(&mut [0; 4096], |piece| Ok(rustix::io::read(&stdin, piece)?))?,
        }
    }
}
