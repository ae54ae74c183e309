//! Signals that end a run, as events for the supervisor. Ignored ones stay ignored: nohup and
//! background jobs mean it.
//! Not what the supervisor does about them.

use std::sync::mpsc::Sender;

use anyhow::{Context, Result};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

/// Sends every terminating signal to `events`, from now on.
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
            for signal in &mut signals {
                if events.send(event(signal)).is_err() {
                    return;
                }
            }
        })
        .context("cannot start a thread for signals")?;
    Ok(())
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
