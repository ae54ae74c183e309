//! Writes a command's output to stdout, as text or JSON. A closed pipe is no failure.
//! Not a run's rows (`busbw_runner::outputs`).

use std::{
    io::{self, BufWriter, IsTerminal, StdoutLock, Write},
    sync::OnceLock,
};

use anyhow::{Context, Result};
use serde::Serialize;

use busbw_core::printable::Printable;

/// The writer of a command's output.
pub type Out = Printable<BufWriter<StdoutLock<'static>>>;

/// Calls `write` with stdout and with whether colours are wanted there.
///
/// # Errors
/// stdout cannot be written.
pub fn answer(write: impl FnOnce(&mut Out, bool) -> io::Result<()>) -> Result<()> {
    let colour = wants_colour();
    let mut out = Printable::new(BufWriter::new(io::stdout().lock()), colour);
    match write(&mut out, colour).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to stdout"),
    }
}

/// When colours are printed: `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Colour {
    /// Where stdout is a terminal and NO_COLOR is not set.
    #[default]
    Auto,
    /// Also into a file or a pipe.
    Always,
    /// Nowhere.
    Never,
}

static COLOUR: OnceLock<Colour> = OnceLock::new();

/// Sets for this process when colours are printed. The first call counts.
pub fn set_colour(colour: Colour) {
    COLOUR.get_or_init(|| colour);
}

/// Whether stdout gets colours.
pub fn wants_colour() -> bool {
    match COLOUR.get().copied().unwrap_or_default() {
        Colour::Auto => io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        Colour::Always => true,
        Colour::Never => false,
    }
}

/// A line of JSON.
pub fn json_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    // In one piece: what guards the output looks at each.
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)
}
