//! Whether a job may be made in a cluster that others use: asked once a command, by naming what would be made where.
//! Not whether GPUs or a network are in use (`crate::consent`): in a cluster the scheduler knows that.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::Result;
use busbw_core::{
    environment::SWEPT,
    exit::{Exit, ExitError},
    printable::Printable,
};
use busbw_job::launchers::{Launcher, job::Job};

use crate::consent::is_yes;

/// Whether this command has an answer: a command of several launches asks once.
static IS_GIVEN: AtomicBool = AtomicBool::new(false);

/// Says what `launcher` would make, and asks unless `yes`.
///
/// # Errors
/// The answer is no, or there is nobody to ask, or what would be made cannot be found out.
pub(super) fn ask(launcher: &dyn Launcher, job: &Job, yes: bool) -> Result<()> {
    // A launch of a sweep: the sweep has asked.
    if std::env::var_os(SWEPT).is_some() || IS_GIVEN.load(Ordering::Relaxed) {
        return Ok(());
    }
    let Some(intent) = launcher.intent(job)? else { return Ok(()) };
    // Without a stderr there is nobody to ask, and the answer is no.
    let mut err = Printable::new(io::stderr(), false);
    if yes {
        let _ = writeln!(err, "busbw: {intent}");
        IS_GIVEN.store(true, Ordering::Relaxed);
        return Ok(());
    }
    let refused = |text: String| Err(ExitError::new(Exit::Impossible, text).into());
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return refused(format!(
            "nobody is here to ask: --yes makes {intent}; --dry-run prints it"
        ));
    }
    let _ = write!(err, "busbw: {intent}. Make them? [y/N] ");
    let _ = err.flush();
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    if read.is_err() || !is_yes(&line) {
        return refused("nothing was made: the answer was no".to_owned());
    }
    IS_GIVEN.store(true, Ordering::Relaxed);
    Ok(())
}

/// A command with a `--yes` of its own was given it.
pub(crate) fn give() {
    IS_GIVEN.store(true, Ordering::Relaxed);
}
