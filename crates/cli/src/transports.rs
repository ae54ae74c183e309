//! `busbw transports`: one job over each transport of its hosts, with evidence of which one ran.
//! A sweep over named environments.
//! Not launching it (`sweep`).

mod counters;
mod evidence;
mod layers;
mod limit;
mod log;
mod machine;
mod moved;
mod net_devices;
mod networks;
mod profile;
mod required;
mod table;
mod verbs;

pub(crate) use evidence::judge;
pub(crate) use limit::lowest;
pub(crate) use machine::{Here, JobHost};
pub(crate) use profile::{Profile, TransportKind, profiles};
pub(crate) use table::table;

use std::ffi::OsString;

use anyhow::Result;
use busbw_core::{exit::Exit, plan::Plan};

use crate::{
    options::TransportsArguments,
    survey,
    sweep::{self, Destination, Environment, Prepared},
    within_job::{self, Leader},
};
use busbw_analysis::sweep::{Conclusion, Percent};
use busbw_analysis::sweep::{Outcome, Tried};
use busbw_core::exit::ExitError;

/// Seconds for all transports together, where the user names none.
const DEFAULT_TIME_S: f64 = 240.0;
/// Runs all transports.
///
/// # Errors
/// The options cannot be used, or a process or file cannot be opened or started.
pub fn run(arguments: &TransportsArguments, args: &[OsString]) -> Result<Exit> {
    within_job::lead(args, |leader| compare(arguments, args, leader))
}

