//! Whether an interface is slow, or interfaces share a link: launches over busbw's net plugin with all interfaces, with one alone,
//! and with those that are in doubt.
//! Not what follows from their figures (`busbw_analysis::interfaces`).

use anyhow::Result;
use busbw_analysis::interfaces::{self, Carried};
use busbw_core::{finding::Finding, quantity::rate, record::Folded};
use busbw_tune::{Assignment, catalogue::Here, tuned::Part};

use super::{BATCHES, here, job::Job, trial};

/// The variable by which NCCL's sockets and busbw's net plugin choose interfaces; `=` names them exactly.
const INTERFACES: &str = "NCCL_SOCKET_IFNAME";
/// Seconds of the row of each launch: enough for the rates of paths.
const ROW_S: &str = "1";

/// What the interfaces carry, and what is wrong with them; `None` where there are no two over which busbw's plugin reaches other
/// hosts. Only interfaces are used that the user's own environment uses, and fewer of them.
///
/// # Errors
/// A process cannot be started.
pub(super) fn look(
    job: &mut Job<'_>,
    here: &Here,
    first: &[Folded],
) -> Result<Option<(Part, Vec<Finding>)>> {
    let over_busbw = first.iter().any(|record| !record.paths.is_empty());
    let is_alone = over_busbw && of_records(first).is_none();
    // NCCL's own sockets join the ranks: which interfaces busbw's plugin would use is not known.
    let is_nccls = !over_busbw && !here.net_backend;
    if !here.busbw_net || !job.is_elsewhere() || is_alone || is_nccls {
        return Ok(None);
    }
    let mut look = Look { job, plugin: Vec::new() };
    if !over_busbw && here.net_backend {
        let value = Some(here::BUSBW.to_owned());
        look.plugin.push(Assignment { name: here::NET.to_owned(), value });
    }
    let Some(together) = look.launch(&[])? else { return Ok(None) };
    let part = Part {
        name: "interfaces together".to_owned(),
        sets: look.plugin.clone(),
        said: said(&together),
    };
    let Some(doubted) = interfaces::doubted(&together) else {
        return Ok(Some((part, Vec::new())));
    };
    let mut alone = Vec::new();
    for one in doubted.slower.iter().chain([&doubted.fastest]) {
        alone.extend(look.launch(std::slice::from_ref(one))?.unwrap_or_default());
    }
    let fast = interfaces::fast_alone(&doubted, &alone);
    let several = match fast.len() {
        0 | 1 => Vec::new(),
        _ => look.launch(&fast)?.unwrap_or_default(),
    };
    Ok(Some((part, interfaces::judge(&doubted, &together, &alone, &several))))
}

/// Launches over busbw's net plugin.
struct Look<'a, 'b> {
    job: &'a mut Job<'b>,
    /// What selects the plugin.
    plugin: Vec<Assignment>,
}

impl Look<'_, '_> {
    /// What each interface carries where these are used, or all of them; `None` where it failed or one interface alone is there.
    fn launch(&mut self, interfaces: &[String]) -> Result<Option<Vec<Carried>>> {
        let mut sets = self.plugin.clone();
        if !interfaces.is_empty() {
            let value = Some(format!("={}", interfaces.join(",")));
            sets.push(Assignment { name: INTERFACES.to_owned(), value });
        }
        let largest = self.job.plan().sizes().max().unwrap_or(1 << 20).to_string();
        let words = ["-b", &largest, "-e", &largest, "--row-time", ROW_S];
        let words: Vec<_> = words.iter().map(Into::into).collect();
        let launched = self.job.launch(&sets, &words, BATCHES)?;
        if launched.has_failed() {
            return Ok(None);
        }
        let records = trial::records(launched.launches);
        let carried: Vec<Carried> =
            records.iter().flat_map(|record| interfaces::carried(&record.paths)).collect();
        Ok((!carried.is_empty()).then_some(carried))
    }
}

/// What the interfaces carried in these records, where a host has two.
fn of_records(records: &[Folded]) -> Option<Vec<Carried>> {
    let all: Vec<Carried> =
        records.iter().flat_map(|record| interfaces::carried(&record.paths)).collect();
    let is_beside = |one: &Carried| {
        all.iter().any(|other| other.host == one.host && other.interface != one.interface)
    };
    all.iter().any(is_beside).then_some(all)
}

/// `host-a: eth1 0.24, eth2 0.25 Gb/s of busy paths`, a line a host.
fn said(all: &[Carried]) -> Vec<String> {
    let mut hosts: Vec<&str> = all.iter().map(|one| one.host.as_str()).collect();
    hosts.dedup();
    let line = |host: &str| {
        let own = all.iter().filter(|one| one.host == host);
        let each: Vec<String> =
            own.map(|one| format!("{} {}", one.interface, rate(one.rate * 8.0))).collect();
        format!("{host}: {} Gb/s while busy", each.join(", "))
    };
    hosts.into_iter().map(line).collect()
}
