//! A progress bar for long files, on a terminal.
//! Not for short files: they are read at once.

use indicatif::{ProgressBar, ProgressStyle};

/// Files from this size on show a bar, bytes.
const BAR_FROM_BYTES: u64 = 64 << 20;

/// A bar for a file of `bytes`; hidden where the file is short or stderr is not a terminal.
pub(super) fn bar(bytes: u64) -> ProgressBar {
    if bytes < BAR_FROM_BYTES {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    let style = ProgressStyle::with_template(
        "{spinner} {wide_bar} read {binary_bytes} of {binary_total_bytes} ({elapsed}, left {eta})",
    );
    style.map_or(bar.clone(), |style| bar.with_style(style))
}
