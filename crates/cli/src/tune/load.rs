//! Says what a tuning will load, and for how long; asks; refuses what others use.
//! Not whether somebody else uses it (`busbw_host::in_use`).

use anyhow::Result;
use busbw_core::{
    exit::{Exit, ExitError},
    plan::BackendChoice,
    quantity::{count, decimal_bytes},
};
use busbw_host::in_use;

use super::job::Job;
use crate::{
    consent::{Answer, Consent, answer_to},
    options::TuneArguments,
    survey,
    sweep::say,
    within_job::Leader,
};

/// Whether this may be loaded by `launches`, which says how many and for how long.
///
/// # Errors
/// Others use it, or nobody said yes.
pub(super) fn may(
    arguments: &TuneArguments,
    job: &Job<'_>,
    launches: &str,
    leader: Option<&Leader>,
) -> Result<()> {
    let plan = job.plan();
    if matches!(plan.backend, BackendChoice::Fake(_)) {
        return Ok(());
    }
    let processes = match (leader, job.placement()) {
        (Some(leader), _) => survey::of_job(leader, survey::TIMEOUT)?,
        (None, Some(placement)) => survey::hosts(&placement, survey::patience(&placement))?,
        (None, None) => vec![survey::here(0, None, true)],
    };
    let mut hosts: Vec<&str> = Vec::new();
    let mut busy = Vec::new();
    for process in &processes {
        let host = process.fingerprint.host.as_str();
        if !hosts.contains(&host) && process.host.is_some() {
            hosts.push(host);
            busy.extend(in_use::sentence(host, &process.in_use));
        }
    }
    let consent = Consent {
        given: arguments.shared,
        option: "--shared loads them",
        within_s: arguments.seconds(),
    };
    let refused = |text: String| ExitError::new(Exit::Impossible, text);
    consent.ask(&busy).map_err(refused)?;
    let what = format!(
        "{launches}: {} on {} of {}; ranks send about {} in each",
        count(plan.ranks() as u64, "rank"),
        plan.backend.name(),
        count(hosts.len().max(1) as u64, "host"),
        decimal_bytes(job.bytes_a_launch() as u64),
    );
    if arguments.yes {
        say(&what);
        return Ok(());
    }
    match answer_to(&format!("{what}. Start?")) {
        Answer::Yes => Ok(()),
        Answer::No => Err(refused("nothing was started: the answer was no".to_owned()).into()),
        Answer::NobodyThere => {
            Err(refused(format!("{what}: nobody can be asked here; --yes starts it")).into())
        }
    }
}
