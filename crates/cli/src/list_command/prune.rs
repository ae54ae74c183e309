//! `busbw list --prune`: removes old records and results of sweeps from the data folder, once `--yes` says so.
//! Not which of them are listed (`list_command`).

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use busbw_analysis::sweep;
use busbw_core::quantity::{count, decimal_bytes};
use busbw_store as store;
use jiff::civil::DateTime;

use super::{
    print_remark,
    summary::{About, Listed},
};

/// A record without an end that was written to this lately may still be written to.
const STILL_RUNNING: Duration = Duration::from_secs(24 * 3600);

/// What is to be removed.
#[derive(Default)]
pub(super) struct Prune {
    paths: Vec<PathBuf>,
    bytes: u64,
    runs: u64,
}

impl Prune {
    /// Adds a run that is old enough, and the result of its sweep. False where its files stay: it is damaged, so nobody knows
    /// whose it is, or is no plain file, or may still run.
    pub(super) fn take(&mut self, one: &Listed, before: DateTime) -> bool {
        let About::Run(run) = &one.about else { return false };
        if !run.started.parse::<DateTime>().is_ok_and(|started| started < before) {
            return false;
        }
        let open = run.verdict.starts_with("no end");
        let result = store::find_result(one.id.as_ref())
            .ok()
            .filter(|path| fs::read_to_string(path).is_ok_and(|text| sweep::read(&text).is_ok()));
        let mut paths: Vec<PathBuf> = one.paths.iter().cloned().chain(result).collect();
        paths.retain(|path| {
            // Not what a link points to.
            fs::symlink_metadata(path).is_ok_and(|about| {
                let written = about.modified().unwrap_or(SystemTime::now());
                let lately = written.elapsed().is_ok_and(|ago| ago < STILL_RUNNING);
                let goes = about.is_file() && !(open && lately);
                self.bytes += if goes { about.len() } else { 0 };
                goes
            })
        });
        self.runs += u64::from(!paths.is_empty());
        let taken = !paths.is_empty();
        self.paths.extend(paths);
        taken
    }

    /// Removes the files if `confirmed`; says what was, or would be, removed. False where a file could not be.
    pub(super) fn finish(&self, confirmed: bool) -> bool {
        let what = format!(
            "{} in {} ({})",
            count(self.runs, "run"),
            count(self.paths.len() as u64, "file"),
            decimal_bytes(self.bytes)
        );
        if self.paths.is_empty() {
            print_remark("nothing to remove: no run of these is so old");
            return true;
        }
        if !confirmed {
            print_remark(&format!("would remove {what}; nothing is removed without --yes"));
            return true;
        }
        let mut complete = true;
        for path in &self.paths {
            if let Err(error) = fs::remove_file(path) {
                print_remark(&format!("cannot remove {}: {error}", path.display()));
                complete = false;
            }
        }
        if complete {
            print_remark(&format!("removed {what}"));
        }
        complete
    }
}
