//! Ctrl-C and its kin while launches follow each other: heard, so that what was measured can be shown.
//! Not passed on here: a launch that did not hear is told by `launch`.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context, Result};
use signal_hook::iterator::Signals;

use busbw_runner::signals;

/// Hears signals that end a run.
#[derive(Debug, Clone, Default)]
pub struct Interruption(Arc<AtomicUsize>);

impl Interruption {
    /// Takes them from now on.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn watch() -> Result<Interruption> {
        let mut signals = Signals::new(signals::terminating()).context("cannot take signals")?;
        let heard = Interruption::default();
        let told = heard.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for _ in &mut signals {
                    told.0.fetch_add(1, Ordering::Relaxed);
                }
            })
            .context("cannot start a thread for signals")?;
        Ok(heard)
    }

    /// Whether one came.
    pub fn heard(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Whether another came after it.
    pub fn insists(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}
