//! Signals that end a run: noted from its first moment, told to whoever supervises it. Ignored ones
//! stay ignored: nohup and background jobs mean it.
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

/// How long the supervisor may take to end after the first signal, and after the second. It is
/// longer only when something holds it up that no signal reaches, such as a dead network disk.
const PATIENCE: [Duration; 2] = [Duration::from_secs(6), Duration::from_secs(2)];

/// Hears every terminating signal.
#[derive(Clone, Default)]
pub struct Guard {
    heard: Arc<AtomicBool>,
    relay: Arc<Mutex<Relay>>,
}

/// Who wants to know of signals, and those that came before anybody did.
#[derive(Default)]
struct Relay {
    early: Vec<i32>,
    to: Option<Box<dyn Fn(i32) + Send>>,
}

impl Guard {
    /// Takes signals from now on. Whatever becomes of them, the process ends soon after: the ranks
    /// die with it, and the record has every row already.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn watch() -> Result<Guard> {
        let mut signals = Signals::new(terminating()).context("cannot take signals")?;
        let guard = Guard::default();
        let told = guard.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let mut patience = PATIENCE.into_iter();
                for signal in &mut signals {
                    if let Some(patience) = patience.next() {
                        exit_after(patience);
                    }
                    told.tell(signal);
                }
            })
            .context("cannot start a thread for signals")?;
        Ok(guard)
    }

    /// Tells `to` of every signal, also of those that came before.
    pub fn relay(&self, to: impl Fn(i32) + Send + 'static) {
        let mut relay = self.lock();
        relay.early.drain(..).for_each(&to);
        relay.to = Some(Box::new(to));
    }

    /// Whether any signal came.
    pub fn heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    fn tell(&self, signal: i32) {
        self.heard.store(true, Ordering::Relaxed);
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

/// Signals that end a run, but for those that we were started to ignore.
pub fn terminating() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !ignored(*signal))
}

/// Ends this process as interrupted, if it is still there then.
pub(super) fn exit_after(patience: Duration) {
    // Without a thread it is only less patient users who must use SIGKILL.
    let _ = std::thread::Builder::new().name("impatience".to_owned()).spawn(move || {
        std::thread::sleep(patience);
        std::process::exit(Exit::Interrupted.code().into())
    });
}

/// Whether the signal was ignored when we were started (SigIgn in /proc/self/status).
fn ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// The name of a signal, as far as people know them.
pub(super) fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal)
        .map_or_else(|| format!("signal {signal}"), |name| format!("signal {signal} ({name})"))
}
