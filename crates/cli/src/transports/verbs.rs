//! RDMA writes between two hosts beside the collectives over the same ports: what their words are, and what proves them.
//! Not the writes (`busbw_runner`'s backend `verbs`), and not which layer loses what (`layers`).

use std::{collections::BTreeSet, ffi::OsString};

use busbw_analysis::sweep::{EvidenceSource, Scope, Support};
use busbw_core::{messages::Messages, plan::Step, record::Folded};

use super::{
    machine::{Here, Port},
    networks::is_free,
    profile::{Profile, TransportKind},
};
use crate::{
    options::words_of_pairs,
    sweep::{Prepared, Variable},
};

/// The longest message: bandwidth grows no more long before.
const MAX_BYTES: u64 = 64 << 20;
/// Messages of a window: enough to fill a link, and few where it is slow.
const WINDOW: &str = "16";
/// Options of what moves the collective.
const OTHERS: [&str; 6] =
    ["--backend", "--net", "--tuner", "--algorithm", "--min-ctas", "--max-ctas"];
/// Variables of the job that its messages have no part in.
const GATES: [&str; 3] = ["NCCL_TESTS_MIN_BW", "NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK"];
/// What NCCL's packets have that decides their queue in the switches, and the option that gives it to the writes.
const CLASSES: [(&str, &str); 3] =
    [("NCCL_IB_TC", "--tclass"), ("NCCL_IB_SL", "--sl"), ("NCCL_IB_GID_INDEX", "--gid-index")];

/// The command of the writes: rank i of one host to rank i of the other, all at once, of the sizes of the job's rows.
///
/// # Errors
/// Why the job has none.
pub(super) fn words(prepared: &Prepared) -> Result<Vec<OsString>, String> {
    let plan = prepared.plan();
    let Some(collective) = prepared.benchmark().collective() else {
        return Err(format!("{}: --backend verbs measures it", prepared.benchmark().name()));
    };
    if !collective.moves_data() {
        return Err(format!("{} moves nothing", collective.name()));
    }
    if plan.ranks_each() != 1 {
        return Err("a rank of these writes is a process: start one for each GPU".to_owned());
    }
    if !plan.ranks().is_multiple_of(2) {
        return Err("an odd number of ranks has no pairs between two hosts".to_owned());
    }
    if prepared.rows() != plan.size_count() {
        return Err("rows of several types, operators or roots: name one of each".to_owned());
    }
    if plan.min_bytes > MAX_BYTES {
        return Err("messages have 64 MiB at most: name smaller sizes".to_owned());
    }
    let mut words = ["mbw_mr", "-W", WINDOW].map(OsString::from).to_vec();
    words.extend(without(&words_of_pairs(&prepared.words[1..]), &OTHERS));
    let (step, by) = match plan.step {
        Step::Factor(factor) => ("-f", factor),
        Step::Bytes(bytes) => ("-i", bytes),
    };
    let sizes = [("-b", plan.min_bytes), ("-e", plan.max_bytes.min(MAX_BYTES)), (step, by)];
    words.extend(sizes.iter().flat_map(|(name, value)| [name.into(), value.to_string().into()]));
    Ok(words)
}

/// The words without options that have a value each.
fn without(words: &[OsString], options: &[&str]) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        match text.split_once('=') {
            Some((name, _)) if options.contains(&name) => {}
            _ if options.contains(&text.as_ref()) => {
                rest.next();
            }
            _ => kept.push(word.clone()),
        }
    }
    kept
}

/// A row for each kind of ports between hosts.
pub(super) fn rows(here: &Here) -> Vec<Profile> {
    if !here.has_hosts() {
        return Vec::new();
    }
    let all: Vec<Profile> =
        ["ib", "roce"].into_iter().filter_map(|family| row(here, family)).collect();
    if !all.is_empty() {
        return all;
    }
    let none = TransportKind::Verbs { ports: Vec::new() };
    vec![Profile::waived("verbs", none, "no RDMA port is there on all hosts and free to use")]
}

