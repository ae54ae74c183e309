//! The first launch of a tuning, and the searches that follow from what it says.
//! Not the launches that these ask for (`conduct`).

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
};

use anyhow::{Context, Result};
use busbw_analysis::explain::{self, Hardware};
use busbw_core::{
    exit::{Exit, ExitError},
    finding::{Finding, Severity},
    record::{Device, Folded},
};
use busbw_library_logs::nccl::{NcclFacts, Transport};
use busbw_logs::measurement::Measurement;
use busbw_runner::embedded::{self, Plugin};
use busbw_store as store;
use busbw_tune::{
    Assignment, Budget, Call, Objective, Search, Settings, Strategy,
    catalogue::{self, Here},
    tuned::Part,
};

use super::{
    BATCHES, basis::Basis, by_call::Way, here, interfaces, job::Job, state::State, trial,
    tuner_file,
};
use crate::{
    options::TuneArguments,
    sweep::{self, say},
};

/// The shares of the time that the search for an environment has, and the one by call, where there are both; the comparison of
/// the tuner's file has the rest.
pub(super) const ENVIRONMENT_SHARE: f64 = 0.5;
pub(super) const BY_CALL_SHARE: f64 = 0.3;
/// The values that the user lists, by name.
type Listed = BTreeMap<String, Vec<Option<String>>>;
/// nccl-tests' variable that splits ranks into communicators.
const SPLIT: &str = "NCCL_TESTS_SPLIT";
/// The variable that selects a net plugin.
const NET_PLUGIN: &str = "NCCL_NET_PLUGIN";

/// Launches once in the user's own environment: what there is, how long a launch takes, and the searches that follow.
///
/// # Errors
/// It fails, there is nothing to tune here, or a list of the user's cannot be tried.
pub(super) fn begin(
    arguments: &TuneArguments,
    args: &[OsString],
    weights: Option<Vec<(Call, f64)>>,
    job: &mut Job<'_>,
) -> Result<State> {
    let mut listed = listed(&arguments.values)?;
    say("the first launch is in your own environment: what there is, and how long one takes");
    let (records, first_s) = first_launch(job)?;
    let first = records.first().context("the first launch kept no record")?;
    let (backend, ranks) = (first.run.plan.backend.name().to_owned(), first.run.plan.ranks());
    let mut here = here::here(&records)?;
    add_plugin(&mut here, job, &mut listed);
    let nodes = records.iter().flat_map(|record| &record.library).find_map(nodes);
    let calls = trial::calls(&records);
    let present = here::present(job.net());
    let basis = Basis::of(&records, &here, &present);
    let way = Way::of(&records, here.nccl, job.is_amd());
    let mut parts = parts(job, &records, &here)?;
    let looked = interfaces::look(job, &here, &records)?;
    let mut before = wrong(records);
    if let Some((part, findings)) = looked {
        // By the paths of one launch alone; launches by interface know more.
        before.retain(|finding| finding.rule != "slow-paths");
        before.splice(..0, findings);
        parts.push(part);
    }
    let by_call = has_calls(&here, arguments);
    let usage = |text: String| ExitError::new(Exit::Usage, text);
    let (space, variables_left_out) =
        catalogue::space(&here, &present, &listed).map_err(|error| usage(error.to_string()))?;
    let (rungs, rungs_left_out) = catalogue::rungs(&space, &variables_left_out);
    let share = if by_call { ENVIRONMENT_SHARE } else { 1.0 };
    let settings = |objective: Objective, strategy: Strategy, share: f64| Settings {
        objective,
        strategy,
        budget: Budget { trials: arguments.trials, seconds: Some(share * arguments.seconds()) },
        seed: arguments.seed,
    };
    let strategy = if arguments.search { Strategy::Races } else { Strategy::Ladder(rungs) };
    let objective = match weights {
        Some(weights) => Objective::Weighted(nearest(weights, &calls)),
        None => Objective::AllCalls(calls.clone()),
    };
    let search = Search::new(space, settings(objective, strategy, share))
        .map_err(|error| usage(error.to_string()))?;
    let words = args.iter().skip(1).map(|word| store::masked(&word.to_string_lossy())).collect();
    let mut state = State::new(search, words, !arguments.search);
    if by_call {
        let names: Vec<&str> = calls.iter().map(|call| call.operation.as_str()).collect();
        let is_offered = |algorithm: &str| tuner_file::is_offered(algorithm, &names);
        let space = catalogue::by_call(&here, is_offered, |algorithm| way.sets_channels(algorithm))
            .map_err(|error| usage(error.to_string()))?;
        let search =
            Search::new(space, settings(Objective::PerCall(calls), Strategy::Races, BY_CALL_SHARE))
                .map_err(|error| usage(error.to_string()))?;
        (state.by_call, state.way) = (Some(search), Some(way));
    }
    (state.parts, state.before, state.nodes) = (parts, before, nodes);
    state.basis = Some(basis);
    (state.backend, state.ranks, state.first_s) = (backend, ranks, first_s);
    state.nccl = here.nccl.map(|version| version.to_string());
    (state.variables_left_out, state.rungs_left_out) = (variables_left_out, rungs_left_out);
    Ok(state)
}

