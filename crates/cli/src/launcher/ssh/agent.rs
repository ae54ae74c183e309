//! `busbw __agent`, at the other end of ssh: says what its host is, starts the host's processes as it is told
//! on stdin, and ends them when stdin ends or falls silent. What they print goes where ssh takes it.
//! Not a supervisor: that is process 0 of the run.

use std::{
    io::{self, Write},
    net::{TcpListener, ToSocketAddrs},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use model::exit::Exit;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
};

use super::orders::{Greeting, INTERRUPT, Orders, READY};
use crate::machine;

/// How long the other end may show no sign of life (`watch::ALIVE`): a connection that is dead, not closed.
const SILENCE: Duration = Duration::from_secs(10);
/// How long orders may take: other hosts may still be copied to.
const ORDERS: Duration = Duration::from_secs(600);
/// How often processes are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long the host of process 0 waits for others when that has ended: the run is over.
const GRACE: Duration = Duration::from_secs(3);
/// Longest line.
const LONGEST: usize = 1 << 22;

/// Runs the agent; its exit code is that of its first process.
///
/// # Errors
/// When it is not told what to start, or cannot start it.
pub fn run() -> Result<Exit> {
    greet()?;
    let mut lines = Lines { rest: Vec::new() };
    let orders = lines.next(ORDERS).context("busbw at the other end of ssh is gone")?;
    let orders: Orders = serde_json::from_str(&orders).context("the orders are garbled")?;
    if let Some(folder) = &orders.folder {
        // Where there is none of that name, ssh's own will do, as with mpirun.
        let _ = std::env::set_current_dir(folder);
    }
    let children = Arc::new(Mutex::new(Vec::new()));
    let knows = |name: &&String| (name.as_str(), orders.port).to_socket_addrs().is_ok();
    let master = orders.masters.iter().find(knows).or(orders.masters.first());
    let master = master.map_or("", String::as_str);
    for place in 0..orders.count {
        let started = start(&orders, master, place);
        let mut all = children.lock().unwrap_or_else(PoisonError::into_inner);
        match started {
            Ok(child) => all.push(child),
            Err(error) => {
                end(&mut all);
                return Err(error);
            }
        }
    }
    let ours = Arc::clone(&children);
    std::thread::Builder::new()
        .name("orders".to_owned())
        .spawn(move || obey(&mut lines, &ours))
        .context("cannot start a thread for orders")?;
    let mut over: Option<Instant> = None;
    loop {
        let mut all = children.lock().unwrap_or_else(PoisonError::into_inner);
        if over.is_some_and(|since| since.elapsed() > GRACE) {
            // Such as one that is stopped.
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
        if let Some(codes) = codes.into_iter().collect::<Option<Vec<i32>>>() {
            let code = codes.first().copied().unwrap_or(0);
            // An `Exit` knows busbw's own codes only, and this is whatever its process had.
            std::process::exit(code);
        }
        std::thread::sleep(LOOK);
    }
}

/// Says what this host is.
fn greet() -> Result<()> {
    let free = TcpListener::bind(("::", 0)).or_else(|_| TcpListener::bind(("0.0.0.0", 0)));
    let port = free.and_then(|listener| listener.local_addr()).context("there is no free port")?;
    // "client port server port", sshd(8).
    let ssh = std::env::var("SSH_CONNECTION").ok();
    let address = ssh.and_then(|words| Some(words.split_whitespace().nth(2)?.to_owned()));
    let greeting = Greeting { port: port.port(), host: machine::host_name(), address };
    let text = serde_json::to_string(&greeting).context("cannot serialise a greeting")?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{READY}{text}").and_then(|()| stdout.flush()).context("nobody listens")
}

/// Starts one process: only that of rank 0 writes to stdout.
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
    if rank > 0 {
        command.stdout(io::stderr());
    }
    command.spawn().with_context(|| format!("cannot start process {rank}, {}", program.display()))
}

/// Does what comes on stdin; when nothing does any more, everything here ends.
fn obey(lines: &mut Lines, children: &Mutex<Vec<Child>>) {
    while let Ok(line) = lines.next(SILENCE) {
        if line == INTERRUPT {
            let all = children.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(first) = all.first() {
                let _ = kill_process(Pid::from_child(first), Signal::INT);
            }
        }
    }
    end(&mut children.lock().unwrap_or_else(PoisonError::into_inner));
    std::process::exit(Exit::RankLost.code().into());
}

/// Nobody is left to write results for.
fn end(children: &mut [Child]) {
    for child in children {
        let _ = child.kill();
    }
}

/// Lines of stdin, with a deadline each.
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// The next line that says something within `limit`; any line is a sign of life.
    ///
    /// # Errors
    /// When stdin ends, or nothing comes in time.
    fn next(&mut self, limit: Duration) -> Result<String> {
        let mut by = Instant::now() + limit;
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                if !line.is_empty() {
                    return Ok(line);
                }
                by = Instant::now() + limit;
                continue;
            }
            let left = by.saturating_duration_since(Instant::now());
            let left =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let stdin = io::stdin();
            let ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&left));
            let mut piece = [0; 1 << 12];
            match ready {
                Ok(0) => bail!("no sign of life"),
                Err(rustix::io::Errno::INTR) => continue,
                // std's own stdin reads ahead, and poll would not see what it has.
                _ => match rustix::io::read(&stdin, &mut piece) {
                    Ok(0) | Err(_) => bail!("stdin has ended"),
                    Ok(read) => self.rest.extend_from_slice(&piece[..read]),
                },
            }
            if self.rest.len() > LONGEST {
                bail!("a line without end");
            }
        }
    }
}
