//! `busbw check`: whether a set of hosts is fit for a job, within a time.
//! Not what its lines mean and what follows from them (`busbw_analysis::check`).

mod consent;
mod files;
mod hosts;
mod records;
mod stages;

use std::{
    ffi::OsString,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use busbw_analysis::{
    check::{Asked, CheckReport, Decided, Decision, SCHEMA, conclusion, conduct, decide, table},
    comparison::Side,
    explain::Hardware,
};
use busbw_core::exit::{Exit, ExitError};
use busbw_render::answer::{answer, json_line};
use busbw_store as store;
use std::io::Write;

use crate::{
    compare,
    options::CheckingArguments,
    sweep::{Interruption, say},
};
use stages::Machines;

/// Runs a check. The exit code is 0 where the job may start, and 1 where it must not.
///
/// # Errors
/// The options cannot be used, or a file cannot be written. What fails while hosts are checked is a line, not an error.
pub fn run(arguments: &CheckingArguments, args: &[OsString]) -> Result<Exit> {
    let begun = Instant::now();
    let started = store::local_time::now();
    let baseline = arguments.baseline.as_deref().map(baseline).transpose()?;
    let hardware = Hardware::read(arguments.machine.as_deref(), None)
        .map_err(|error| ExitError::new(Exit::Usage, error.to_string()))?;
    let interruption = Interruption::watch()?;
    let mut machines = Machines::new(arguments, hardware, interruption.clone(), begun)?;
    let asked = Asked {
        within_s: arguments.within,
        baseline,
        least_percent: arguments.fail_below_limit,
        only: arguments.only.clone(),
    };
    let lines = conduct(&mut machines, &asked);
    let Decided { decision, reason } =
        decide(&lines, arguments.fail_closed, interruption.is_interrupted());
    let report = CheckReport {
        check_schema: SCHEMA,
        busbw: env!("CARGO_PKG_VERSION").to_owned(),
        started,
        started_unix: seconds_since_1970(begun),
        args: args.iter().map(|arg| store::masked(&arg.to_string_lossy())).collect(),
        hosts: machines.hosts().to_vec(),
        ranks: machines.ranks(),
        within_s: arguments.within,
        took_s: begun.elapsed().as_secs_f64(),
        lines,
        decision,
        reason,
    };
    // Said before anything can fail that only prints: a prolog's log has it.
    if decision != Decision::Pass {
        say(&conclusion(&report));
    }
    // A failing stdout must not lose the files, and a failing file must not lose the table.
    let kept = files::keep(arguments, &report);
    answer(|out, colour| match arguments.json {
        true => json_line(out, &report),
        false => out.write_all(table(&report, colour).as_bytes()),
    })?;
    kept?;
    Ok(exit(decision))
}

/// The command's exit code.
const fn exit(decision: Decision) -> Exit {
    match decision {
        Decision::Pass | Decision::LetThrough => Exit::Ok,
        Decision::Blocked | Decision::BlockedUntold => Exit::Internal,
        Decision::Interrupted => Exit::Interrupted,
    }
}

/// The side of an earlier run.
fn baseline(word: &std::path::Path) -> Result<Side> {
    compare::side(word).map_err(|error| {
        ExitError::new(Exit::Usage, format!("--baseline {}: {error:#}", word.display())).into()
    })
}

fn seconds_since_1970(begun: Instant) -> i64 {
    let then = SystemTime::now().checked_sub(begun.elapsed());
    let since = then.and_then(|then| then.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_must_not_start_has_another_exit_code() {
        for decision in [Decision::Pass, Decision::LetThrough] {
            assert!(decision.lets_start());
            assert_eq!(exit(decision).code(), 0);
        }
        assert_eq!(exit(Decision::Blocked).code(), 1);
        assert_eq!(exit(Decision::BlockedUntold).code(), 1);
        assert_eq!(exit(Decision::Interrupted).code(), 130);
    }
}