/// A launch in the user's own environment: its records, and the seconds that it took.
fn first_launch(job: &mut Job<'_>) -> Result<(Vec<Folded>, f64)> {
    let launched = job.launch(&[], &[], BATCHES)?;
    if job.is_interrupted() {
        let text = "interrupted in the first launch: nothing is known yet";
        return Err(ExitError::new(Exit::Interrupted, text).into());
    }
    if let Some((code, text)) = launched.launches.iter().find_map(|one| one.failure.as_ref()) {
        let exit = [Exit::Usage, Exit::Timeout, Exit::Impossible, Exit::WrongData];
        let exit = exit.into_iter().find(|exit| exit.code() == *code).unwrap_or(Exit::Library);
        let text = format!("without any tuning it fails, repair that first: {text}");
        return Err(ExitError::new(exit, text).into());
    }
    Ok((trial::records(launched.launches), launched.took_s))
}

/// Refuses to go on where NCCL, the hosts or the environment are not those of the beginning, by a launch without any tuning.
///
/// # Errors
/// They differ, or the launch fails.
pub(super) fn as_it_was(state: &State, job: &mut Job<'_>) -> Result<()> {
    let Some(basis) = &state.basis else { return Ok(()) };
    let refused = |differs: String| {
        let text = format!(
            "--resume: its launches cannot be compared with those of now. {differs}. Restore that, or begin a new tuning"
        );
        ExitError::new(Exit::Usage, text)
    };
    let present = here::present(job.net());
    if let Some(differs) = basis.other_environment(&present) {
        return Err(refused(differs).into());
    }
    say("a launch in your own environment: whether all is as it was");
    let (records, _) = first_launch(job)?;
    match basis.other_place(&Basis::of(&records, &here::here(&records)?, &present)) {
        Some(differs) => Err(refused(differs).into()),
        None => Ok(()),
    }
}

/// The weights of the calls that were measured: each size counts for the nearest of them.
fn nearest(weights: Vec<(Call, f64)>, calls: &[Call]) -> Vec<(Call, f64)> {
    let mut all: Vec<(Call, f64)> = Vec::new();
    for (wanted, many) in weights {
        let distance =
            |call: &Call| ((call.size.max(1) as f64).ln() - (wanted.size.max(1) as f64).ln()).abs();
        let alike = calls.iter().filter(|call| call.operation == wanted.operation);
        let Some(call) = alike.min_by(|a, b| distance(a).total_cmp(&distance(b))) else { continue };
        match all.iter_mut().find(|(known, _)| known == call) {
            Some((_, sum)) => *sum += many,
            None => all.push((call.clone(), many)),
        }
    }
    all
}

/// What the first launch gave, and where NCCL joins ranks of a node past the network, what the inside of the nodes gives by
/// itself, and the network alone.
fn parts(job: &mut Job<'_>, first: &[Folded], here: &Here) -> Result<Vec<Part>> {
    let said = |records: &[Folded]| -> Vec<String> {
        records.iter().map(|record| explain::summary(record.clone(), None)).collect()
    };
    let as_it_is = Part { name: "as it is".to_owned(), sets: Vec::new(), said: said(first) };
    let is_past_it =
        |transport: &Transport| matches!(transport, Transport::P2p { .. } | Transport::Shm { .. });
    let mut facts = first.iter().flat_map(|record| &record.library);
    let joins = facts.any(|facts| facts.transports.iter().any(|ends| is_past_it(&ends.transport)));
    if here.nccl.is_none() || !joins {
        return Ok(vec![as_it_is]);
    }
    let mut part = |name: &str, sets: &[(&str, &str)]| -> Result<Part> {
        let set = |(name, value): &(&str, &str)| Assignment {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
        };
        let sets: Vec<Assignment> = sets.iter().map(set).collect();
        let launched = job.launch(&sets, &[], BATCHES)?;
        let failed = launched.launches.iter().find_map(|one| one.failure.as_ref());
        let said = match failed {
            Some((_, text)) => vec![format!("it failed: {text}")],
            None => said(&trial::records(launched.launches)),
        };
        Ok(Part { name: name.to_owned(), sets, said })
    };
    let mut parts = vec![as_it_is];
    if let Some(by_node) = first.first().and_then(|record| by_node(&record.run.devices)) {
        parts.push(part("the inside of each node", &[(SPLIT, by_node.as_str())])?);
    }
    parts.push(part("the network alone", &[("NCCL_P2P_DISABLE", "1"), ("NCCL_SHM_DISABLE", "1")])?);
    Ok(parts)
}

