//! Terminating signals: recorded from the start of a run, and passed on to its supervisor. Ignored signals stay
//! ignored, as nohup and background jobs expect.
//! Not what the supervisor does about them.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

/// How long the supervisor may take to exit after the first signal, and after the second. It takes longer only in
/// a call that no signal interrupts, such as a write to a dead network disk.
const EXIT_TIMEOUTS: [Duration; 2] = [Duration::from_secs(6), Duration::from_secs(2)];

/// Receives every terminating signal.
#[derive(Clone, Default)]
pub struct Guard {
    signalled: Arc<AtomicBool>,
    relay: Arc<Mutex<Relay>>,
}

/// The receiver of signals, and the signals that arrived before there was one.
#[derive(Default)]
struct Relay {
    early: Vec<i32>,
    to: Option<Box<dyn Fn(i32) + Send>>,
}

impl Guard {
    /// Installs the handlers. After a signal the process exits within a few seconds in any case: the ranks exit
    /// with it, and the record has every row already.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn watch() -> Result<Guard> {
        Guard::watch_within(EXIT_TIMEOUTS)
    }

    /// The same with other times, where what was started elsewhere takes longer to end.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn watch_within(timeouts: [Duration; 2]) -> Result<Guard> {
        let mut signals = Signals::new(terminating()).context("cannot install signal handlers")?;
        let guard = Guard::default();
        let passing = guard.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let mut timeout = timeouts.into_iter();
                for signal in &mut signals {
                    if let Some(timeout) = timeout.next() {
                        exit_after(timeout);
                    }
                    passing.pass_on(signal);
                }
            })
            .context("cannot start a thread for signals")?;
        Ok(guard)
    }

    /// Calls `to` for every signal, including earlier ones.
    pub fn relay(&self, to: impl Fn(i32) + Send + 'static) {
        let mut relay = self.lock();
        relay.early.drain(..).for_each(&to);
        relay.to = Some(Box::new(to));
    }

    /// Whether a signal has arrived.
    pub fn is_signalled(&self) -> bool {
        self.signalled.load(Ordering::Relaxed)
    }

    fn pass_on(&self, signal: i32) {
        self.signalled.store(true, Ordering::Relaxed);
        let mut relay = self.lock();
        match &relay.to {
            Some(to) => to(signal),
            None => relay.early.push(signal),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Relay> {
        self.relay.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The signals that end a run, without those that this process inherited as ignored.
pub fn terminating() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !ignored(*signal))
}

/// Exits this process as interrupted after `timeout`, if it still runs.
pub(super) fn exit_after(timeout: Duration) {
    // Without a thread a user may need SIGKILL.
    let _ = std::thread::Builder::new().name("exit-timeout".to_owned()).spawn(move || {
        std::thread::sleep(timeout);
        std::process::exit(Exit::Interrupted.code().into())
    });
}

/// Whether this process inherited the signal as ignored (SigIgn in /proc/self/status).
fn ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// "signal 9 (SIGKILL)".
pub(super) fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal)
        .map_or_else(|| format!("signal {signal}"), |name| format!("signal {signal} ({name})"))
}
