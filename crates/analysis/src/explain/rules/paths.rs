//! What busbw's net plugin counted on its paths: some slower than the others, segments sent again, paths lost,
//! interfaces that carried nothing; or that all of this is well.
//! Not the counting (`nccl_plugin_abi::net_stats`; docs/plugin.md).
//!
//! The plugin sends fewer bytes over a slow path, so paths are compared by their rate while busy, and only
//! within one connection: other connections had other work at other times.

mod interfaces;
mod lost;
mod retransmits;
mod slow;

use std::{collections::BTreeSet, net::IpAddr};

use nccl_plugin_abi::net_stats::{NetConnection, NetPath, NetStats, PathState};

use super::super::context::{Context, plural};
use busbw_core::finding::{Confidence, Finding, Severity};
use busbw_core::quantity::decimal_bytes as bytes;
use busbw_core::quantity::{count, rate};

/// Minimum of bytes sent before paths are compared.
const MIN_BYTES_TO_COMPARE: u64 = 8 << 20;
/// Maximum of paths listed as evidence.
const MAX_PATHS_LISTED: usize = 4;

/// A connection and its process.
#[derive(Clone, Copy)]
struct Counted<'a> {
    process: &'a NetStats,
    connection: &'a NetConnection,
}

impl Counted<'_> {
    /// Whether the peer is on the same host, with no link between.
    fn is_within_host(self) -> bool {
        let peer = self.connection.peer;
        peer.is_loopback() || self.process.interfaces.iter().any(|one| one.address == peer)
    }

    /// Whether the connection is closed: all its paths are gone.
    fn is_closed(self) -> bool {
        self.connection.paths.iter().all(|path| path.state == PathState::Absent)
    }
}

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let all: Vec<Counted<'_>> = context.run.paths.iter().flat_map(of_process).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let between: Vec<Counted<'_>> =
        all.iter().copied().filter(|seen| !seen.is_within_host()).collect();
    let found = [
        slow::check(&between),
        retransmits::check(&between),
        lost::check(&all, &context.run.paths),
        interfaces::check(&between),
    ];
    let found: Vec<Finding> = found.into_iter().flatten().collect();
    if found.is_empty() { vec![nothing_found(&all, &context.run.paths)] } else { found }
}

fn of_process(process: &NetStats) -> impl Iterator<Item = Counted<'_>> {
    process.connections.iter().map(move |connection| Counted { process, connection })
}

/// The note where no rule found anything.
fn nothing_found(all: &[Counted<'_>], processes: &[NetStats]) -> Finding {
    let sent = processes.iter().fold(0u64, |sum, one| sum.saturating_add(one.totals().bytes));
    if sent < MIN_BYTES_TO_COMPARE {
        let cause = format!("busbw's net plugin sent {}: too little to compare paths", bytes(sent));
        return Finding::new("paths", Severity::Note, cause).confidence(Confidence::Certain);
    }
    let paths: usize = all.iter().map(|seen| seen.connection.paths.len()).sum();
    let hosts: BTreeSet<IpAddr> = all.iter().map(|seen| seen.connection.peer).collect();
    let mut cause = format!(
        "{} of {} to {} sent {}: no path was lost, and none is much slower than the others",
        count(paths as u64, "path"),
        count(all.len() as u64, "connection"),
        count(hosts.len() as u64, "host"),
        bytes(sent),
    );
    if let Some(busiest) = all.iter().max_by_key(|seen| seen.connection.bytes()) {
        let sum: f64 = busiest.connection.paths.iter().filter_map(NetPath::rate).sum();
        let peer = busiest.connection.peer;
        cause += &format!(
            "; the paths of the busiest connection, to {peer}, carry {} Gb/s together while busy",
            rate(sum * 8.0)
        );
    }
    Finding::new("paths", Severity::Note, cause).confidence(Confidence::Certain)
}

/// `10.0.0.1:4711 to 10.0.0.2:49205`, or `mlx5_0:1 to 10.0.0.2`.
fn ends(path: &NetPath) -> String {
    match (&path.port, path.local) {
        (Some(port), _) => format!("{port} to {}", path.remote.ip()),
        (None, Some(local)) => format!("{local} to {}", path.remote),
        (None, None) => format!("to {}", path.remote),
    }
}

/// `3 of 16 paths to 10.0.0.2`, or of several connections.
fn which(paths: usize, connections: &[Counted<'_>]) -> String {
    let all: usize = connections.iter().map(|seen| seen.connection.paths.len()).sum();
    match connections {
        [only] => {
            format!("{paths} of {all} {} to {}", plural(all, "path"), only.connection.peer)
        }
        several => format!("{paths} of {all} paths of {} connections", several.len()),
    }
}
