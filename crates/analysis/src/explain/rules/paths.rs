//! What busbw's net plugin counted on its paths: some slower than the others, segments sent again, paths lost,
//! interfaces that carried nothing; or that all of this is well.
//! Not the counting (`nccl_plugin_abi::net_stats`; docs/plugin.md).
//!
//! A slow path is given fewer bytes, so that paths are compared by their rates while something was under way, and only
//! within one connection: others had other work, at other times.

mod interfaces;
mod lost;
mod retransmits;
mod slow;

use std::{collections::BTreeSet, net::IpAddr};

use nccl_plugin_abi::net_stats::{NetConnection, NetPath, NetStats, PathState};

use super::super::{
    context::{Context, plural},
    finding::{Confidence, Finding, Weight},
};
use busbw_core::quantity::decimal_bytes as bytes;
use busbw_core::quantity::{count, rate};

/// Less than this says nothing of paths, in bytes.
const LITTLE: u64 = 8 << 20;
/// Paths that are shown as evidence.
const SHOWN: usize = 4;

/// A connection, and the process that it is of.
#[derive(Clone, Copy)]
struct Seen<'a> {
    process: &'a NetStats,
    connection: &'a NetConnection,
}

impl Seen<'_> {
    /// Whether the other end is on the same host: there is no link between them.
    fn is_within_host(self) -> bool {
        let peer = self.connection.peer;
        peer.is_loopback() || self.process.interfaces.iter().any(|one| one.address == peer)
    }

    /// Whether no path is left: how they are now is not how they were.
    fn is_over(self) -> bool {
        self.connection.paths.iter().all(|path| path.state == PathState::Absent)
    }
}

pub(super) fn look(context: &Context<'_>) -> Vec<Finding> {
    let all: Vec<Seen<'_>> = context.run.paths.iter().flat_map(of_process).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let between: Vec<Seen<'_>> =
        all.iter().copied().filter(|seen| !seen.is_within_host()).collect();
    let found = [
        slow::look(&between),
        retransmits::look(&between),
        lost::look(&all, &context.run.paths),
        interfaces::look(&between),
    ];
    let found: Vec<Finding> = found.into_iter().flatten().collect();
    if found.is_empty() { vec![well(&all, &context.run.paths)] } else { found }
}

fn of_process(process: &NetStats) -> impl Iterator<Item = Seen<'_>> {
    process.connections.iter().map(move |connection| Seen { process, connection })
}

/// Nothing stands out.
fn well(all: &[Seen<'_>], processes: &[NetStats]) -> Finding {
    let sent = processes.iter().fold(0u64, |sum, one| sum.saturating_add(one.totals().bytes));
    if sent < LITTLE {
        let cause = format!(
            "busbw's net plugin sent {}: too little to tell one path from the other",
            bytes(sent)
        );
        return Finding::new("paths", Weight::Note, Confidence::Certain, cause);
    }
    let paths: usize = all.iter().map(|seen| seen.connection.paths.len()).sum();
    let hosts: BTreeSet<IpAddr> = all.iter().map(|seen| seen.connection.peer).collect();
    let mut said = format!(
        "{} of {} to {} sent {}: none was lost, and none is much slower than its siblings",
        count(paths as u64, "path"),
        count(all.len() as u64, "connection"),
        count(hosts.len() as u64, "host"),
        bytes(sent),
    );
    if let Some(busiest) = all.iter().max_by_key(|seen| seen.connection.bytes()) {
        let sum: f64 = busiest.connection.paths.iter().filter_map(NetPath::rate).sum();
        let peer = busiest.connection.peer;
        said += &format!(
            "; those of the busiest, to {peer}, carry {} Gb/s together while busy",
            rate(sum * 8.0)
        );
    }
    Finding::new("paths", Weight::Note, Confidence::Certain, said)
}

/// `10.0.0.1:4711 to 10.0.0.2:49205`.
fn ends(path: &NetPath) -> String {
    match path.local {
        Some(local) => format!("{local} to {}", path.remote),
        None => format!("to {}", path.remote),
    }
}

/// `3 of 16 paths to 10.0.0.2`, or of several connections.
fn which(paths: usize, connections: &[Seen<'_>]) -> String {
    let all: usize = connections.iter().map(|seen| seen.connection.paths.len()).sum();
    match connections {
        [only] => {
            format!("{paths} of {all} {} to {}", plural(all, "path"), only.connection.peer)
        }
        several => format!("{paths} of {all} paths of {} connections", several.len()),
    }
}
