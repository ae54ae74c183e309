//! The progress line on stderr: how much time has passed and is left, and a message. Drawn while nothing else happens, too.
//! Not the estimate, which its owner makes, and not the text of times (`busbw_render::time_left`).

use std::{
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use busbw_render::{Left, time_left};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// How often the line is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(250);

/// What knows how much time is left.
pub trait Estimate: Send + 'static {
    /// What is left at `now`, in seconds since the line began; nothing as long as nothing tells.
    fn left(&self, now: f64) -> Option<Left>;
}

/// The line; nothing unless stderr is a terminal.
pub struct ProgressLine<E> {
    bar: ProgressBar,
    began: Instant,
    estimate: Arc<Mutex<E>>,
}

impl<E: Estimate> ProgressLine<E> {
    /// A line that begins now.
    pub fn new(estimate: E, message: String) -> ProgressLine<E> {
        let line = ProgressLine { bar: ProgressBar::new_spinner(), ..Self::hidden(estimate) };
        if !line.bar.is_hidden() {
            let (estimate, began) = (line.estimate.clone(), line.began);
            let left = move |_: &ProgressState, to: &mut dyn Write| {
                let now = began.elapsed().as_secs_f64();
                let left = estimate.lock().unwrap_or_else(PoisonError::into_inner).left(now);
                // A line that cannot be drawn is drawn the next time.
                let _ = to.write_str(&time_left(now, left));
            };
            if let Ok(style) = ProgressStyle::with_template("{spinner} {left}{wide_msg}") {
                line.bar.set_style(style.with_key("left", left));
            }
            line.bar.set_message(message);
            line.bar.enable_steady_tick(DRAW_INTERVAL);
        }
        line
    }

    /// No line at all.
    pub fn hidden(estimate: E) -> ProgressLine<E> {
        let estimate = Arc::new(Mutex::new(estimate));
        ProgressLine { bar: ProgressBar::hidden(), began: Instant::now(), estimate }
    }

    /// Tells the estimate what happened now, in seconds since the line began.
    pub fn tell<R>(&self, what: impl FnOnce(&mut E, f64) -> R) -> R {
        let now = self.began.elapsed().as_secs_f64();
        what(&mut self.estimate.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    /// Sets the message behind the times.
    pub fn message(&self, text: String) {
        self.bar.set_message(text);
    }

    /// Runs `print` while the line is not drawn.
    pub fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
