//! RDMA writes between two hosts beside the collectives over the same ports: what their words are, and what proves them.
//! Not the writes (`busbw_runner`'s backend `verbs`), and not which layer loses what (`layers`).

use std::{collections::BTreeSet, ffi::OsString};

use busbw_analysis::sweep::{EvidenceSource, Scope, Support};
use busbw_core::{plan::Step, record::Folded};

use super::{
    machine::{Here, Port},
    networks::is_free,
    profile::{Profile, TransportKind},
};
use crate::{options::words_of_pairs, sweep::Prepared};

/// The longest message: adapters take 1 GiB, and bandwidth grows no more long before.
const MAX_BYTES: u64 = 1 << 30;
/// Messages of a window: enough to fill a link, and few where it is slow.
const WINDOW: &str = "16";
/// Options that name what moves the collective.
const OTHERS: [&str; 2] = ["--backend", "--net"];

/// The command of the writes: rank i of one host to rank i of the other, all at once, of the sizes of the job's rows.
///
/// # Errors
/// Why the job has none.
pub(super) fn words(prepared: &Prepared) -> Result<Vec<OsString>, String> {
    let plan = prepared.plan();
    if prepared.benchmark().collective().is_none() {
        return Err(format!("{}: --backend verbs measures it", prepared.benchmark().name()));
    }
    if prepared.rows() != plan.size_count() {
        return Err("rows of several types, operators or roots: name one of each".to_owned());
    }
    if plan.min_bytes > MAX_BYTES {
        return Err("messages have 1 GiB at most: name smaller sizes".to_owned());
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
    let families = ["ib", "roce"].into_iter().filter(|_| here.has_hosts());
    families.filter_map(|family| row(here, family)).collect()
}

fn row(here: &Here, family: &str) -> Option<Profile> {
    let free = |port: &&Port| port.family() == family && is_free(here, port);
    // A rank has one port: with fewer ranks than ports the first ones.
    let each_host = here.ranks.div_ceil(here.hosts.len());
    let ports: Vec<&Port> = here.ports.iter().filter(free).take(each_host).collect();
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
            let options = ["--backend", "verbs", "--ib-dev", &names.join(",")].map(OsString::from);
            profile.environment.instead = Some(words.iter().cloned().chain(options).collect());
        }
        Err(why) => profile.waived = Some(why.clone()),
    }
    Some(profile.unless((here.hosts.len() != 2).then(|| {
        "writes are measured between two hosts: name two, or busbw pairs --backend verbs for every pair"
            .to_owned()
    })))
}

/// Which ports the ranks wrote over, in every launch.
pub(super) fn evidence(ports: &[(String, u32)], records: &[&Folded]) -> (String, EvidenceSource) {
    let measured: Vec<&&Folded> = records.iter().filter(|record| !record.rows.is_empty()).collect();
    let name = |device: &str, port: u8| format!("{device}:{port}");
    let used = measured.iter().flat_map(|record| &record.verbs);
    let used: BTreeSet<String> = used.map(|facts| name(&facts.device, facts.port)).collect();
    let found = match used.is_empty() {
        true => String::new(),
        false => format!("RDMA writes ({})", used.iter().cloned().collect::<Vec<_>>().join(", ")),
    };
    let complete = measured.iter().all(|record| record.verbs.len() == record.run.devices.len());
    if measured.is_empty() || !complete {
        return (found, EvidenceSource::no_data("not every rank reported its port"));
    }
    let meant =
        |one: &String| ports.iter().any(|(device, port)| *one == format!("{device}:{port}"));
    let support = match used.iter().all(meant) {
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
