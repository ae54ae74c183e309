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
    connection::{Connection, SshOutput},
    orders::{Orders, ToAgent},
};
use crate::frame;
use crate::launchers::{JobEnd, local_program::ended};
use busbw_core::printable::Printable;

/// Between two heartbeats (`agent::HEARTBEAT_TIMEOUT`).
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// How often connections are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long process 0 may take to detect a lost host, report it, and end the run.
const LOSS_TIMEOUT: Duration = Duration::from_secs(15);
/// How long connections may take to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// A host that has its orders.
struct Host {
    name: String,
    child: Child,
    /// Closed to end all processes there.
    stdin: Option<ChildStdin>,
    output: SshOutput,
    /// How its ssh ended, once it has.
    how: Option<(Option<i32>, String)>,
}

/// The connections of a job.
pub(super) struct HostMonitor {
    hosts: Arc<Mutex<Vec<Host>>>,
    stdout: Option<Box<dyn Read + Send>>,
    over: Arc<AtomicBool>,
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
            let Connection { host: name, child, mut stdin, stdout: mut lines, output, .. } =
                connection;
            send(&mut stdin, &ToAgent::Start(orders));
            hosts.push(Host { name, child, stdin: Some(stdin), output, how: None });
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
        Ok(HostMonitor { hosts, stdout, over })
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

    /// Closes the connections that are left.
    pub(super) fn finish(self) -> JobEnd {
        self.over.store(true, Ordering::SeqCst);
        let by = Instant::now() + CLOSE_TIMEOUT;
        let mut hosts = lock(&self.hosts);
        let Some(first) = hosts.first_mut() else {
            return JobEnd { code: None, text: "no host".to_owned() };
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
            if host.how.is_none() {
                let _ = host.child.kill();
                let _ = host.child.wait();
            }
        }
        let (code, how) = hosts[0].how.clone().unwrap_or((None, "was closed".to_owned()));
        let text = format!("ssh to {}, where it ran, {how}", hosts[0].name);
        JobEnd { code: code.filter(|code| *code != SSH_FAILED), text }
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
                    // Without a stderr there is nobody to tell.
                    let _ = writeln!(
                        Printable::new(io::stderr(), false),
                        "busbw: the connection to {} is lost, and its ranks are ended: ssh {how}",
                        host.name
                    );
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
