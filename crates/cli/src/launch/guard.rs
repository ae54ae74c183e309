//! Signals that end a run, as events for the supervisor. Ignored ones stay ignored: nohup and
//! background jobs mean it.
//! Not what the supervisor does about them.

use std::{sync::mpsc::Sender, time::Duration};

use anyhow::{Context, Result};
use model::exit::Exit;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

/// How long the supervisor may take to end after the first signal, and after the second. It is
/// longer only when somebody holds on to its stdout without reading.
const PATIENCE: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(3)];

/// Sends every terminating signal to `events`, from now on. Whatever becomes of them, the process
/// ends soon after: the ranks die with it, and the record has every row already.
///
/// # Errors
/// When the handlers cannot be installed.
pub(super) fn watch<E: Send + 'static>(
    events: Sender<E>,
    event: impl Fn(i32) -> E + Send + 'static,
) -> Result<()> {
    let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !ignored(*signal));
    let mut signals = Signals::new(wanted).context("cannot take signals")?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut patience = PATIENCE.into_iter();
            for signal in &mut signals {
                if let Some(patience) = patience.next() {
                    exit_after(patience);
                }
                if events.send(event(signal)).is_err() {
                    return;
                }
            }
        })
        .context("cannot start a thread for signals")?;
    Ok(())
}

fn exit_after(patience: Duration) {
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
