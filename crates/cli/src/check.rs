//! `busbw check`: whether a set of hosts is fit for a job, within a time.
//! Not what its lines mean and what follows from them (`busbw_analysis::check`).

mod files;
mod hosts;
mod records;
mod stages;
mod transports;

use std::{
    ffi::OsString,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, anyhow};
use busbw_analysis::{
    check::{
        Asked, Check, CheckLine, CheckReport, Decided, Decision, SCHEMA, Verdict, conclusion,
        conduct, decide, table,
    },
    comparison::Side,
    explain::Hardware,
};
use busbw_core::exit::{Exit, ExitError};
use busbw_host::termination_message;
use busbw_render::answer::{answer, json_line};
use busbw_store as store;
use std::io::Write;

use crate::{
    compare,
    options::{CheckingArguments, mistake},
    sweep::{Interruption, say},
    within_job::{self, Leader},
};
use stages::Machines;

/// Runs a check. The exit code is 0 where the job may start, and 1 where it must not.
///
/// # Errors
/// The options cannot be used. Whatever else fails is no fault of a host: it is said, and the job may start.
pub fn run(arguments: &CheckingArguments, args: &[OsString]) -> Result<Exit> {
    let checked = || {
        within_job::lead(args, |leader| {
            check(arguments, args, leader).or_else(|error| untold(arguments, leader, error))
        })
    };
    // A mistake of this program must not hold up a job either.
    let ended = catch_unwind(AssertUnwindSafe(checked)).unwrap_or_else(|_| {
        Err(anyhow!("it ended in a panic, whose message is above: please report it"))
    });
    // Process 0 gave the job up before it could decide: that is no fault of a host either.
    let ended = ended.and_then(|exit| match exit {
        Exit::Ok | Exit::Internal | Exit::Usage | Exit::Interrupted => Ok(exit),
        other => Err(anyhow!("process 0 of this job ended it with exit code {}", other.code())),
    });
    ended.or_else(|error| untold(arguments, None, error))
}

/// What becomes of a check that could not be made: processes of a launcher's job that do not find each other, a full
/// disk.
///
/// # Errors
/// It is the user's own mistake.
fn untold(
    arguments: &CheckingArguments,
    leader: Option<&Leader>,
    error: anyhow::Error,
) -> Result<Exit> {
    if let Some(text) = mistake(&error) {
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let line = CheckLine::new(Check::Doctor, Verdict::CannotTell, "");
    let decision = decide(&[line], arguments.fail_closed, false).decision;
    let follows = match decision.lets_start() {
        true => "the job may start",
        false => "the job must not start (--fail-closed)",
    };
    let text = format!("cannot tell, and {follows}: the check failed: {error:#}");
    say(&text);
    conclude(leader, &text);
    Ok(exit(decision))
}

fn check(
    arguments: &CheckingArguments,
    args: &[OsString],
    leader: Option<&Leader>,
) -> Result<Exit> {
    let begun = Instant::now();
    let started = store::local_time::now();
    let baseline = arguments.baseline.as_deref().map(baseline).transpose()?;
    let hardware = Hardware::read(arguments.machine.as_deref(), None)
        .map_err(|error| ExitError::new(Exit::Usage, error.to_string()))?;
    let interruption = Interruption::watch()?;
    let mut machines = Machines::new(arguments, hardware, leader, interruption.clone(), begun)?;
    let asked = Asked {
        within_s: arguments.within,
        baseline,
        least_percent: arguments.fail_below_limit,
        keeps_records: arguments.record.is_some(),
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
    conclude(leader, &format!("{}\n{}", conclusion(&report), table(&report, false)));
    let printed = answer(|out, colour| match arguments.json {
        true => json_line(out, &report),
        false => out.write_all(table(&report, colour).as_bytes()),
    });
    // What cannot be written changes nothing in what was decided.
    for failed in [files::keep(arguments, &report), printed].into_iter().filter_map(Result::err) {
        say(&format!("{failed:#}"));
    }
    Ok(exit(decision))
}

/// Tells the verdict to whoever reads this pod's termination message, and those of the job's other pods.
fn conclude(leader: Option<&Leader>, text: &str) {
    let text = format!("busbw: {text}");
    termination_message::write(&text);
    if let Some(leader) = leader {
        leader.conclude(&text);
    }
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
