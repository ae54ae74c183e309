//! A process of a launcher's job other than process 0: starts its part of each launch that process 0 orders.
//! Not the orders (`leader`).

use std::{
    ffi::OsString,
    io,
    process::{Child, Command, Stdio},
    sync::{Arc, atomic::AtomicBool, mpsc},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::exit::{Exit, ExitError};
use busbw_host::termination_message;
use busbw_job::{
    heartbeat::HEARTBEAT_INTERVAL,
    launched::Launched,
    rendezvous::{
        JoinRequest, ToCoordinator, ToWorker, address::Rendezvous, framed_stream::FramedStream,
        is_parent, rendezvous_timeout,
    },
};
use busbw_runner::launch::CoordinatorSilence;
use rustix::process::{Pid, Signal, getppid, kill_process};

use super::order::Order;

/// How often a running part, process 0 and the launcher are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long an aborted part may take to end, before it is killed.
const ABORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Obeys process 0 until it says with which code to exit. `args` is the command line.
///
/// # Errors
/// Process 0 is not found in time, its connection breaks, or a part cannot be started.
pub(crate) fn follow(launched: &Launched, args: &[OsString]) -> Result<Exit> {
    let parent = getppid();
    // Launchers send signals to every process; process 0 decides what they mean.
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .context("cannot install signal handlers")?;
    }
    let join = JoinRequest::of_this_process(launched, args);
    let stream = Rendezvous::of(launched)?.join(&join, rendezvous_timeout(None), parent)?;
    let address =
        stream.peer().map_or_else(|| "127.0.0.1".to_owned(), |peer| peer.ip().to_string());
    let mut silence = CoordinatorSilence::new(launched, &join.host);
    let mut heartbeat_at = Instant::now();
    // What cannot be sent is no failure here: a connection that process 0 has closed may still hold its exit code. `orders`
    // ends with it.
    let orders = read(stream.try_clone().context("cannot duplicate the connection to process 0")?)?;
    let mut part = Part::default();
    loop {
        match orders.recv_timeout(POLL_INTERVAL) {
            Ok(ToWorker::Assign { assignment, .. }) => part = Part::start(&assignment, &address)?,
            Ok(ToWorker::Abort) => part.abort(),
            Ok(ToWorker::Conclusion(text)) => termination_message::write(&text),
            Ok(ToWorker::Exit(exit)) => return Ok(exit),
            Ok(ToWorker::Heartbeat(heartbeat)) => silence.heartbeat(heartbeat),
            Ok(ToWorker::Authentication { .. } | ToWorker::ReadCounters { .. }) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let text = "lost the connection to process 0 of this job";
                return Err(ExitError::new(Exit::RankLost, text).into());
            }
        }
        silence.check()?;
        if Instant::now() >= heartbeat_at {
            heartbeat_at = Instant::now() + HEARTBEAT_INTERVAL;
            let _ = stream.send(&ToCoordinator::Heartbeat);
        }
        if !is_parent(parent) {
            return Err(ExitError::new(Exit::RankLost, "the launcher has exited").into());
        }
        if part.has_ended()? {
            let _ = stream.send(&ToCoordinator::Ended);
        }
    }
}

/// A thread that receives what process 0 sends; the channel ends with the connection.
fn read(stream: FramedStream) -> Result<mpsc::Receiver<ToWorker<Order>>> {
    let (sender, orders) = mpsc::channel();
    std::thread::Builder::new()
        .name("orders".to_owned())
        .spawn(move || -> io::Result<()> {
            while sender.send(stream.receive()?).is_ok() {}
            Ok(())
        })
        .context("cannot start a thread for process 0's orders")?;
    Ok(orders)
}

/// This process's part of a launch; dropping it kills it.
#[derive(Default)]
struct Part {
    child: Option<Child>,
    /// When it is killed.
    kill_at: Option<Instant>,
}

impl Part {
    fn start(order: &Order, address: &str) -> Result<Part> {
        let program = std::env::current_exe().context("cannot find busbw's own program file")?;
        let mut command = Command::new(&program);
        command.args(&order.words).stdin(Stdio::null()).stdout(Stdio::null());
        order.apply(&mut command, address);
        let child = command.spawn();
        let child = child.with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Part { child: Some(child), kill_at: None })
    }

    fn abort(&mut self) {
        if let Some(child) = &self.child {
            let _ = kill_process(Pid::from_child(child), Signal::INT);
            self.kill_at = Some(Instant::now() + ABORT_TIMEOUT);
        }
    }

    /// Whether it has ended since the last call.
    fn has_ended(&mut self) -> Result<bool> {
        let Some(child) = &mut self.child else { return Ok(false) };
        if self.kill_at.is_some_and(|at| Instant::now() > at) {
            let _ = child.kill();
        }
        let ended = child.try_wait().context("cannot wait for a launch")?.is_some();
        if ended {
            self.child = None;
        }
        Ok(ended)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