/// The split into a communicator for each node, where nodes have two ranks or more, as many each, in blocks.
fn by_node(devices: &[Device]) -> Option<String> {
    let first = devices.first()?;
    let each = devices.iter().take_while(|device| device.host == first.host).count();
    let nodes: Vec<&[Device]> = devices.chunks(each).collect();
    let alike = |node: &&[Device]| {
        node.len() == each && node.iter().all(|device| device.host == node[0].host)
    };
    let distinct: BTreeSet<&str> = nodes.iter().map(|node| node[0].host.as_str()).collect();
    let is_even = nodes.iter().all(alike) && distinct.len() == nodes.len();
    (each > 1 && nodes.len() > 1 && is_even).then(|| format!("DIV {each}"))
}

/// What is wrong with the runs of these records: findings that cost speed or spoil data.
fn wrong(records: Vec<Folded>) -> Vec<Finding> {
    let runs = records.into_iter().map(|record| Measurement::from_record(record, "")).collect();
    let explanations = explain::explain(runs, &Hardware::default());
    let findings = explanations.into_iter().flat_map(|one| one.findings);
    findings.filter(|finding| finding.severity >= Severity::Slow).collect()
}

/// Whether algorithm and protocol are searched by call, within the best environment: set for all calls they are good for some.
fn has_calls(here: &Here, arguments: &TuneArguments) -> bool {
    arguments.search && here.nccl.is_some() && here.collectives
}

/// Nodes of the first communicator.
fn nodes(facts: &NcclFacts) -> Option<u32> {
    facts.communicators.iter().find_map(|communicator| communicator.nodes)
}

/// The values that the user lists, by name. An option that is listed as not set stands for its default.
fn listed(lists: &[String]) -> Result<Listed> {
    let usage = |text: String| ExitError::new(Exit::Usage, text);
    let mut listed = Listed::new();
    for list in lists {
        let (dashes, rest) =
            list.strip_prefix("--").map_or(("", list.as_str()), |rest| ("--", rest));
        let (name, mut values) = sweep::read_values(rest).map_err(usage)?;
        if !dashes.is_empty() {
            values.iter_mut().for_each(|value| {
                value.get_or_insert_with(|| here::BUSBW.to_owned());
            });
        }
        listed.entry(format!("{dashes}{name}")).or_default().extend(values);
    }
    catalogue::hold_names(listed.keys().map(String::as_str))
        .map_err(|error| usage(error.to_string()))?;
    Ok(listed)
}

/// Lists busbw's net plugin among the values of what selects one: of the option on the `net` backend, where another plugin joins
/// the ranks; of NCCL's variable, where NCCL's own sockets do.
fn add_plugin(here: &mut Here, job: &Job<'_>, listed: &mut Listed) {
    if here.net_backend {
        if !here.busbw_net {
            let values = listed.entry(here::NET.to_owned()).or_default();
            if values.is_empty() {
                values.push(Some(here::BUSBW.to_owned()));
            }
            here.busbw_net = values.iter().flatten().any(|value| value == here::BUSBW);
        }
        return;
    }
    if let Some(values) = listed.get(NET_PLUGIN) {
        here.busbw_net |= values.iter().flatten().any(|value| value.contains(here::BUSBW));
        return;
    }
    let is_set = std::env::var_os(NET_PLUGIN).is_some();
    if here.nccl.is_none() || !here.sockets || is_set || job.placement().is_some() {
        return;
    }
    match embedded::path(Plugin::Net) {
        Ok(path) => {
            let value = Some(path.to_string_lossy().into_owned());
            listed.insert(NET_PLUGIN.to_owned(), vec![value]);
            here.busbw_net = true;
        }
        Err(error) => say(&format!("busbw's net plugin is not tried: {error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(hosts: &str) -> Vec<Device> {
        let device = |(rank, host): (usize, char)| Device {
            rank,
            group: 0,
            pid: 1,
            host: host.to_string(),
            device: 0,
            address: String::new(),
            name: String::new(),
            bound: None,
        };
        hosts.chars().enumerate().map(device).collect()
    }

    #[test]
    fn nodes_by_themselves() {
        assert_eq!(by_node(&devices("aabb")).as_deref(), Some("DIV 2"));
        assert_eq!(by_node(&devices("aaabbbccc")).as_deref(), Some("DIV 3"));
        // One node, one rank each, uneven nodes, ranks that take turns.
        for hosts in ["aa", "ab", "aab", "abab", "aabbaa", "aabc", ""] {
            assert_eq!(by_node(&devices(hosts)), None, "{hosts}");
        }
    }
}
