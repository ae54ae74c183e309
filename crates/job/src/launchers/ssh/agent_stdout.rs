//! An agent's stdout: the lines of process 0, and between them the agent's answers to heartbeats. Each line is whole.
//! Not what the agent does.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::orders::{ANSWER, Answer};

/// How long process 0's stdout may stay open without a byte after all processes have ended: a process that inherited
/// it may live on.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Writes `line` to stdout with nothing between its bytes.
///
/// # Errors
/// When ssh is gone.
fn write_line(line: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(line).and_then(|()| stdout.flush())
}

/// The thread that forwards the stdout of process 0.
pub(super) struct Forwarder {
    thread: JoinHandle<()>,
    /// Since when it waits for a line; none while it writes one.
    waiting: Arc<Mutex<Option<Instant>>>,
}

impl Forwarder {
    /// Forwards `from`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn start(from: impl Read + Send + 'static) -> Result<Forwarder> {
        let waiting = Arc::new(Mutex::new(None));
        let state = Arc::clone(&waiting);
        let set = move |to| *state.lock().unwrap_or_else(PoisonError::into_inner) = to;
        let forward = move || {
            let (mut from, mut line) = (BufReader::new(from), Vec::new());
            loop {
                set(Some(Instant::now()));
                line.clear();
                let Ok(1..) = from.read_until(b'\n', &mut line) else { return };
                set(None);
                if write_line(&line).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("stdout".to_owned()).spawn(forward);
        Ok(Forwarder { thread: thread.context("cannot start a thread for stdout")?, waiting })
    }

    /// Whether everything that process 0 wrote before its end is written here.
    pub(super) fn is_done(&self) -> bool {
        let waiting = *self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.thread.is_finished() || waiting.is_some_and(|since| since.elapsed() >= DRAIN_TIMEOUT)
    }
}

/// Starts the thread that answers heartbeats: one answer for all that have come since the last one. The sender of
/// heartbeats never waits for ssh.
///
/// # Errors
/// When no thread can be started.
pub(super) fn answer_heartbeats(
    answer: impl Fn() -> Answer + Send + 'static,
) -> Result<mpsc::Sender<()>> {
    let (sender, heartbeats) = mpsc::channel();
    std::thread::Builder::new()
        .name("answers".to_owned())
        .spawn(move || {
            while heartbeats.recv().is_ok() {
                while heartbeats.try_recv().is_ok() {}
                let text = serde_json::to_string(&answer()).unwrap_or_default();
                if write_line(format!("{ANSWER}{text}\n").as_bytes()).is_err() {
                    return;
                }
            }
        })
        .context("cannot start a thread for answers")?;
    Ok(sender)
}