fn row(here: &Here, family: &str) -> Option<Profile> {
    let free = |port: &&Port| port.family() == family && is_free(here, port);
    let mut ports: Vec<&Port> = here.ports.iter().filter(free).collect();
    // A rank has one port, and each port equally many ranks.
    let ranks = here.ranks.div_ceil(here.hosts.len());
    let used = (1..=ports.len().min(ranks)).rev().find(|used| ranks.is_multiple_of(*used));
    ports.truncate(used.unwrap_or(0));
    if ports.is_empty() {
        return None;
    }
    let names: Vec<String> =
        ports.iter().map(|port| format!("{}:{}", port.device, port.number)).collect();
    let kind = TransportKind::Verbs {
        ports: ports.iter().map(|port| (port.device.clone(), port.number)).collect(),
    };
    let mut profile = Profile::new(&format!("verbs:{family}"), kind, Scope::Between, &[]);
    match &here.writes {
        Ok(words) => {
            let mut options = vec!["--backend", "verbs", "--ib-dev"];
            let list = names.join(",");
            options.push(&list);
            for (variable, option) in CLASSES {
                // NCCL takes other numbers for unset, as -1, and so do the writes without the option.
                let value = here.variables.get(variable).map(|value| value.trim());
                let value = value.filter(|value| value.parse::<u8>().is_ok());
                options.extend(value.into_iter().flat_map(|value| [option, value]));
            }
            let options = options.into_iter().map(OsString::from);
            profile.environment.instead = Some(words.iter().cloned().chain(options).collect());
            let set = GATES.iter().filter(|name| here.variables.contains_key(**name));
            let unset = set.map(|name| Variable { name: (*name).to_owned(), value: None });
            profile.environment.variables.extend(unset);
        }
        Err(why) => profile.waived = Some(why.clone()),
    }
    Some(profile.unless((here.hosts.len() != 2).then(|| {
        "writes are measured between two hosts: name two, or busbw pairs --backend verbs for every pair"
            .to_owned()
    })))
}

/// Which ports the ranks wrote over, and whether to the other host, in every launch.
pub(super) fn evidence(ports: &[(String, u32)], records: &[&Folded]) -> (String, EvidenceSource) {
    let measured: Vec<&&Folded> = records.iter().filter(|record| !record.rows.is_empty()).collect();
    let used = measured.iter().flat_map(|record| &record.verbs);
    let used: BTreeSet<String> =
        used.map(|facts| format!("{}:{}", facts.device, facts.port)).collect();
    let found = match used.is_empty() {
        true => String::new(),
        false => format!("RDMA writes ({})", used.iter().cloned().collect::<Vec<_>>().join(", ")),
    };
    let complete = measured.iter().all(|record| record.verbs.len() == record.run.devices.len());
    if measured.is_empty() || !complete {
        return (found, EvidenceSource::no_data("not every rank reported its port"));
    }
    let within = measured.iter().find_map(|record| {
        let host = |rank: usize| record.run.devices.get(rank).map(|device| &device.host);
        let pairs = record.run.plan.pairs(Messages::MultiBandwidth);
        pairs.into_iter().find(|(from, to)| host(*from) == host(*to))
    });
    if let Some((from, to)) = within {
        let detail =
            format!("ranks {from} and {to} are on one host: rank i writes to rank i + n/2");
        return (found, EvidenceSource { support: Support::Contradicts, detail });
    }
    let asked: BTreeSet<String> =
        ports.iter().map(|(device, port)| format!("{device}:{port}")).collect();
    let support = match used == asked {
        true => Support::Confirms,
        false => Support::Contradicts,
    };
    (found.clone(), EvidenceSource { support, detail: found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transports::{machine::JobHost, profile::profiles};

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn what_moves_the_collective_is_left_out() {
        let line = "-H a:4,b:4 --backend net --net=busbw --launcher ssh --backend=nccl";
        assert_eq!(without(&words(line), &OTHERS), words("-H a:4,b:4 --launcher ssh"));
    }

    fn between(hosts: &[&str], ranks: usize) -> Vec<String> {
        let host = |name: &&str| {
            let ports = [("mlx5_0", false), ("mlx5_1", false), ("mlx5_2", true)];
            JobHost::made_up(name, &[("eth0", 1.0)], &ports, None)
        };
        let here = Here::rehearsal(ranks).on(hosts.iter().map(host).collect());
        let beside = profiles(&here).into_iter().filter(Profile::is_beside);
        let said = beside.map(|profile| {
            let waived = profile.waived.as_ref().map_or(String::new(), |why| format!(": {why}"));
            format!("{}: {}{waived}", profile.name(), profile.environment.shown_options().join(" "))
        });
        said.collect()
    }

    #[test]
    fn a_row_for_each_kind_of_ports() {
        let writes = "busbw mbw_mr --backend verbs --ib-dev";
        let both = [
            format!("verbs:ib: {writes} mlx5_0:1,mlx5_1:1"),
            format!("verbs:roce: {writes} mlx5_2:1"),
        ];
        assert_eq!(between(&["a", "b"], 8), both);
        // One rank a host has one port.
        assert_eq!(between(&["a", "b"], 2)[0], format!("verbs:ib: {writes} mlx5_0:1"));
        assert_eq!(between(&["a"], 8), [""; 0]);
        assert!(between(&["a", "b", "c"], 12)[0].contains("between two hosts"));
    }
}
