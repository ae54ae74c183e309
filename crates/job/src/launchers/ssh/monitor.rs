//! The connections to all hosts during the run: orders, heartbeats, Ctrl-C, lost hosts, and the end.
//! Not the ranks: process 0 supervises those.

use std::{
    io::{self, Read, Write},
    process::{Child, ChildStdin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{
    agent_silence::{AgentOutput, AgentSilence},
    connection::{Connection, SshOutput},
    orders::{Orders, ToAgent},
    remote_end::end_agent,
};
use crate::launchers::{Carrier, JobEnd, command::Command, local_program::ended};
use crate::{
    frame,
    heartbeat::{SILENCE_TIMEOUT, STOPPED_TIMEOUT},
    open_files,
};
use busbw_core::printable::Printable;
use busbw_host::machine;

/// Between two heartbeats (`agent::HEARTBEAT_TIMEOUT`).
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Open files for each host: three pipes of its ssh, whose other ends are open while it is started.
const FILES_A_HOST: usize = 6;
/// How often connections are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How often programs of this machine are checked for being stopped: each check reads a file.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How long process 0 may take to detect a lost host, report it, and end the run.
const LOSS_TIMEOUT: Duration = Duration::from_secs(15);
/// How long connections may take to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Raises the limit on open files for so many hosts.
pub(super) fn raise_open_files(hosts: usize) {
    open_files::raise(FILES_A_HOST * hosts);
}

/// A host that has its orders.
struct Host {
    name: String,
    child: Child,
    /// Closed to end all processes there.
    stdin: Option<ChildStdin>,
    output: SshOutput,
    /// The agent there: its process ID, what is heard of it, and the command that kills it.
    agent: u32,
    silence: AgentSilence,
    end_agent: Command,
    /// Since when its ssh is stopped, if it is.
    stopped: Option<Instant>,
    /// How its ssh ended, once it has.
    how: Option<(Option<i32>, String)>,
}

/// The connections of a job.
pub(super) struct HostMonitor {
    hosts: Arc<Mutex<Vec<Host>>>,
    stdout: Option<Box<dyn Read + Send>>,
    over: Arc<AtomicBool>,
    /// When stopped programs were last looked for.
    checked: Instant,
}

impl HostMonitor {
    /// Sends the orders.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn begin(
        connections: Vec<Connection>,
        orders: impl Fn(&[Connection]) -> Vec<Orders>,
    ) -> Result<HostMonitor> {
        let orders = orders(&connections);
        let mut stdout: Option<Box<dyn Read + Send>> = None;
        let mut hosts = Vec::new();
        for (connection, orders) in connections.into_iter().zip(orders) {
            let Connection { host: name, child, mut stdin, stdout: lines, output, .. } = connection;
            if let Some(stdin) = &mut stdin {
                send(stdin, &ToAgent::Start(orders));
            }
            let silence = AgentSilence::default();
            // What came with the greeting, and what follows.
            let read = io::Cursor::new(lines.buffer().to_vec());
            let mut lines = AgentOutput::new(read.chain(lines.into_inner()), silence.clone());
            let (agent, end_agent) = (connection.greeting.pid, connection.end_agent);
            let (stopped, how) = (None, None);
            hosts.push(Host {
                name,
                child,
                stdin,
                output,
                agent,
                silence,
                end_agent,
                stopped,
                how,
            });
            if stdout.is_none() {
                stdout = Some(Box::new(lines));
            } else {
                std::thread::Builder::new()
                    .name("ssh-stdout".to_owned())
                    .spawn(move || drop(io::copy(&mut lines, &mut io::stderr())))
                    .context("cannot start a thread for a host's stdout")?;
            }
        }
        let (hosts, over) = (Arc::new(Mutex::new(hosts)), Arc::new(AtomicBool::new(false)));
        let (shared, ended) = (Arc::clone(&hosts), Arc::clone(&over));
        std::thread::Builder::new()
            .name("ssh-watch".to_owned())
            .spawn(move || watch(&shared, &ended))
            .context("cannot start a thread for ssh")?;
        Ok(HostMonitor { hosts, stdout, over, checked: Instant::now() })
    }

    pub(super) fn take_stdout(&mut self) -> Box<dyn Read + Send> {
        match self.stdout.take() {
            Some(stdout) => stdout,
            None => Box::new(io::empty()),
        }
    }

    pub(super) fn interruption(&self) -> Box<dyn Fn() + Send> {
        let hosts = Arc::clone(&self.hosts);
        Box::new(move || {
            if let Some(Host { stdin: Some(stdin), .. }) = lock(&hosts).first_mut() {
                send(stdin, &ToAgent::Interrupt);
            }
        })
    }

    /// Names what is stopped or does not answer: an ssh of this machine, process 0, an agent. An agent that is stopped
    /// silences the processes of its host, too: the others come first.
    pub(super) fn lost_part(&mut self) -> Option<String> {
        let now = Instant::now();
        let mut hosts = lock(&self.hosts);
        if now.duration_since(self.checked) >= CHECK_INTERVAL {
            self.checked = now;
            for host in hosts.iter_mut().filter(|host| host.how.is_none()) {
                host.stopped = machine::is_stopped(&machine::Root::system(), host.child.id())
                    .then(|| host.stopped.unwrap_or(now));
            }
        }
        let running = || hosts.iter().filter(|host| host.how.is_none());
        let long = |since: Instant| now.duration_since(since) >= STOPPED_TIMEOUT;
        let seconds = STOPPED_TIMEOUT.as_secs();
        if let Some(host) = running().find(|host| host.stopped.is_some_and(long)) {
            return Some(format!(
                "ssh to {} (process {} on this machine) has been stopped for {seconds} s",
                host.name,
                host.child.id()
            ));
        }
        for host in running() {
            if let Some((pid, _)) =
                host.silence.stopped_process(now).filter(|(_, length)| *length >= STOPPED_TIMEOUT)
            {
                return Some(format!(
                    "process 0 of the run (process {pid} on {}) has been stopped for {seconds} s",
                    host.name
                ));
            }
        }
        let silent = running().find(|host| host.silence.length(now) >= SILENCE_TIMEOUT)?;
        Some(format!(
            "the agent on {} (process {} there) has not answered for {} s: it is stopped, or {} or the network hangs; ssh to it (process {} on this machine) still runs",
            silent.name,
            silent.agent,
            SILENCE_TIMEOUT.as_secs(),
            silent.name,
            silent.child.id()
        ))
    }

    /// The agent of process 0.
    pub(super) fn carrier_of_process_0(&self) -> Carrier {
        let hosts = lock(&self.hosts);
        let Some(first) = hosts.first() else {
            return Carrier { name: String::new(), silence: None, ..Carrier::default() };
        };
        let name = format!("the agent on {} (process {} there)", first.name, first.agent);
        Carrier { name, silence: Some(first.silence.length(Instant::now())), ..Carrier::default() }
    }

    /// Closes all connections, upon which agents end their processes. An ssh that is stopped is killed: then its
    /// connection breaks.
    pub(super) fn close(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        for host in lock(&self.hosts).iter_mut() {
            host.stdin = None;
            if machine::is_stopped(&machine::Root::system(), host.child.id()) {
                let _ = host.child.kill();
            }
        }
    }

    /// Closes the connections that are left.
    pub(super) fn finish(self) -> JobEnd {
        let is_closed = self.over.swap(true, Ordering::SeqCst);
        let by = Instant::now() + if is_closed { Duration::ZERO } else { CLOSE_TIMEOUT };
        let mut hosts = lock(&self.hosts);
        let Some(first) = hosts.first_mut() else {
            return JobEnd { code: None, text: "no host".to_owned(), left: None, why: None };
        };
        // Its stdout has ended: the process ends soon.
        while !first.has_ended() && Instant::now() < by {
            std::thread::sleep(POLL_INTERVAL / 5);
        }
        for host in hosts.iter_mut() {
            host.stdin = None;
        }
        let by = Instant::now() + CLOSE_TIMEOUT;
        for host in hosts.iter_mut() {
            while !(host.has_ended() && host.output.is_over()) && Instant::now() < by {
                std::thread::sleep(POLL_INTERVAL / 5);
            }
        }
        end_agents(hosts.iter().filter(|host| host.how.is_none()));
        let by = Instant::now() + POLL_INTERVAL;
        for host in hosts.iter_mut() {
            while !host.has_ended() && Instant::now() < by {
                std::thread::sleep(POLL_INTERVAL / 5);
            }
            if host.how.is_none() {
                let _ = host.child.kill();
                let _ = host.child.wait();
            }
        }
        let (code, how) = hosts[0].how.clone().unwrap_or((None, "was closed".to_owned()));
        let text = format!("ssh to {}, where it ran, {how}", hosts[0].name);
        // Agents that may be left were named one by one.
        JobEnd { code: code.filter(|code| *code != SSH_FAILED), text, left: None, why: None }
    }
}

impl Drop for HostMonitor {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

/// What ssh exits with for its own errors (ssh(1), EXIT STATUS).
const SSH_FAILED: i32 = 255;

impl Host {
    /// Whether its ssh has ended.
    fn has_ended(&mut self) -> bool {
        if self.how.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.how = Some((status.code(), ended(status)));
        }
        self.how.is_some()
    }

    /// Whether its ssh ended although its agent did not.
    fn is_lost(&self) -> bool {
        matches!(&self.how, Some((None | Some(SSH_FAILED), _)))
    }
}

/// Ends the agents of these hosts, all at once, and says what became of them.
fn end_agents<'a>(hosts: impl Iterator<Item = &'a Host>) {
    std::thread::scope(|scope| {
        for host in hosts {
            let Host { name, agent, end_agent: command, .. } = host;
            scope.spawn(move || {
                let what = match end_agent(command) {
                    // Only its ssh took its time.
                    Ok(false) => return,
                    Ok(true) => "was killed over another ssh, and its processes with it".to_owned(),
                    Err(why) => format!(
                        "may be left: {why}. It ends by itself when its connection closes, unless it is stopped: then its processes end it within 20 s"
                    ),
                };
                say(&format!("the agent on {name} (process {agent} there) {what}"));
            });
        }
    });
}

