//! How much of a long file was read, on a terminal.
//! Not for short ones: they are read before anyone looks.

use indicatif::{ProgressBar, ProgressStyle};

/// Bytes from which on reading takes long enough to be shown.
const LONG: u64 = 64 << 20;

/// A bar over a file of so many bytes; hidden where it is short, or stderr no terminal.
pub(super) fn bar(bytes: u64) -> ProgressBar {
    if bytes < LONG {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    let style = ProgressStyle::with_template(
        "{spinner} {wide_bar} read {binary_bytes} of {binary_total_bytes} ({elapsed}, left {eta})",
    );
    style.map_or(bar.clone(), |style| bar.with_style(style))
}
