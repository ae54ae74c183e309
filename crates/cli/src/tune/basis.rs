//! What the outcome of a tuning depends on beside what it tries: NCCL's release, the hosts, and the user's own environment; a tuning
//! that goes on must find it as it was.
//! Not the options, which a tuning that goes on takes from its beginning.

use std::collections::{BTreeMap, BTreeSet};

use busbw_core::record::Folded;
use busbw_store as store;
use busbw_tune::catalogue::Here;
use serde::{Deserialize, Serialize};

/// Beginnings of the names of variables that change what is measured. Those of launchers change with every job.
const COUNTED: [&str; 6] = ["NCCL_", "RCCL_", "UCX_", "CUDA_", "BUSBW_NET", "--"];
/// Of these, what belongs to one job or one shell.
const OF_ONE_JOB: [&str; 2] = ["NCCL_COMM_ID", "CUDA_MPS_PIPE_DIRECTORY"];

/// What an outcome depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Basis {
    nccl: Option<String>,
    hosts: BTreeSet<String>,
    /// Variables and options, secrets masked.
    environment: BTreeMap<String, String>,
}

impl Basis {
    /// By a launch in the user's own environment, which `present` has.
    pub(super) fn of(records: &[Folded], here: &Here, present: &BTreeMap<String, String>) -> Basis {
        let devices = records.iter().flat_map(|record| &record.run.devices);
        Basis {
            nccl: here.nccl.map(|version| version.to_string()),
            hosts: devices.map(|device| device.host.clone()).collect(),
            environment: counted(present),
        }
    }

    /// How the environment differs from that of `self`, if it does: no launch is needed to know.
    pub(super) fn other_environment(&self, present: &BTreeMap<String, String>) -> Option<String> {
        let now = counted(present);
        let names: BTreeSet<&String> = self.environment.keys().chain(now.keys()).collect();
        let value = |all: &BTreeMap<String, String>, name: &String| {
            all.get(name).map_or("not set".to_owned(), |value| format!("{name}={value}"))
        };
        let name = names.into_iter().find(|name| self.environment.get(*name) != now.get(*name))?;
        let (was, is) = (value(&self.environment, name), value(&now, name));
        Some(format!("{name}: it began with {was}, and now it is {is}"))
    }

    /// How NCCL or the hosts of `now` differ from those of `self`, if they do.
    pub(super) fn other_place(&self, now: &Basis) -> Option<String> {
        let nccl = |one: &Basis| one.nccl.clone().unwrap_or("no NCCL".to_owned());
        let hosts = |one: &Basis| one.hosts.iter().cloned().collect::<Vec<_>>().join(", ");
        if self.nccl != now.nccl {
            return Some(format!(
                "NCCL: it began with {}, and now it is {}",
                nccl(self),
                nccl(now)
            ));
        }
        (self.hosts != now.hosts)
            .then(|| format!("hosts: it began on {}, and now it is {}", hosts(self), hosts(now)))
    }
}

fn counted(present: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_counted = |name: &str| {
        COUNTED.iter().any(|start| name.starts_with(start)) && !OF_ONE_JOB.contains(&name)
    };
    let all = present.iter().filter(|(name, value)| is_counted(name) && !value.is_empty());
    all.map(|(name, value)| (name.clone(), store::shown(name, value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named() {
        let all = |text: &str| -> BTreeMap<String, String> {
            let pairs = text.split_whitespace().filter_map(|one| one.split_once('='));
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let of = |text: &str| Basis { environment: counted(&all(text)), ..Basis::default() };
        let before = of("NCCL_ALGO=Ring NCCL_COMM_ID=a:1 HOME=/root --net=busbw");
        assert_eq!(before.other_environment(&all("NCCL_ALGO=Ring --net=busbw OMPI_X=1")), None);
        let other = before.other_environment(&all("--net=busbw")).unwrap();
        assert_eq!(other, "NCCL_ALGO: it began with NCCL_ALGO=Ring, and now it is not set");
        assert!(before.other_environment(&all("NCCL_ALGO=Ring --net=ofi")).is_some());
        let place = |nccl: &str, host: &str| Basis {
            nccl: Some(nccl.to_owned()),
            hosts: BTreeSet::from([host.to_owned()]),
            ..Basis::default()
        };
        assert_eq!(place("2.28.9", "a").other_place(&place("2.28.9", "a")), None);
        let other = place("2.28.9", "a").other_place(&place("2.32.3", "a")).unwrap();
        assert_eq!(other, "NCCL: it began with 2.28.9, and now it is 2.32.3");
        assert!(place("2.28.9", "a").other_place(&place("2.28.9", "b")).is_some());
    }
}