fn say(text: &str) {
    // Without a stderr there is nobody to tell.
    let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {text}");
}

/// Sends heartbeats to all hosts, and reports those that are lost.
fn watch(hosts: &Mutex<Vec<Host>>, over: &AtomicBool) {
    let (mut last_heartbeat, mut give_up) = (Instant::now(), None);
    while !over.load(Ordering::SeqCst) {
        {
            let mut hosts = lock(hosts);
            let is_due = last_heartbeat.elapsed() >= HEARTBEAT_INTERVAL;
            if is_due {
                last_heartbeat = Instant::now();
            }
            for host in hosts.iter_mut() {
                if is_due && let Some(stdin) = &mut host.stdin {
                    send(stdin, &ToAgent::Heartbeat);
                }
                if host.how.is_none() && host.has_ended() && host.is_lost() {
                    let (_, how) = host.how.clone().unwrap_or_default();
                    say(&format!(
                        "the connection to {} is lost, and its ranks are ended: ssh {how}",
                        host.name
                    ));
                    give_up.get_or_insert_with(|| Instant::now() + LOSS_TIMEOUT);
                }
            }
            if give_up.is_some_and(|by| Instant::now() >= by) {
                // Process 0 did not end the run: kill its ssh, whose end the reader sees.
                let _ = hosts.first_mut().map(|host| host.child.kill());
                return;
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Sends a message to a host's agent. A broken connection shows as the end of its ssh.
fn send(stdin: &mut ChildStdin, message: &ToAgent) {
    let _ = frame::json(message).and_then(|frame| stdin.write_all(&frame));
}

fn lock(hosts: &Mutex<Vec<Host>>) -> MutexGuard<'_, Vec<Host>> {
    hosts.lock().unwrap_or_else(PoisonError::into_inner)
}
