//! Whether a job may be made in a cluster that others use: asked once a command, by naming what would be made where.
//! Not whether GPUs or a network are in use (`crate::consent`): in a cluster the scheduler knows that.

use std::{
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::Result;
use busbw_core::{
    environment::SWEPT,
    exit::{Exit, ExitError},
    printable::Printable,
};
use busbw_job::launchers::{
    Launcher,
    job::Job,
    kubernetes::{begin_on_same_nodes, nodes_file},
};

use crate::consent::{Answer, answer_to};

/// Whether the answer was given by the command's own `--yes`.
static IS_GIVEN: AtomicBool = AtomicBool::new(false);

/// Says what `launcher` would make, and asks unless `yes`.
///
/// # Errors
/// The answer is no, or there is nobody to ask, or what would be made cannot be found out.
pub(super) fn ask(launcher: &dyn Launcher, job: &Job, yes: bool) -> Result<()> {
    // A launch of a sweep: the sweep has asked.
    if std::env::var_os(SWEPT).is_some() || nodes_file().is_some() {
        return Ok(());
    }
    let Some(intent) = launcher.intent(job)? else { return Ok(()) };
    begin_on_same_nodes();
    if yes || IS_GIVEN.load(Ordering::Relaxed) {
        let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {intent}");
        return Ok(());
    }
    let refused = |text: String| Err(ExitError::new(Exit::Impossible, text).into());
    match answer_to(&format!("{intent}. Make them?")) {
        Answer::Yes => Ok(()),
        Answer::No => refused("nothing was made: the answer was no".to_owned()),
        Answer::NobodyThere => {
            refused(format!("nobody is here to ask: --yes makes {intent}; --dry-run prints it"))
        }
    }
}

/// A command with a `--yes` of its own was given it.
pub(super) fn give() {
    IS_GIVEN.store(true, Ordering::Relaxed);
}
