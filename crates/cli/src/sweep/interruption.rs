//! Catches Ctrl-C and other terminating signals during a sweep, so that the results so far can be
//! printed.
//! Not forwarding them: `launch` signals a launch that did not get one.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context, Result};
use signal_hook::iterator::Signals;

use busbw_runner::signals;

/// Counts signals that end a run.
#[derive(Debug, Clone, Default)]
pub struct Interruption(Arc<AtomicUsize>);

impl Interruption {
    /// Catches them from now on.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub fn watch() -> Result<Interruption> {
        let mut signals = Signals::new(signals::terminating()).context("cannot take signals")?;
        let interruption = Interruption::default();
        let counter = interruption.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for _ in &mut signals {
                    counter.0.fetch_add(1, Ordering::Relaxed);
                }
            })
            .context("cannot start a thread for signals")?;
        Ok(interruption)
    }

    /// Whether one arrived.
    pub fn is_interrupted(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Whether another one arrived after it.
    pub fn insists(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}