fn compare(
    arguments: &TransportsArguments,
    args: &[OsString],
    leader: Option<&Leader>,
) -> Result<Exit> {
    let mut arguments = arguments.clone();
    arguments.turns.time.get_or_insert(DEFAULT_TIME_S);
    let turns = &arguments.turns;
    let prepared = Prepared::new(turns)?;
    if let Some(text) = indistinct(prepared.plan()) {
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let hosts = hosts(&prepared, leader)?;
    if hosts.len() > 1 && arguments.virtual_nodes.is_some() {
        let text =
            "--virtual-nodes presents one host as several, and this job has several: leave it out";
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let here = Here {
        virtual_nodes: usize::from(arguments.virtual_nodes.unwrap_or(1)),
        wanted: arguments.only.clone(),
        net_plugin: arguments.net_plugin.clone(),
        ..Here::of(hosts, &prepared)
    };
    let chosen = chosen(profile::profiles(&here), &arguments.only)?;
    let running = chosen.iter().filter(|profile| profile.waived.is_none());
    let environments: Vec<Environment> =
        running.map(|profile| profile.environment.clone()).collect();
    let names: Vec<&str> = chosen.iter().map(|profile| profile.name()).collect();
    // Waived ones have no column to compare with.
    let baseline = match &turns.baseline {
        Some(which) => sweep::baseline(Some(which), &names)?,
        None => {
            let is_one = |profile: &Profile| profile.waived.is_none() && !profile.is_beside();
            chosen.iter().position(is_one)
        }
    };
    let waived = |number: usize| chosen.get(number)?.waived.as_ref();
    if turns.baseline.is_some()
        && let Some(number) = baseline
        && chosen.get(number).is_some_and(Profile::is_beside)
    {
        let text = format!(
            "--baseline {}: its messages take other times than the collective: name another one",
            names[number]
        );
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    if turns.baseline.is_some()
        && let Some(number) = baseline
        && let Some(why) = waived(number)
    {
        let text = format!("--baseline {}: it cannot run here: {why}", names[number]);
        return Err(ExitError::new(Exit::Impossible, text).into());
    }
    let destination = Destination::find(turns, &prepared, "transports")?;
    let mut measured =
        sweep::measure(turns, &prepared, &environments, &destination, Vec::new(), leader)?;
    // Waived ones have no launches, but a line of the table.
    let mut had = measured.turns.into_iter();
    measured.turns = chosen
        .iter()
        .map(|profile| match profile.waived {
            Some(_) => sweep::Turns::default(),
            None => had.next().unwrap_or_default(),
        })
        .collect();
    let tried = chosen.iter().zip(&measured.turns).map(|(profile, turns)| {
        if let Some(why) = profile.waived.clone().or_else(|| impossible(profile, turns)) {
            return Tried { waived: Some(why), ..sweep::untried(&profile.environment) };
        }
        let records: Vec<_> = turns.launches.iter().filter_map(|one| one.record.as_ref()).collect();
        let transport = evidence::judge(profile, &records, here.virtual_nodes);
        let tried = sweep::tried(&profile.environment, turns, destination.is_kept());
        Tried { transport: (!records.is_empty()).then_some(transport), ..tried }
    });
    let tried = tried.collect();
    let mut outcome = measured.outcome(turns, &prepared, "transports", args, baseline, tried);
    weigh(&mut outcome, &chosen, &here);
    // A failing stdout must not lose the result, and a failing folder must not lose the table.
    let kept = destination.keep(&outcome);
    sweep::print(turns, &outcome, table)?;
    kept?;
    if outcome.environments.iter().all(|one| one.waived.is_some()) {
        let text = "no transport can run here: see the reasons above";
        return Err(ExitError::new(Exit::Impossible, text).into());
    }
    Ok(sweep::exit(&outcome))
}

/// Why writes beside the collective cannot run at all: a device, a library or an option of the job is not theirs. The job's
/// own transports are no worse for that.
fn impossible(profile: &Profile, turns: &sweep::Turns) -> Option<String> {
    let (exit, why) = turns.failure().filter(|_| profile.is_beside())?;
    let refused = [Exit::Impossible.code(), Exit::Usage.code()].contains(exit);
    let has_rows = turns.launches.iter().filter_map(|launch| launch.record.as_ref());
    let has_rows = has_rows.clone().any(|record| !record.rows.is_empty());
    (refused && !has_rows).then(|| why.clone())
}

/// The hosts of the job, read by its processes.
fn hosts(prepared: &Prepared, leader: Option<&Leader>) -> Result<Vec<JobHost>> {
    let surveys = match (leader, prepared.placement()) {
        (Some(leader), _) => survey::of_job(leader, survey::TIMEOUT)?,
        (None, Some(placement)) => survey::hosts(&placement, survey::patience(&placement))?,
        (None, None) => vec![survey::here(0, None, true)],
    };
    Ok(JobHost::all(surveys))
}

/// Why it cannot be told which transport a plan's bytes take.
pub(crate) fn indistinct(plan: &Plan) -> Option<&'static str> {
    if has_groups(plan) {
        return Some(
            "NCCL_TESTS_SPLIT makes several communicators, and NCCL's log does not say to which one a connection belongs: unset it to compare transports",
        );
    }
    if plan.calls.is_some() {
        return Some(
            "a replay runs several collectives, and a transport is proven by one: name that one",
        );
    }
    (plan.variants.len() > 1).then_some(
        "calls of several variants alternate, and devices' counters cannot tell whose bytes they count: give one algorithm, number of CTAs and policy to compare transports",
    )
}

/// Whether ranks form several communicators.
fn has_groups(plan: &Plan) -> bool {
    (0..plan.ranks()).any(|rank| plan.colour(rank) != plan.colour(0))
}

/// The transports that the user named; by default all but `default`, which is the same as one of
/// the others.
fn chosen(all: Vec<Profile>, only: &[String]) -> Result<Vec<Profile>> {
    let known: Vec<String> = all.iter().map(|profile| profile.name().to_owned()).collect();
    if let Some(word) = only.iter().find(|word| !all.iter().any(|profile| profile.is_meant(word))) {
        let text = format!("--only {word}: there is {}", known.join(", "));
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let is_meant = |profile: &Profile| match only {
        [] => profile.name() != "default",
        only => only.iter().any(|word| profile.is_meant(word)),
    };
    Ok(all.into_iter().filter(is_meant).collect())
}

/// Adds the limit to every cell. The transport's own percentage is that of its largest size.
fn weigh(outcome: &mut Outcome, chosen: &[Profile], here: &Here) {
    for (number, profile) in chosen.iter().enumerate() {
        let transport = outcome.environments.get(number).and_then(|one| one.transport.as_ref());
        let Some(verdict) = transport.map(|transport| transport.verdict) else { continue };
        // The transport that ran instead has another limit.
        let answer = match verdict {
            Conclusion::Proven => limit::lowest(here, &profile.kind),
            _ => Err("no limit: it is not proven that this transport ran".to_owned()),
        };
        let mut last = None;
        for row in &mut outcome.rows {
            let Some(cell) = row.cells.get_mut(number).and_then(Option::as_mut) else { continue };
            cell.limit = answer.as_ref().ok().copied();
            last = Some(match &answer {
                Ok(limit) => Percent::Known(cell.busbw / limit * 100.0),
                Err(why) => Percent::Unknown(why.clone()),
            });
        }
        let transport = outcome.environments.get_mut(number).and_then(|one| one.transport.as_mut());
        if let (Some(transport), Some(last)) = (transport, last) {
            transport.limit = Some(last);
        }
    }
}
